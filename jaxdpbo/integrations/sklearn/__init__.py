"""Private hyper-parameter search by scikit-learn's conventions; needs the ``sklearn`` extra."""

from jaxdpbo.integrations.sklearn.losses import LOSSES
from jaxdpbo.integrations.sklearn.scaling import scale
from jaxdpbo.integrations.sklearn.search import PrivateSearchCV

__all__ = ["LOSSES", "PrivateSearchCV", "scale"]
