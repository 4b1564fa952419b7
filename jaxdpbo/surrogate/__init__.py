"""Models of the objective: Gaussian processes and acquisition functions; knows nothing of privacy."""

from jaxdpbo import _lazy

__getattr__, __dir__ = _lazy.modules_of(__name__, __path__)
