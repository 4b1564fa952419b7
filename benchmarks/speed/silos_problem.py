"""Silos on one machine, for ``scripts/bench silos``."""

COUNTS = (2, 10, 50)
USERS, DIMENSION, STEPS = 1000, 10, 6  # users of a silo
LOSS = "the sum of |x - point| over ten columns, at most 20; x of mean 0.3 and deviation 1 in every column"
HIGH = 20.0
