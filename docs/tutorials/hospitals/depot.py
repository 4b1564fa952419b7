"""The loss that all hospitals agreed to."""

import jax.numpy as jnp


def distance(depot, batch):
    """The distance of each patient in a batch from a depot, in kilometres."""
    return jnp.hypot(batch["east"] - depot["east"], batch["north"] - depot["north"])
