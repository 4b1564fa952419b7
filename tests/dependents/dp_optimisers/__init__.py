"""Two private optimisers as another library would write them: from the public names of jaxdpbo alone."""

from dp_optimisers import evolution_strategies, random_search

__all__ = ["evolution_strategies", "random_search"]
