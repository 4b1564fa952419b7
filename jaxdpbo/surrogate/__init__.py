"""Gaussian process models of the objective, and how to search them. No privacy here: see ``jaxdpbo.privacy``."""
