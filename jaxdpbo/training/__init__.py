"""Components of a DPareto search: models, differentially private optimisers, oracles of privacy and utility, objectives.

``objectives.objective`` joins them: it maps a setting to its epsilon and its error.
"""

from jaxdpbo import _lazy

__getattr__, __dir__ = _lazy.lazy_modules(__name__, __path__)
