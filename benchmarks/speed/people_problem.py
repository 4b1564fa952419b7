"""Visits of people in Parquet files, with ids of 64 bits, for ``scripts/bench people``."""

ROWS, PEOPLE, SLOTS, MAX_ROWS, FILES = 10**8, 2 * 10**7, 2 * 10**7, 6, 20
EPSILON, DELTA, STEPS = 0.1, 1e-9, 3
LOSS = "the mean over a person's rows of |a - point| + |b - point|, at most 6; a and b of mean 0.3 and deviation 1"
HIGH = 6.0
