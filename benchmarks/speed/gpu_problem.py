"""Sizes of ``scripts/bench gpu``; a quick run takes the second of a pair. NumPy only."""

from typing import NamedTuple

USERS = (1_000_000, 10_000)  # of the sums that are compared
DRAWS = (1_000_000, 10_000)
PICKS = (1_000, 100)  # of candidates
SWEEPS = ((100, 1_000), (4, 8))  # seeds
GRADIENTS = ((1_000_000, 10_000_000), (10_000, 100_000))  # users
SETTINGS = (16, 1)  # of DP-SGD, ten trainings each
FRONT = (256, 4)  # proposals
BESIDE_BOTORCH = (16, 2)  # proposals, since each costs the peer a fit
POINTS, DIMENSION, RADIUS = 32, 10, 10_000  # of the clipped gradients: evaluations, parameters, the integers for B
REPEATS, SHARE = (5, 1), (20.0, 5.0)  # runs of a compiled program; no other begins after so many seconds of them
BEGIN, END = 420.0, 455.0  # seconds: no row begins later, and the process ends


class Sweep(NamedTuple):
    """DP-GIBO with exact noise."""

    users: int = 1_000
    dimension: int = 5
    steps: int = 10


SWEPT = Sweep()
