"""Other libraries, where they are installed, find the same: jax-privacy's clipped gradients, pymoo's hypervolumes."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxdpbo.surrogate import pareto
from jaxdpbo.training import models

MODELS = {
    "logistic": models.logistic_regression(6),
    "hinge": models.linear_svm(6),
    "softmax": models.mlp(6, (9, 5), 3),
}


@pytest.mark.filterwarnings("ignore:optax.global_norm:DeprecationWarning")
def test_clipped_sums_are_jax_privacys():
    clipping = pytest.importorskip("jax_privacy.clipping")
    rng = np.random.default_rng(0)
    x, many = jnp.asarray(rng.normal(size=(40, 6))), jnp.asarray(rng.integers(0, 3, 40))
    for name, model in MODELS.items():
        labels = many if name == "softmax" else many % 2
        params = jax.tree.map(lambda leaf: leaf + 0.2, models.init_params(jax.random.key(0), model))

        ours = jax.jit(partial(models.gradient_sum, model))

        def loss(params, x, y, model=model):
            return models.losses(model, params, x, y)[0]

        for clip_norm in (0.1, 1.0, 100.0):
            peer = clipping.clipped_grad(loss, batch_argnums=(1, 2), l2_clip_norm=clip_norm)
            with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
                expected = jax.jit(peer)(params, x, labels)
            found, _ = ours(params, models.examples(x, labels), jnp.ones(40, bool), jnp.asarray(clip_norm))
            for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6 * clip_norm)


@pytest.mark.parametrize("objectives", [2, 3])
def test_hypervolumes_are_pymoos(objectives):
    peer = pytest.importorskip("pymoo.indicators.hv").HV(ref_point=np.ones(objectives))
    volume = jax.jit(pareto.hypervolume)
    for seed in range(200):
        values = np.random.default_rng(seed).uniform(0, 1.2, (12, objectives))
        inside = np.all(values < 1, axis=1)
        expected = peer(values[inside]) if inside.any() else 0.0
        found = volume(jnp.asarray(values), jnp.ones(12, bool), jnp.ones(objectives))
        assert found == pytest.approx(expected, rel=1e-12, abs=1e-15)
