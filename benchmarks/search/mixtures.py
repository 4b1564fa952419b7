"""``scripts/bench mixtures``: shares of models that add up to 1, found by DP-GIBO under a constraint, on Adult.

Five logistic regressions see a fifth of the features each, and are fitted to rows that nobody protects. The shares of
their chances are searched for, and users have the log losses of the mixture, at most 4. The table shows the loss on
rows that no search has seen.

=============================  ========================================================================================
DP-GIBO, constraint            ``method="local"`` on five shares with a sum of 1, by ``space.linear``
DP-GIBO, no constraint         the same on five weights in [0, 1], which the loss divides by their sum
one private choice             ``method="in_order"`` under the constraint
least loss, not private        the shares of least exact loss of the users (expectation maximisation)
best model, not private        the one model of least exact loss of the users
equal shares                   the middle of the box
=============================  ========================================================================================
"""

import math
import os
from typing import Any

os.environ.setdefault("JAX_ENABLE_X64", "1")

import jax
import jax.numpy as jnp
import numpy as np
from tqdm import tqdm

from benchmarks import report
from benchmarks.papers import classification
from benchmarks.reproductions import common
from jaxdpbo import Search, Space, minimize, space

FIRST_SEED, SEEDS = 7700, 20
TRAIN, USERS, TEST, MODELS = 2_000, 10_000, 10_000, 5
EPSILON, DELTA, STEPS, HIGH, ITERATIONS = 1.0, 1e-5, 25, 4.0, 500
NAMES = [f"model {number}" for number in range(MODELS)]
BOX = {name: space.real(0, 1) for name in NAMES}
MIXTURE = Space(BOX, constraints=[space.linear(dict.fromkeys(NAMES, 1.0), least=1.0, most=1.0)])
CONSTRAINED, FREE, CHOICE = "DP-GIBO, constraint", "DP-GIBO, no constraint", "one private choice"
LEAST, SINGLE, EQUAL = "least loss, not private", "best model, not private", "equal shares"
SEARCHES = {CONSTRAINED: (MIXTURE, "local"), FREE: (Space(BOX), "local"), CHOICE: (MIXTURE, "in_order")}


def main(quick: bool, *, seeds: int | None = None) -> None:
    count = seeds or (2 if quick else SEEDS)
    numbers = range(FIRST_SEED, FIRST_SEED + count)
    found: dict[str, list[float]] = {}
    for seed in tqdm(numbers, unit="seed"):
        for name, loss in _measure(seed).items():
            found.setdefault(name, []).append(loss)
    results = common.compare_with(CONSTRAINED, found)
    report.print_table(
        ("shares", "loss", f"less that of {CONSTRAINED} (95 %)"),
        [
            (name, f"{result['mean']:.4f}", "" if result["paired"] is None else common.sentence(result["paired"]))
            for name, result in results.items()
        ],
    )
    report.write_bench(
        "mixtures",
        {"shares": results},
        quick=quick,
        seeds=[numbers.start, numbers.stop],
        noise="exact",
        dtype="float64",
        chosen={
            "training rows": TRAIN, "users": USERS, "rows held out": TEST, "models": MODELS, "epsilon": EPSILON,
            "delta": DELTA, "steps": STEPS,
        },
    )  # fmt: skip


def _measure(seed: int) -> dict[str, float]:
    """The mean loss on the rows held out, by the name of the shares."""
    users, test = _chances(seed)
    shares = {name: _search(users, seed, *search) for name, search in SEARCHES.items()}
    shares[LEAST] = _least(users)
    shares[SINGLE] = np.eye(MODELS)[np.argmin([_loss(row, users) for row in np.eye(MODELS)])]
    shares[EQUAL] = np.full(MODELS, 1 / MODELS)
    return {name: _loss(weights, test) for name, weights in shares.items()}


def _chances(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The chance ``(n, models)`` of each row's own label by each model: of the users, and of the rows held out."""
    from sklearn.linear_model import LogisticRegression

    (features, labels), _, _, _ = classification.load("adult", seed=0)
    rng = np.random.default_rng(seed)
    order, groups = rng.permutation(len(labels)), np.array_split(rng.permutation(features.shape[1]), MODELS)
    ends = np.cumsum([TRAIN, USERS, TEST])
    train, *others = np.split(order[: ends[-1]], ends[:-1])
    models = [LogisticRegression(max_iter=200).fit(features[train][:, group], labels[train]) for group in groups]
    users, test = (
        np.stack(
            [
                model.predict_proba(features[rows][:, group])[np.arange(len(rows)), labels[rows].astype(int)]
                for model, group in zip(models, groups, strict=True)
            ],
            axis=1,
        )
        for rows in others
    )
    return users, test


def losses_of(params: dict[str, Any], chances: Any) -> jax.Array:
    """Log losses ``(n,)``, at most ``HIGH``, of a mixture; weights without a sum of 1 are divided by their sum."""
    weights = jnp.stack([params[name] for name in NAMES])
    mixed = chances @ weights / jnp.maximum(jnp.sum(weights), 1e-6)
    return -jnp.log(jnp.maximum(mixed, math.exp(-HIGH)))


def _search(chances: np.ndarray, seed: int, of: Space, method: str) -> np.ndarray:
    run = minimize(
        losses_of, chances, of, epsilon=EPSILON, delta=DELTA, loss_range=(0, HIGH),
        search=Search(method=method, steps=STEPS), key=jax.random.key(seed), insecure_key=True, progress=False,
    )  # fmt: skip
    weights = np.array([run.release.params[name] for name in NAMES])
    return weights / max(weights.sum(), 1e-6)


def _least(chances: np.ndarray) -> np.ndarray:
    weights = np.full(MODELS, 1 / MODELS)
    for _ in range(ITERATIONS):
        weights *= np.mean(chances / (chances @ weights)[:, None], axis=0)
    return weights


def _loss(weights: np.ndarray, chances: np.ndarray) -> float:
    return float(np.mean(-np.log(np.maximum(chances @ weights, math.exp(-HIGH)))))
