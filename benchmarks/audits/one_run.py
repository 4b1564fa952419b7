"""Whole calls, audited in few runs: many canaries at once, each one of two records by a coin.

Steinke, Nasr and Jagielski (2023), for the replacement of a record: under ``(epsilon, delta)``-DP, a guess of a coin is
right with probability ``e^epsilon / (1 + e^epsilon)`` at most, but for ``delta``, even if all other coins are known.
The number of right guesses gives a lower bound on epsilon (``jax_privacy.auditing``). The bound stays far below a
guarantee that is attained; the attack sees noise that is missing or much too small.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.audits.rows import Row, claim
from jaxdpbo import Search, minimize, preview, training, tuning
from jaxdpbo import audit as _auditing
from jaxdpbo.noise import private_mean, wide_integers
from jaxdpbo.training import dp_optim

DELTA, CONFIDENCE = 1e-5, 0.95
GUESSED = 0.3  # share of the canaries that are guessed: the surest
EPSILON, CANARIES = 4.0, 1000  # of ``tune_and_train``
MU, USERS, RUNS = 0.5, 20, 20  # of ``minimize``
SPACE = {"low": np.full(USERS, -1.0), "high": np.full(USERS, 1.0)}
SEARCH = Search(method="local", steps=6, batch=USERS + 1)
Guesses = tuple[np.ndarray, np.ndarray]  # coins (m,), and how sure each is guessed to be 1


def rows() -> list[Row]:
    """Return the rows; an empty list if jax-privacy, of the extra dev, is not installed."""
    try:
        import jax_privacy.auditing  # noqa: F401
    except ImportError:
        return []
    trained = claim("dp", EPSILON, delta=DELTA)
    searched = claim("dp", _epsilon_of_search(), delta=DELTA)
    return [
        Row("tune_and_train, in one run", trained, audit=lambda: audit(_attack_tuning()), least=0.0),
        Row(
            "tune_and_train, in one run, its noise forgotten", trained,
            audit=lambda: audit(_attack_tuning(_remove_training_noise)), holds=False,
        ),
        Row("minimize, in twenty runs", searched, audit=lambda: audit(_attack_search()), least=0.0),
        Row(
            "minimize, in twenty runs, their noise forgotten", searched,
            audit=lambda: audit(_attack_search(_remove_sum_noise)), holds=False,
        ),
    ]  # fmt: skip


def audit(guesses: Guesses) -> _auditing.Audit:
    """Guess the surest coins, and bound epsilon from below."""
    from jax_privacy import auditing

    coins, scores = guesses
    sure = np.argsort(-np.abs(scores))[: round(GUESSED * len(coins))]
    right = (scores[sure] > 0) == (coins[sure] > 0)
    # The bound depends on three counts: canaries, guesses and right guesses.
    silent = np.full(len(coins) - len(sure), -1.0)
    auditor = auditing.CanaryScoreAuditor(
        np.ones(right.sum()), np.concatenate([np.ones(len(sure) - right.sum()), silent])
    )
    bound = auditor.epsilon_one_run(1 - CONFIDENCE, DELTA, threshold_strategy=auditing.Explicit(0.0))
    return _auditing.Audit(float(bound), 0.0, DELTA, int(right.sum()), int((~right).sum()), len(sure))


def _attack_tuning(planted: Callable[[], AbstractContextManager] = nullcontext) -> Guesses:
    """Every canary has a feature of its own, and a label by its coin: the weight of the feature tells the label."""
    coins = np.random.default_rng(0).integers(0, 2, CANARIES)
    rows = np.eye(CANARIES) * 1e3, coins
    validation = np.zeros((CANARIES, CANARIES)), np.zeros(CANARIES, int)
    setting = {"learning_rate": 1.0, "batch": CANARIES, "epochs": 4, "clip_norm": 1.0}
    with planted():
        result = tuning.tune_and_train(
            tuning.DPSGD(training.logistic_regression(CANARIES), classes=(0, 1)), rows, [setting],
            validation=validation, epsilon=EPSILON, delta=DELTA, mean=2.0, key=jax.random.key(0), insecure_key=True,
        )  # fmt: skip
    (layer,) = result.model
    return coins, np.asarray(layer.weights)[:, 0]


def _attack_search(planted: Callable[[], AbstractContextManager] = nullcontext) -> Guesses:
    """Every user has a dimension of its own, in which the loss rises or falls by a coin."""
    coins = np.random.default_rng(1).integers(0, 2, (RUNS, USERS))
    with planted():
        points = [_search(2 * coins[number] - 1.0, jax.random.key(number)).release.point for number in range(RUNS)]
    return coins.ravel(), -np.concatenate(points)


def _own_slopes(point: jax.Array, slopes: jax.Array) -> jax.Array:
    return slopes * point


def _search(slopes: np.ndarray, key: jax.Array):
    return minimize(
        _own_slopes, slopes, SPACE, mu=MU, users=USERS, search=SEARCH,
        key=key, insecure_key=True,
    )  # fmt: skip


def _epsilon_of_search() -> float:
    return preview(users=USERS, space=SPACE, mu=MU, search=SEARCH).guarantee.epsilon(DELTA)


def _remove_training_noise() -> AbstractContextManager:
    return _Planted(dp_optim, "_noise", lambda key, count: jnp.zeros(count, jnp.int32))


def _remove_sum_noise() -> AbstractContextManager:
    def perturb(key, budget, total, deviation):
        del key, deviation
        return total if isinstance(total, wide_integers.Wide) else total / budget.users

    return _Planted(private_mean, "_perturb", perturb)


class _Planted:
    """Replace a function in the programs compiled inside the context, and in no others."""

    def __init__(self, *arguments):
        self._patch = mock.patch.object(*arguments)

    def __enter__(self):
        jax.clear_caches()
        self._patch.start()

    def __exit__(self, *_):
        self._patch.stop()
        jax.clear_caches()
