"""Differentially private Bayesian optimisation in JAX."""

__version__ = "0.1.0"
