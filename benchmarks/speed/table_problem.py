"""Users in Parquet files who do not fit in memory, for ``scripts/bench tables``."""

USERS, COLUMNS, FILES = 10**8, 10, 20
EPSILON, DELTA, STEPS = 0.1, 1e-9, 3
LOSS = "the sum of |x - point| over ten columns, at most 20; x of mean 0.3 and deviation 1 in every column"
HIGH = 20.0
