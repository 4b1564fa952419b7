"""Private search in the interfaces of other libraries; each package needs the extra of its name."""

from typing import TYPE_CHECKING

from jaxdpbo import namespace

if TYPE_CHECKING:
    from jaxdpbo.integrations import flower, optuna, sklearn

__all__ = ["flower", "optuna", "sklearn"]
__getattr__ = namespace.import_on_first_use(__name__, *__all__)
__dir__ = namespace.list_public(__name__)
