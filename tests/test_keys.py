"""A key is used once, in every driver; the default one comes from the operating system."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from protocol_cases import CASES, loss, records

from jaxdpbo import drivers
from jaxdpbo.algorithms import dp_gibo
from jaxdpbo.privacy import keys, mechanisms


@pytest.fixture
def reuse_is_an_error():
    with jax.debug_key_reuse(True):
        yield


@pytest.mark.parametrize("name", CASES)
def test_no_driver_uses_a_key_twice(name, reuse_is_an_error):
    case = CASES[name]
    drivers.run_scan(case.algorithm, case.objective, records(), case.config(1.0), key=jax.random.key(0))
    drivers.run_loop(case.algorithm, case.objective, records(), case.config(1.0), key=jax.random.key(1))


def test_a_planted_reuse_is_caught(monkeypatch, reuse_is_an_error):
    """The noise drawn twice from one key."""

    def twice(key, value, standard_deviation):
        return value + standard_deviation * (jax.random.normal(key, value.shape) + jax.random.normal(key, value.shape))

    monkeypatch.setattr(mechanisms, "gaussian", twice)
    case = CASES["dp_gibo"]
    fresh = case.algorithm._replace(tell=lambda *arguments: dp_gibo.tell(*arguments))  # not the compiled one
    for driver in (drivers.run_scan, drivers.run_loop):
        with pytest.raises((jax.errors.KeyReuseError, drivers.RunInterrupted)) as caught:
            driver(fresh, loss, records(), case.config(1.0), key=jax.random.key(0))
        cause = caught.value.__cause__ if driver is drivers.run_loop else caught.value
        assert isinstance(cause, jax.errors.KeyReuseError)


def test_secret_keys_are_typed_and_differ():
    drawn = [keys.secret_key() for _ in range(50)]
    assert all(jnp.issubdtype(key.dtype, jax.dtypes.prng_key) and key.shape == () for key in drawn)
    assert len({np.asarray(jax.random.key_data(key)).tobytes() for key in drawn}) == 50


def test_secret_keys_hold_all_that_the_generator_can(monkeypatch):
    monkeypatch.setattr(keys.os, "urandom", lambda count: bytes(range(1, count + 1)))
    words = np.asarray(jax.random.key_data(keys.secret_key()))
    np.testing.assert_array_equal(words, np.frombuffer(bytes(range(1, 9)), np.uint32))


def test_integer_seeds_would_collide_where_x64_is_off(float32):
    """Why a release never takes its key from ``jax.random.key(int)``."""
    assert jnp.all(jax.random.key_data(jax.random.key(0)) == jax.random.key_data(jax.random.key(2**33)))
