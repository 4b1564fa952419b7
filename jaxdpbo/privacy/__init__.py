"""What may be released: mechanisms, accounting, guarantees; knows nothing of Gaussian processes."""

from jaxdpbo import _lazy

__getattr__, __dir__ = _lazy.lazy_modules(__name__, __path__)
