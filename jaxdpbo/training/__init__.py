"""What DPareto measures: models, differentially private optimisers, and the oracles of privacy and utility."""

from jaxdpbo import _lazy

__getattr__, __dir__ = _lazy.modules_of(__name__, __path__)
