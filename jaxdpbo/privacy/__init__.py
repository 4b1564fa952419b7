"""What may be released: mechanisms, accounting, guarantees; knows nothing of Gaussian processes."""

from jaxdpbo import _lazy

__getattr__, __dir__ = _lazy.modules_of(__name__, __path__)
