"""Very many users: ten parameters, exact noise, float32."""

DIMENSION = 10
RUNS = (  # users, steps, which losses stay in memory
    (10_000_000, 3, "all"),
    (10_000_000, 3, "none"),
    (1_000_000, 25, "all"),
)
SETTINGS = {"mu": 1.0, "step_size": 0.5}
LOSS = "sqrt(1 + |x_i - theta|^2) - 1"
