"""How good the searches are: each method of ``minimize`` on problems of many kinds; run by ``scripts/bench search``."""
