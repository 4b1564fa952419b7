"""Private search in the interfaces of other libraries; each package needs the extra of its name."""

from jaxdpbo import _namespace

__getattr__, __dir__ = _namespace.lazy_modules(__name__, __path__)
