"""Trainings that DPareto measures: one record's label is flipped, all others are what makes that tell most."""

import math
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.random import define_prng_impl

from benchmarks.audits.rows import Row, claim, score_both, simulate
from jaxdpbo import accounting, sensitivity
from jaxdpbo.training import dp_optim, models, permutation_sgd
from jaxdpbo.tuning import measured_error, private_ranges, private_steps

RECORDS, LOT, DELTA = 4, 2, 0.05
GAMMA, PASSES, DEVIATION = 5.0, 5, 0.1


def rows() -> list[Row]:
    return [
        _dp_sgd_row(1, 0.5, 0.5),
        _dp_sgd_row(3, 1.0, 0.3),
        _dp_sgd_row(1, 0.5, 0.5, noise="float"),
        _all_draws_row(),
        _perturbation_row(),
        *(_measured_row(classes) for classes in (2, 0)),
        *(_private_model_row(classes) for classes in (2, 0)),
        _ranges_row(),
    ]


def _dp_sgd_row(steps: int, multiplier: float, least: float, noise: str = "exact") -> Row:
    """All records pull one way, record 0 the same way or the other.

    A batch without record 0 has another in its place, so that a step is noise around ``-m B`` or, with probability ``m
    / n``, around ``-m B + 2 B``: this attains one step's bound. Only the last parameters are seen: of several steps the
    bound is not attained, since it allows all of them to be.
    """
    model, features = models.linear_svm(1), np.full((RECORDS, 1), 1e6)
    chosen = dp_optim.settings(
        steps=steps, batch=LOT, learning_rate=1e-9, noise_multiplier=multiplier, clip_norm=1.0
    )  # so slow that every margin stays under 1, where the slopes are all alike
    bound = accounting.sampled_gaussian_epsilon(
        rate=LOT / RECORDS, noise_multiplier=multiplier, steps=steps, delta=DELTA
    )

    def weight(key, labels):
        records = models.examples(jnp.asarray(features), labels)
        (layer,) = dp_optim.train(key, model, records, chosen, largest=LOT, noise=noise)
        return layer.weights[0, 0] / chosen.learning_rate

    def scores(trials):
        return simulate(weight, np.array([1, 0, 0, 0]), np.array([0, 0, 0, 0]), trials)

    noise_label = "" if noise == "exact" else f" {noise},"
    name = f"dp_optim, DP-SGD,{noise_label} {steps} step{'s' * (steps > 1)} of {LOT} of {RECORDS}"
    return Row(name, claim("dp", bound.epsilon, delta=DELTA), scores, least=least)


def _all_draws_row() -> Row:
    """Two records that pull against each other, or together: the sum of their gradients is 0 or twice the clip norm.

    A float32 draw is made of 23 random bits, so all that a step can end at are tried; what the other data set cannot
    end at names the data. Exact noise has no such holes: docs/theorems.md.
    """
    model, apart = models.linear_svm(1), np.array([1, 0])
    chosen = dp_optim.settings(steps=1, batch=2, learning_rate=1.0, noise_multiplier=1.0, clip_norm=1.0)
    bound = accounting.sampled_gaussian_epsilon(rate=1.0, noise_multiplier=1.0, steps=1, delta=DELTA)

    def weight(key, labels):
        records = models.examples(jnp.full((2, 1), 2.0**20, jnp.float32), jnp.asarray(labels))
        return dp_optim.train(key, model, records, chosen, largest=2, noise="float")[0].weights[0, 0]

    def scores(trials):
        keys = jax.random.wrap_key_data(jnp.arange(2**23, dtype=jnp.uint32)[:, None] << 9, impl=GIVEN)
        ends = jax.jit(lambda keys: jax.lax.map(lambda key: weight(key, apart), keys, batch_size=2**15))(keys)
        ends = np.unique(np.asarray(ends))
        drawn = simulate(weight, apart, np.array([1, 1]), trials)
        return score_both(lambda released: np.isin(released, ends).astype(float), drawn)

    return Row("dp_optim, float, every draw tried", claim("dp", bound.epsilon, delta=DELTA), scores, holds=False)


def _counter_bits(key, width, shape):
    return key[0] + jnp.arange(math.prod(shape), dtype=jnp.uint32).reshape(shape)


GIVEN = define_prng_impl(  # draws the word that it is made of, and those after it: none of a batch's may be equal
    key_shape=(1,), seed=lambda seed: jnp.zeros(1, jnp.uint32), fold_in=lambda key, data: key,
    random_bits=_counter_bits, split=lambda key, shape: jnp.broadcast_to(key, (*shape, 1)), name="given", tag="given",
)  # fmt: skip


def _perturbation_row() -> Row:
    """Records of one dimension, all at the end of the unit ball, one label flipped.

    The worst pair found, over regularisations, two dimensions, one to three records and one or five passes: it moves
    the weights by 0.49 of the bound. A flipped label moves a logistic slope by 1, and the bound allows 2.
    """
    bound = sensitivity.permutation_sgd(regularisation=GAMMA, records=3)

    def weight(key, labels):
        numbers = jnp.asarray(GAMMA), jnp.asarray(DEVIATION)
        return permutation_sgd.train_by_permutation(key, jnp.ones((3, 1)), labels, *numbers, passes=PASSES)[0]

    def scores(trials):
        return simulate(weight, np.array([1, 1, 1]), np.array([0, 1, 1]), trials)

    statement = claim("gdp", accounting.gaussian_mu(bound, DEVIATION))
    return Row("permutation_sgd, output perturbation", statement, scores, least=0.3)


def _measured_row(classes: int) -> Row:
    """A wrong prediction in one cell becomes a right one in another; or a target goes from end to end of its range."""
    chosen = measured_error.config(1.0, classes)
    predicted, users = np.zeros(4, int), 4

    def score(key, label):
        noise = measured_error.draw_noise(key, chosen)
        labels = np.array([label, 0, 0, 0], int if classes else float)
        seen = measured_error.measure(noise, chosen, predicted, labels)
        if not classes:  # the noised sums again, since what is measured is no sum of moments
            return measured_error.count_moments(chosen, predicted, labels, np.ones(4, int))[1][0] + noise[1]
        error = seen.error * users * chosen.error_radius**2
        return error + (seen.table[1, 0] - seen.table[0, 0]) * chosen.other_radius**2

    def scores(trials):
        keys = jax.random.split(jax.random.key(0), 2 * trials)
        first, second = (1, 0) if classes else (1.0, -1.0)
        found = np.array([float(score(key, (first, second)[number % 2])) for number, key in enumerate(keys)])
        return found[::2], found[1::2]

    statement = measured_error.privacy(chosen, "validation rows")
    name = f"the measured error of a private model, {'classes' if classes else 'a regression'}"
    return Row(name, statement, scores, least=0.4, slower=4)


def _ranges_row() -> Row:
    """The number of one of four rows leaves the cell of the others, or enters it, in all histograms of a column."""
    chosen, (low, high) = private_ranges.config(1.0, 1), (-5.0, 5.0)
    count = private_ranges.count

    def score(key, number):
        noise, used, total = private_ranges.draw_noise(key, chosen), 0, 0

        def see(numbers, ends, units):  # what is released of a histogram, in the direction of the replacement
            nonlocal used, total
            counted = count(numbers, ends, units)
            released = counted + noise[0, used : used + len(counted)]
            towards = count(np.array([low, high]), ends, np.array([-1, 1]))
            used, total = used + len(counted), total + int(released @ towards)
            return counted

        with mock.patch.object(private_ranges, "count", see):
            private_ranges.find(noise, chosen, np.array([[number], [high], [high], [high]]))
        return float(total)

    def scores(trials):
        keys = jax.random.split(jax.random.key(0), 2 * trials)
        found = np.array([score(key, (high, low)[number % 2]) for number, key in enumerate(keys)])
        return found[::2], found[1::2]

    statement = claim("gdp", private_ranges.level(chosen))
    return Row("ranges of the columns of a private model", statement, scores, least=0.4, slower=4)


def _private_model_row(classes: int) -> Row:
    """All other rows are zeros, so that the weight tells of one row alone. Only the last weight is seen."""
    plan, statement = private_steps.make_plan(16, 4, 1, classes, 4.0, 1e-3)

    def weight(key, labels):
        rows = jnp.stack([jnp.zeros(16).at[0].set(1.0), labels], axis=1)
        return private_steps.train(rows, plan.linear, key)[0, 0]

    def scores(trials):
        low = np.zeros(16) if classes else np.r_[-1.0, np.zeros(15)]
        return simulate(weight, np.r_[1.0, np.zeros(15)], low, trials)

    name = f"a private model by steps, {'classes' if classes else 'a regression'}"
    return Row(name, statement, scores, least=0.1)
