"""What DPareto measures: models, differentially private optimisers, the oracles of privacy and utility, and objectives.

``objectives.objective`` joins them: a setting in, its epsilon and its error out.
"""

from jaxdpbo import _lazy

__getattr__, __dir__ = _lazy.lazy_modules(__name__, __path__)
