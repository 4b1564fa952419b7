"""Measurements against peers; run by ``scripts/bench NAME``."""

NAMES = ("dp_gibo", "dp_gp_ucb", "po_gp_ucb", "dpareto", "dp_sgd", "secure", "first_answer")
