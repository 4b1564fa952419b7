"""Private hyper-parameter search in scikit-learn's interface; needs the ``sklearn`` extra."""

from jaxdpbo.integrations.sklearn.losses import LOSSES
from jaxdpbo.integrations.sklearn.scaling import scale
from jaxdpbo.integrations.sklearn.search import PrivateSearchCV

__all__ = ["LOSSES", "PrivateSearchCV", "scale"]
