"""Private models and private hyper-parameter search in scikit-learn's interface; needs the ``sklearn`` extra."""

from jaxdpbo import namespace
from jaxdpbo.integrations.sklearn.losses import LOSSES
from jaxdpbo.integrations.sklearn.private_models import PrivateClassifier, PrivateRegressor
from jaxdpbo.integrations.sklearn.scaling import scale
from jaxdpbo.integrations.sklearn.search import PrivateSearchCV

__all__ = ["LOSSES", "PrivateClassifier", "PrivateRegressor", "PrivateSearchCV", "scale"]
__dir__ = namespace.list_public(__name__)
