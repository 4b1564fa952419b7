"""The papers' objectives and the data they run on."""

from jaxdpbo import _lazy

__getattr__, __dir__ = _lazy.modules_of(__name__, __path__)
