"""What all hospitals agreed to: run ``march``, over the patients of all hospitals on the roster."""

import jax.numpy as jnp

from jaxdpbo import dp_gibo, silos


def distance(depot, batch):
    """The distance of each patient in a batch from a depot, in kilometres."""
    return jnp.hypot(batch["east"] - depot[0], batch["north"] - depot[1])


def agree(roster_path):
    """The agreement, from the file of the roster."""
    roster = silos.load_roster(roster_path)
    config = dp_gibo.config(
        users=roster.users, steps=3, mu=1.0, clip_norm=1.0, bounds={"low": [0, 0], "high": [10, 5]}, memory="none"
    )
    return silos.agree("march", dp_gibo.algorithm, config, roster, answers=5)
