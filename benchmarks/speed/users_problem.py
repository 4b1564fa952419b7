"""Very many users: ten parameters, exact noise, float32."""

DIMENSION = 10
RUNS = (  # users, steps, which losses stay in memory, and of how many earlier points
    (10_000_000, 3, "all", 0),
    (10_000_000, 3, "none", 0),
    (10_000_000, 25, "recent", 33),
    (1_000_000, 25, "all", 0),
    (1_000_000, 25, "recent", 33),
)
SETTINGS = {"mu": 1.0, "step_size": 0.5}
LOSS = "sqrt(1 + |x_i - theta|^2) - 1"
