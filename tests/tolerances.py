"""How closely results are compared: tests run in float64, and some also in float32, as users' programs do."""

import jax.numpy as jnp


def rtol(of_doubles: float, digits: float = 30.0) -> float:
    """``of_doubles`` in float64; in float32 ``digits`` units of the last place."""
    return of_doubles if jnp.result_type(float) == jnp.float64 else digits * float(jnp.finfo(jnp.float32).eps)
