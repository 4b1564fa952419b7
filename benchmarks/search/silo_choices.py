"""``scripts/bench silo_choices``: 50 silos agree on one of 100 settings of a perceptron on Adult, in ten minutes.

The setting of DP-Hype (Liebenow, Peinemann and Mohammadi, arXiv 2510.04902), in which silos vote. The models are
trained on public rows, so a user of a silo changes no loss but the own one; each silo holds 500 users to measure on.

=========================  ============================================================================================
sums                       ``private_evaluations`` among silos: noised means of all settings, the least is taken.
                           Epsilon protects a user.
votes                      our implementation of DP-Hype's rule: each silo votes for the setting that is best on its
                           users, and the server takes the setting with most votes after Gaussian noise (Balle and Wang
                           2018) on the counts. Epsilon protects a whole silo.
each silo alone            an exponential mechanism in each silo, over its own users; the mean over silos. Epsilon
                           protects a user.
no privacy                 the least mean loss over all users
a random setting           the mean over all settings
=========================  ============================================================================================
"""

import os
import tempfile
from pathlib import Path
from typing import Any

os.environ.setdefault("JAX_ENABLE_X64", "0")

import jax
import jax.numpy as jnp
import numpy as np
import scipy.stats
from tqdm import tqdm

from benchmarks import report
from benchmarks.papers import classification
from jaxdpbo import accounting, ledger, private_evaluations, random_search, silos
from jaxdpbo.types import Query

FIRST_SEED, SEEDS = 7100, 20
SILOS, USERS, PUBLIC, TEST = 50, 500, 2_000, 5_000
EPSILONS, DELTA = (0.1, 1.0, 8.0), 1e-5
RATES, MOMENTA = np.logspace(-4, 1, 10), np.linspace(0.0, 0.99, 10)  # the 100 settings
HIDDEN, BATCH, EPOCHS = 16, 50, 5
ROUNDED = 0.999  # shares of noise have whole widths, so the level of a run is a little above that of its config
SUMS, VOTES, ALONE, EXACT, RANDOM = "sums", "votes", "each silo alone", "no privacy", "a random setting"


def main(quick: bool, *, seeds: int | None = None) -> None:
    count = seeds or (2 if quick else SEEDS)
    accuracies: dict[str, dict[str, list[float]]] = {f"epsilon {epsilon:g}": {} for epsilon in EPSILONS}
    for seed in tqdm(range(FIRST_SEED, FIRST_SEED + count), unit="seed"):
        wrong, accuracy = _measure(seed)
        for epsilon in EPSILONS:
            for name, chosen in _choices(wrong, epsilon, seed).items():
                accuracies[f"epsilon {epsilon:g}"].setdefault(name, []).append(float(np.mean(accuracy[chosen])))
    summary = {
        budget: {name: _summary(np.array(values), np.array(row[SUMS])) for name, values in row.items()}
        for budget, row in accuracies.items()
    }
    report.print_table(
        ("budget", "choice", "accuracy", "sums less this, 95 %"),
        [
            (budget, name, f"{result['mean']:.4f}", "{:+.4f} ({:+.4f} to {:+.4f})".format(*result["sums less this"]))
            for budget, row in summary.items()
            for name, result in row.items()
        ],
    )
    report.write_bench(
        "silo_choices",
        {"accuracies": accuracies, "summary": summary},
        quick=quick,
        seeds=[FIRST_SEED, FIRST_SEED + count],
        noise="both",
        dtype="float32",
        chosen={
            "silos": SILOS, "users of a silo": USERS, "public rows": PUBLIC, "test rows": TEST, "delta": DELTA,
            "learning rates": list(RATES), "momenta": list(MOMENTA), "hidden units": HIDDEN, "epochs": EPOCHS,
        },
    )  # fmt: skip


def _summary(accuracies: np.ndarray, sums: np.ndarray) -> dict[str, Any]:
    """The mean, and the paired difference of sums with its interval (Student's t)."""
    paired = sums - accuracies
    half = scipy.stats.t.ppf(0.975, len(paired) - 1) * np.std(paired, ddof=1) / np.sqrt(len(paired))
    mean = float(np.mean(paired))
    return {"mean": float(np.mean(accuracies)), "sums less this": (mean, mean - half, mean + half)}


def _choices(wrong: np.ndarray, epsilon: float, seed: int) -> dict[str, Any]:
    """The settings that each rule chooses; ``wrong (silos, users, settings)`` is 1 where a model gets a user wrong."""
    rng = np.random.default_rng([seed, int(1000 * epsilon)])
    means, settings = wrong.mean(axis=1), wrong.shape[2]
    # replacing a silo moves two counts by 1
    deviation = np.sqrt(2) / accounting.gdp_mu(epsilon, DELTA)
    votes = np.bincount(np.argmin(means, axis=1), minlength=settings)
    alone = [_exponential_choice(row * USERS, epsilon, rng) for row in means]
    return {
        SUMS: _sums(wrong, epsilon),
        VOTES: int(np.argmax(votes + deviation * rng.standard_normal(settings))),
        ALONE: alone,
        EXACT: int(np.argmin(means.mean(axis=0))),
        RANDOM: np.arange(settings),
    }


def _exponential_choice(counts: np.ndarray, epsilon: float, rng: np.random.Generator) -> int:
    """McSherry and Talwar (2007), by the bounded range of counts that a user moves by 1 at most (Dong et al. 2020)."""
    return int(np.argmax(-epsilon * counts / 2 + rng.gumbel(size=len(counts))))


def _sums(wrong: np.ndarray, epsilon: float) -> int:
    """One round of private evaluations of all settings, among silos with keys and ledgers of their own."""
    names, settings = [f"silo{number}" for number in range(len(wrong))], wrong.shape[2]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        cards = [silos.create_identity(folder / name, name, users=USERS) for name in names]
        roster = silos.make_roster(cards)
        inner = random_search.config(users=1, steps=1, batch=settings, bounds=[(0.0, float(settings - 1))])
        config = private_evaluations.config(
            EVERY, inner, users=roster.users, mu=ROUNDED * accounting.gdp_mu(epsilon, DELTA), loss_range=(0.0, 1.0)
        )
        agreement = silos.agree("choice", private_evaluations.make_algorithm(EVERY), config, roster)
        assert agreement.guarantees.server.epsilon(DELTA) <= epsilon
        opened = {}
        for name, rows in zip(names, wrong, strict=True):
            ledger.create(folder / name / "book", mu=1e3)
            opened[name] = silos.Silo(
                agreement, _is_wrong, {"wrong": rows}, name=name, folder=folder / name, ledger=folder / name / "book"
            )
        run = silos.run_silos(
            agreement,
            {name: silo.credential() for name, silo in opened.items()},
            lambda requests: {name: opened[name].answer(content) for name, content in requests.items()},
        )
    return round(float(run.release.point[0]))


def _is_wrong(point: Any, batch: Any) -> Any:
    return jnp.take(batch["wrong"], jnp.round(point[0]).astype(int), axis=1)


def _ask_every(key: Any, config: Any, state: Any) -> Query:
    """All settings, by their numbers."""
    del key, state
    return Query(jnp.arange(config.batch, dtype=config.bounds.dtype)[:, None], jnp.ones(config.batch, bool))


EVERY = random_search.algorithm._replace(ask=_ask_every)


def _measure(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Who is wrong, ``(silos, users, settings)`` of float32, and the accuracy of each setting on other rows."""
    (features, labels), (test, test_labels), _, _ = classification.load("adult", seed=seed, test=TEST)
    features, test = (np.asarray(array, np.float32) for array in (features, test))
    rates, momenta = (grid.ravel() for grid in np.meshgrid(RATES, MOMENTA, indexing="ij"))
    weights = _train(
        jax.random.key(seed), features[:PUBLIC], labels[:PUBLIC], rates.astype(np.float32), momenta.astype(np.float32)
    )
    held = slice(PUBLIC, PUBLIC + SILOS * USERS)
    wrong = np.asarray(_predict(weights, features[held])) != labels[held]
    accuracy = np.mean(np.asarray(_predict(weights, test)) == test_labels, axis=1)
    return np.moveaxis(wrong.reshape(-1, SILOS, USERS), 0, -1).astype(np.float32), accuracy


@jax.jit
def _train(key: jax.Array, features: Any, labels: Any, rates: Any, momenta: Any) -> Any:
    """Perceptrons by stochastic gradients with momentum, one for each setting, from the same start and batches."""
    first, second, order = jax.random.split(key, 3)
    width = features.shape[1]
    start = (
        jax.random.normal(first, (width, HIDDEN)) / jnp.sqrt(width), jnp.zeros(HIDDEN),
        jax.random.normal(second, (HIDDEN,)) / jnp.sqrt(HIDDEN), jnp.zeros(()),
    )  # fmt: skip
    count = len(features) // BATCH
    batches = jax.vmap(lambda key: jax.random.permutation(key, len(features)))(jax.random.split(order, EPOCHS))
    batches = batches[:, : count * BATCH].reshape(EPOCHS * count, BATCH)

    def loss(weights: Any, rows: Any) -> Any:
        return jnp.mean(jax.nn.softplus(-(2.0 * labels[rows] - 1.0) * _score(weights, features[rows])))

    def step(carry: Any, rows: Any, rate: Any, momentum: Any) -> Any:
        weights, speed = carry
        slope = jax.grad(loss)(weights, rows)
        speed = jax.tree.map(lambda s, g: momentum * s + g, speed, slope)
        return (jax.tree.map(lambda w, s: w - rate * s, weights, speed), speed), None

    def train_setting(rate: Any, momentum: Any) -> Any:
        still = start, jax.tree.map(jnp.zeros_like, start)
        return jax.lax.scan(lambda carry, rows: step(carry, rows, rate, momentum), still, batches)[0][0]

    return jax.lax.map(lambda setting: train_setting(*setting), (rates, momenta))


def _score(weights: Any, features: Any) -> Any:
    inner, shift, outer, bias = weights
    return jnp.tanh(features @ inner + shift) @ outer + bias


@jax.jit
def _predict(weights: Any, features: Any) -> Any:
    return jax.lax.map(lambda perceptron: _score(perceptron, features) > 0, weights)
