"""A billion users who are nowhere at once: synthetic gradients, a shard at a time."""

USERS, SHARD = 10**9, 2**20
DIMENSION, STEPS, MU, CLIP_NORM = 3, 2, 1.0, 1.0
GRADIENT = "theta - x_i, x_i of mean 1/4 and deviation 1/2 in every coordinate"
