"""How good the searches are: every method of ``minimize`` on problems of many kinds; run by ``scripts/bench search``."""
