"""Private models and private hyper-parameter search in scikit-learn's interface; needs the ``sklearn`` extra."""

from jaxdpbo import _namespace
from jaxdpbo.integrations.sklearn._losses import LOSSES
from jaxdpbo.integrations.sklearn._private_models import PrivateClassifier, PrivateRegressor
from jaxdpbo.integrations.sklearn._scaling import scale
from jaxdpbo.integrations.sklearn._search import PrivateSearchCV

__all__ = ["LOSSES", "PrivateClassifier", "PrivateRegressor", "PrivateSearchCV", "scale"]
__dir__ = _namespace.list_public(__name__)
