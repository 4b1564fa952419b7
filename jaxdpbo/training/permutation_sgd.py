"""Projected permutation SGD of a regularised logistic regression, privatised by output perturbation.

Wu et al. (2017), algorithm 2, as in Avent et al. (2020), section 2.2: ``k`` passes over one random order, steps of
``min(1 / beta, 1 / (gamma t))``, the iterate kept in a ball of radius ``1 / gamma``, normal noise on the last one.
Examples lie in the unit ball, a public bound: longer ones are scaled to length 1. No intercept.

Formal guarantee: ``accounting.learner_epsilon`` of ``sensitivity.permutation_sgd``, replace-one, ``n`` public. The
guarantee holds for every single order, so the order need not be uniform.
"""

import jax
import jax.numpy as jnp

from jaxdpbo import checks
from jaxdpbo.noise import mechanisms


def train_by_permutation(
    key: jax.Array,
    features: jax.Array,
    labels: jax.Array,
    regularisation: jax.Array,
    standard_deviation: jax.Array,
    *,
    passes: int = 10,
    batch: int = 1,
) -> jax.Array:
    """Train, and return the released weights ``(d,)``. Pure; ``passes`` and ``batch`` are static.

    Formal guarantee: ``accounting.learner_epsilon`` of ``sensitivity.permutation_sgd`` for ``regularisation``,
    ``n``, ``batch`` and ``standard_deviation``. Replace-one, ``n`` public. Assumes ideal real-number noise and a secret
    key used once. The guarantee does not depend on ``passes`` or on the order, so the order need not be exactly
    uniform.

    Args:
      key: for the order and the noise.
      features: ``(n, d)``; a row that is not finite counts as zero, a row longer than 1 is scaled to length 1.
      labels: ``(n,)``, 0 or 1.
      regularisation: ``gamma ()``.
      standard_deviation: ``sigma ()`` of the noise.
      passes: ``k``.
      batch: ``b``; the remainder of each pass is dropped.

    Raises:
      TypeError: ``features`` are neither float32 nor float64, at trace time.

    Examples:
      >>> import jax, jax.numpy as jnp
      >>> from jaxdpbo import training
      >>> features = jax.random.normal(jax.random.key(0), (40, 2))
      >>> labels = (features[:, 0] > 0).astype(int)
      >>> weights = training.train_by_permutation(
      ...     jax.random.key(1), features, labels, jnp.asarray(0.1), jnp.asarray(0.01), passes=2
      ... )
      >>> bool(jnp.mean((features @ weights > 0) == labels) > 0.8)
      True

    References:
      Wu et al. (2017), algorithm 2.
    """
    checks.single_or_double("features", features)
    order_key, noise_key = jax.random.split(key)
    length = jnp.linalg.norm(features, axis=1, keepdims=True)
    usable = jnp.isfinite(length)
    rows = jnp.where(usable, features, 0.0) / jnp.maximum(jnp.where(usable, length, 1.0), 1.0)
    signs = jnp.where(labels > 0, 1.0, -1.0).astype(rows.dtype)
    batches = rows.shape[0] // batch
    order = jax.random.permutation(order_key, rows.shape[0])[: batches * batch].reshape(batches, batch)
    smooth = 1.0 + regularisation

    def step(t, weights):
        here = order[t % batches]
        x, y = rows[here], signs[here]
        slopes = -y * jax.nn.sigmoid(-y * jnp.matmul(x, weights, precision="highest"))
        gradient = jnp.matmul(slopes, x, precision="highest") / batch + regularisation * weights
        size = jnp.minimum(1.0 / smooth, 1.0 / (regularisation * (t + 1)))
        moved = weights - size * gradient
        return moved / jnp.maximum(1.0, regularisation * jnp.linalg.norm(moved))

    last = jax.lax.fori_loop(0, passes * batches, step, jnp.zeros(rows.shape[1], rows.dtype))
    return mechanisms.gaussian(noise_key, last, standard_deviation)
