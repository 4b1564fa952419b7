"""The papers' figures and tables, a package for each paper; run by ``scripts/reproduce``."""
