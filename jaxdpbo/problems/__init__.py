"""The objective and records of ``jaxdpbo demo``, and the example of ``jaxdpbo curator``."""

from jaxdpbo import _lazy

__getattr__, __dir__ = _lazy.lazy_modules(__name__, __path__)
