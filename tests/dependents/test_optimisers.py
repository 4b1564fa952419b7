"""The whole test of the two optimisers: each keeps the contract, costs what it states, and finds an optimum."""

import dp_optimisers
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxdpbo import run_scan, testing

BOX = {"low": [0.0, -1.0], "high": [2.0, 1.0]}
MADE = {
    "random_search": dp_optimisers.random_search.config(
        users=6, steps=3, mu=1.0, bounds=BOX, loss_range=(0.0, 3.0), batch=2
    ),
    "evolution_strategies": dp_optimisers.evolution_strategies.config(users=6, steps=3, mu=1.0, bounds=BOX, members=4),
}


def loss(point, data):
    return jnp.sum((data - point[None]) ** 2, axis=1)


@pytest.mark.parametrize("name", MADE)
def test_an_algorithm_keeps_the_contract(name):
    data = np.random.default_rng(0).uniform(0, 1, (6, 2))
    testing.check_algorithm(getattr(dp_optimisers, name).algorithm, MADE[name], loss, data)


def test_evolution_strategies_find_the_mean_of_the_users():
    data = np.random.default_rng(0).normal([1.5, -0.5], 0.1, (2000, 2))
    config = dp_optimisers.evolution_strategies.config(users=2000, steps=30, mu=2.0, bounds=BOX, clip_norm=4.0)
    seeded = {"key": jax.random.key(0), "insecure_key": True}
    run = run_scan(dp_optimisers.evolution_strategies.algorithm, loss, data, config, **seeded)
    np.testing.assert_allclose(run.release.point, [1.5, -0.5], atol=0.15)
    assert run.guarantee.epsilon(delta=1e-6) < 12
