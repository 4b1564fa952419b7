"""Parts of a DPareto search: models, differentially private optimisers, privacy and utility oracles, objectives.

``objectives.objective`` joins them, from a setting to its epsilon and error.
"""

from jaxdpbo import _lazy

__getattr__, __dir__ = _lazy.lazy_modules(__name__, __path__)
