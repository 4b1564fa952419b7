"""Private linear models without a search: a noised Gram matrix, then a few preconditioned, noised steps.

A gradient step of a linear model needs a learning rate for each direction of its features, and a search for rates
spends most of a budget. The Gram matrix of the features says all rates at once: released once with noise, its inverse
scales every later step, as in Newton's method with a constant curvature. The number of steps is fixed, so no duration
depends on the records. The method is ours; docs/theorems.md has the proof.

Notation: ``n`` users, ``d`` features ``phi`` of l2 norm at most 1, ``k`` outputs, ``W (d, k)``, ``T`` steps, ``c_t``
the clip norm of residuals in step ``t``.

====================  ==========================  =======================  =====================  =========
``link``              targets                     prediction               residual               curvature
====================  ==========================  =======================  =====================  =========
"identity"            numbers in ``[-1, 1]``      ``phi W``                target - prediction    1
"logistic"            classes 0 and 1             ``1 / (1 + e^-phi W)``   target - prediction    1/4
"softmax"             classes 0 to ``k - 1``      ``softmax(phi W)``       one-hot - prediction   1/2
====================  ==========================  =======================  =====================  =========

The objective returns each user's features and target: ``(point, data) -> (d + 1, n)``, the target last, NaN or a class
outside of the list for none; with ``weight`` then each user's weight in [0, 1]; and with ``people`` last the number of
rows of the person of this row. It ignores the point.
"""

import bisect
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxdpbo import arrays, checks, namespace, sensitivity, types
from jaxdpbo.accounting import requested_budget, rounded_gaussian
from jaxdpbo.guarantee import assumptions, composed_guarantee, guarantees
from jaxdpbo.noise import calibration, clipping, guard, integer_products, mechanisms, totals, wide_integers
from jaxdpbo.noise.mechanisms import tables
from jaxdpbo.surrogate import gp
from jaxdpbo.types import Algorithm, Info, Query, State

__all__ = [
    "Config",
    "Release",
    "algorithm",
    "config",
]
__dir__ = namespace.list_public(__name__)

CURVATURES = {"identity": 1.0, "logistic": 0.25, "softmax": 0.5}
STEPS = 16
# Noise grows with the clip norm: the shortest are for few users; the longest shorten no residual of a usual prediction.
SHORTEST = {"identity": 0.25, "logistic": 0.5, "softmax": math.sqrt(0.5)}
LONGEST = {"identity": 2.0, "logistic": 1.0, "softmax": math.sqrt(2)}
FEW = 2_000  # users times their mean weight times the GDP level: beyond it clip norms grow from the shortest
PART = "the Gram matrix and the steps"  # of a guarantee
PROTECTED = "the users with features and targets; NOT users with several rows"  # here they are what is trained on
PEOPLE = "the people with features and targets; NOT the number of rows of a person"
GRAM_SHARE = 0.3  # of the squares of both levels
LEAST_RIDGE = 256  # features: the ridge of fewer is that of so many, or noise of the steps outweighs what they learn
FLOOR = 0.8  # of the ridge: least eigenvalue that a step divides by; noise of the Gram matrix makes smaller ones
SIGMA, BITS = 2**24, 64  # of the noise: a diagonal entry of the Gram matrix, and an entry of a step
UPPER_SIGMA = math.ceil(SIGMA / math.sqrt(2))  # above the diagonal
MIN_RADIUS = 32  # times sqrt(d): with smaller radii rounding would hide the features


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Config:
    """Made by ``config``.

    Traced: ``mu ()``; ``radius ()`` and ``residual_radius ()``, of one user's integers; ``clip_norms (T,)``; ``weight
    ()``, expected in the mean. Static: ``users``, ``features``, ``outputs``, ``link``, and whether users are
    ``weighted`` or rows of ``people``, and the run is ``private``.
    """

    mu: jax.Array
    radius: jax.Array
    residual_radius: jax.Array
    clip_norms: jax.Array
    weight: jax.Array
    users: int = field(metadata={"static": True})
    features: int = field(metadata={"static": True})
    outputs: int = field(metadata={"static": True})
    link: str = field(metadata={"static": True})
    weighted: bool = field(metadata={"static": True})
    people: bool = field(metadata={"static": True})
    private: bool = field(metadata={"static": True})

    @property
    def steps(self) -> int:
        """Number of steps of a run: the Gram matrix, and ``T``."""
        return 1 + self.clip_norms.shape[-1]

    @property
    def values(self) -> int:
        """Numbers of a user: features, target, and what else the objective returns."""
        return self.features + 1 + self.weighted + self.people

    @property
    def batch(self) -> int:
        """One point, which the objective ignores."""
        return 1

    @property
    def space(self) -> None:
        """None: there is nothing to search."""
        return

    @property
    def bounds(self) -> np.ndarray:
        """Of the point: ``(2, 1)`` zeros."""
        return np.zeros((2, 1))


def config(
    *,
    users: int,
    features: int,
    mu: float,
    link: str = "identity",
    outputs: int = 1,
    steps: int = STEPS,
    clip_norms: Sequence[float] | None = None,
    weight: float | None = None,
    people: int | None = None,
) -> Config:
    """Check a configuration.

    Args:
      users: ``n``, public.
      features: ``d``.
      mu: the GDP budget; ``inf`` for no noise.
      link: "identity", "logistic" or "softmax".
      outputs: ``k``: the number of classes for "softmax", otherwise 1.
      steps: ``T``.
      clip_norms: ``c_t`` of each step, chosen without the data, in place of ``steps``. By default one that grows
        with the root of users (or people) times their mean weight times ``mu``, until it shortens no residual.
      weight: the mean weight of the users as far as the public knows, in (0, 1]: the steps become longer by as much.
        None if users have no weights.
      people: the number of people, if users are rows of people, and the number of rows of each person is public: a
        person with ``c`` rows counts as one user, each row ``1 / c``.

    Raises:
      ValueError: a number out of range.
      requested_budget.BudgetError: too small a budget for so many features.
      TypeError: an argument of the wrong kind.

    >>> from jaxdpbo import private_linear
    >>> chosen = private_linear.config(users=5000, features=20, mu=0.5, link="logistic")
    >>> chosen.steps, private_linear.algorithm.privacy(chosen).level <= 0.5
    (17, True)
    """
    link = checks.one_of("link", link, tuple(CURVATURES))
    users, counted = checks.size("users", users), None if people is None else checks.size("people", people)
    if weight is not None and not 0 < checks.positive("weight", weight) <= 1:
        raise ValueError(f"weight must be in (0, 1], got {weight}")
    mu = checks.positive("mu", mu, finite=False)
    if clip_norms is None:
        signal = mu * (users if counted is None else counted) * (1.0 if weight is None else weight)
        clip_norms = [default_clip_norm(link, signal)] * checks.size("steps", steps)
    norms = checks.reals("clip_norms", clip_norms)
    if norms.ndim != 1 or not len(norms) or not np.all((norms > 0) & np.isfinite(norms)):
        raise ValueError(f"clip_norms must be one positive number a step, got {clip_norms!r}")
    outputs, features = checks.size("outputs", outputs), checks.size("features", features)
    if (link == "softmax") != (outputs > 1):
        raise ValueError(f"outputs must be 1, or 2 and more for link='softmax', got {outputs} for {link!r}")
    dtype = jnp.result_type(float)
    radius = residual_radius = integer_products.MOST
    if not math.isinf(mu):
        mu = checks.round_down(mu, dtype)
        radius, residual_radius = _radii(mu, len(norms))
        short = max(
            MIN_RADIUS * math.sqrt(features) / max(radius, 1), MIN_RADIUS * math.sqrt(outputs) / max(residual_radius, 1)
        )
        if short > 1:
            reason = f"for {features} features and {outputs} outputs, got {{}}: rounding would hide them"
            raise requested_budget.BudgetError("least", mu * short**2, mu, reason)
    return Config(
        mu=arrays.to_device(mu, dtype),
        radius=arrays.to_device(radius, jnp.int32),
        residual_radius=arrays.to_device(residual_radius, jnp.int32),
        clip_norms=arrays.to_device(norms, dtype),
        weight=arrays.to_device(1.0 if weight is None else weight, dtype),
        users=users,
        features=features,
        outputs=outputs,
        link=link,
        weighted=weight is not None,
        people=counted is not None,
        private=not math.isinf(mu),
    )


def default_clip_norm(link: str, signal: float) -> float:
    """Return the clip norm of residuals in each step.

    A step's noise grows with its clip norm. But where residuals are shortened, a model of classes has probabilities
    too far from a half (a share of .2 becomes .125 at the shortest), and rare targets far away draw a model of numbers
    less than they draw a mean. With few users noise costs more than that, so the norm grows with the root of ``signal``
    from the shortest to one that shortens nothing.

    Args:
      link: see ``config``.
      signal: users, or people, times their mean weight times ``mu``; all public.

    >>> from jaxdpbo.algorithms import private_linear
    >>> [private_linear.default_clip_norm("logistic", signal) for signal in (500, 8_000)]
    [0.5, 1.0]
    """
    shortest = SHORTEST[link]
    return min(LONGEST[link], shortest * math.sqrt(max(1.0, signal / FEW)))


def level(radius: int, residual_radius: int, steps: int) -> float:
    """Return the GDP level of the Gram matrix and all steps together, rounded up.

    Two rows with an angle of cosine ``s`` between them move the Gram matrix by at most ``sqrt(2 - 2 s^2) R^2`` and a
    step by at most ``sqrt(2 + 2 |s|) R R_r``: no pair moves both the most. The level is that of the worst angle, less
    than the composition of two separate levels (docs/theorems.md).

    Args:
      radius: ``R``.
      residual_radius: ``R_r``.
      steps: ``T``.

    >>> from jaxdpbo.algorithms import private_linear
    >>> private_linear.level(2000, 0, 4) < private_linear.level(2000, 1000, 4)
    True
    """
    least = min(Fraction(SIGMA) ** 2, 2 * Fraction(UPPER_SIGMA) ** 2)  # of the matrix: its upper entries count twice
    of_gram = sensitivity.gram_squared(Fraction(radius)) / least
    of_steps = steps * Fraction(sensitivity.integer_sum(radius * residual_radius), SIGMA) ** 2
    worst = of_steps  # the largest of ``of_gram (1 - s^2) + of_steps (1 + s) / 2``, here at s = 1
    if of_steps < 4 * of_gram:
        worst = of_gram + of_steps / 2 + of_steps**2 / (16 * of_gram)
    return rounded_gaussian.root_above(worst)


def _radii(mu: float, steps: int) -> tuple[int, int]:
    """The largest ``R`` and ``R_r`` of a ``level`` of at most ``mu``, a ``GRAM_SHARE`` for the Gram matrix."""
    share = GRAM_SHARE
    worst = share + (1 - share) / 2 + (1 - share) ** 2 / (16 * share)
    radius = math.isqrt(math.isqrt(math.floor(Fraction(mu) ** 2 * Fraction(share / worst) * SIGMA**2 / 2)))
    radius, residuals = min(radius, integer_products.MOST), range(1, integer_products.MOST + 1)
    return radius, bisect.bisect_right(residuals, mu, key=lambda each: level(radius, each, steps)) if radius else 0


class PublicState(NamedTuple):
    """Released values, and values independent of the users' data.

    Attributes:
      step: ``()`` steps taken.
      noise: all noise settings at the start of the run.
      path: ``(T + 1, d, k)``: ``W`` after each step, zeros at first and where no step was taken.
      inverse: ``(d, d)``, of the noised Gram matrix and the ridge, over the curvature; zeros before.
    """

    step: jax.Array
    noise: calibration.NoiseSettings
    path: jax.Array
    inverse: jax.Array


class Broadcast(NamedTuple):
    """Public inputs of ``contribute``.

    Attributes:
      first: ``()``, True in the step of the Gram matrix.
      weights: ``(d, k)``.
      clip_norm: ``()``, of the residuals in this step.
    """

    first: jax.Array
    weights: jax.Array
    clip_norm: jax.Array


class Sums(NamedTuple):
    """Sums of integers, in a total or in a release.

    ``diagonal (d,)`` and ``upper (d (d - 1) / 2,)`` of the Gram matrix in the first step, ``slope (d, k)`` in later
    ones; the others are zeros.
    """

    diagonal: wide_integers.Wide
    upper: wide_integers.Wide
    slope: wide_integers.Wide


class Release(NamedTuple):
    """Everything you may publish; the guarantee covers all of it.

    Attributes:
      point: ``(1,)`` zeros: there is nothing to search.
      weights: ``W (d, k)``, of the last step: predict ``link(features @ weights)``.
      path: ``(T + 1, d, k)``, ``W`` after each step.
    """

    point: jax.Array
    weights: jax.Array
    path: jax.Array


def init(key: jax.Array, config: Config) -> State:
    """Make the state before the first step; ``key`` is unused."""
    del key
    dtype = config.clip_norms.dtype
    return State(
        PublicState(
            step=jnp.zeros((), jnp.int32),
            noise=_settings(config),
            path=jnp.zeros((config.steps, config.features, config.outputs), dtype),
            inverse=jnp.zeros((config.features, config.features), dtype),
        )
    )


def ask(key: jax.Array, config: Config, state: State) -> Query:
    """Ask for all features and targets; ``key`` is unused."""
    del key
    public = state.public
    step = jnp.maximum(public.step - 1, 0)  # the first step has no residuals
    broadcast = Broadcast(public.step == 0, public.path[step], config.clip_norms[step])
    return Query(jnp.zeros((1, 1), config.clip_norms.dtype), jnp.ones(1, bool), broadcast=broadcast)


def contribute(
    config: Config, query: Query, memory: types.Memory, values: jax.Array, present: jax.Array | None = None
) -> tuple[totals.UserTotal, types.Memory]:
    """Sum products of each user's features, or of features and residual, in whole numbers.

    ============================================  ==============================================
    case                                          result
    ============================================  ==============================================
    features not finite                           the user counts as zero
    features of a norm above 1                    are shortened to 1
    a target not finite, or of no class           the user counts in the Gram matrix alone
    a residual of a norm above ``c_t``            is shortened to ``c_t``, then weighted
    a weight not finite, or outside of [0, 1]     0, or the nearest end
    a number of rows not finite, or below 1       the row counts as zero
    ============================================  ==============================================

    Args:
      config: see ``config``.
      query: from ``ask``.
      memory: ``()``.
      values: ``(1, config.values, s)``, what the objective returns.
      present: ``(s,)``, False at padding columns, which belong to no user.

    Raises:
      ValueError: ``values`` is of another shape, at trace time.
      TypeError: ``values`` are floats of half precision, at trace time.
    """
    types.check_values(values, 1, config.values, present=present)
    if jnp.issubdtype(values.dtype, jnp.floating):  # a shorter float would round the number of rows of a person
        checks.single_or_double("values", values)
    rows, target = values[0].astype(config.clip_norms.dtype), values[0, config.features].astype(config.clip_norms.dtype)
    features = rows[: config.features]
    features = jnp.where(jnp.all(jnp.isfinite(features), axis=0)[None], features, 0)
    features = features if present is None else jnp.where(present[None], features, 0)
    features, _, _ = clipping.clip_by_l2_norm(features, jnp.ones((), features.dtype))
    radius, residual_radius = _radii_of_rows(config, rows[-1])
    whole = clipping.quantise(features, jnp.ones((), features.dtype), radius)

    def gram() -> tuple[wide_integers.Wide, wide_integers.Wide]:
        matrix = integer_products.sum_products(whole, whole)
        places = np.triu_indices(config.features, 1)
        return jax.tree.map(jnp.diagonal, matrix), jax.tree.map(lambda word: word[places], matrix)

    def slope() -> wide_integers.Wide:
        residuals = _residuals(config, query.broadcast.weights.T @ features, target)
        clipped, _, _ = clipping.clip_by_l2_norm(residuals, query.broadcast.clip_norm)
        if config.weighted:  # after the clip, which would undo it; at most 1, so no longer than what is charged
            weight = rows[config.features + 1]
            clipped = clipped * jnp.clip(jnp.where(jnp.isfinite(weight), weight, 0), 0, 1)[None]
        counts = clipping.quantise(clipped, query.broadcast.clip_norm, residual_radius)
        return integer_products.sum_products(whole, counts)

    first = query.broadcast.first
    diagonal, upper = jax.lax.cond(first, gram, lambda: totals.make_zeros(gram))
    slopes = jax.lax.cond(first, lambda: totals.make_zeros(slope), slope)
    targets = target if present is None else jnp.where(present, target, 0)
    facts = {"users": jnp.sum(jnp.any(whole != 0, axis=0)), "targets": jnp.sum(targets)}
    return totals.UserTotal(Sums(diagonal, upper, slopes), facts), memory


def perturb(key: jax.Array, config: Config, query: Query, whole: Sums) -> Sums:
    """Add the noise of the step: to the Gram matrix, or to the slope.

    Formal guarantee: the part of a run's ``privacy`` that its step pays for, replace-one, for any values; no noise at
    ``mu = inf``.
    """
    if not config.private:
        return whole
    diagonal_key, upper_key = jax.random.split(key)

    def noised(key: jax.Array, total: wide_integers.Wide, sigma: int) -> wide_integers.Wide:
        noise = mechanisms.rounded_gaussian(key, total.low.shape, sigma, BITS)
        return wide_integers.add(total, wide_integers.widen(noise))

    def matrix() -> tuple[wide_integers.Wide, wide_integers.Wide]:
        return noised(diagonal_key, whole.diagonal, SIGMA), noised(upper_key, whole.upper, UPPER_SIGMA)

    def slope() -> wide_integers.Wide:
        return noised(diagonal_key, whole.slope, SIGMA)

    first = query.broadcast.first
    diagonal, upper = jax.lax.cond(first, matrix, lambda: totals.make_zeros(matrix))
    return Sums(diagonal, upper, jax.lax.cond(first, lambda: totals.make_zeros(slope), slope))


def tell(config: Config, state: State, query: Query, released: Sums) -> State:
    """Invert the noised Gram matrix, or take one step; post-processing of what ``perturb`` released."""
    public, dtype, first = state.public, config.clip_norms.dtype, query.broadcast.first
    unit = _unit(config)

    def inverse() -> jax.Array:
        diagonal, upper = (wide_integers.to_float(part, dtype) * unit**2 for part in released[:2])
        places = np.triu_indices(config.features, 1)
        half = jnp.zeros((config.features, config.features), dtype).at[places].set(upper)
        noised = math.sqrt(2 * max(config.features, LEAST_RIDGE)) * SIGMA * unit**2
        ridge = noised if config.private else _least(config, diagonal)
        values, vectors = jnp.linalg.eigh(half + half.T + jnp.diag(diagonal + ridge))
        curve = CURVATURES[config.link] * config.weight
        curved = vectors / (curve * jnp.maximum(values, FLOOR * ridge))[None]
        return curved @ vectors.T

    step = public.inverse @ (
        wide_integers.to_float(released.slope, dtype) * slope_unit(config, query.broadcast.clip_norm)
    )
    return State(
        public._replace(
            step=public.step + 1,
            path=jnp.where(
                first, public.path, gp.write(public.path, (query.broadcast.weights + step)[None], public.step)
            ),
            inverse=jax.lax.cond(first, inverse, lambda: public.inverse),
        )
    )


def slope_unit(config: Config, clip_norm: jax.Array) -> jax.Array:
    """Return the value of a unit of a step's sum."""
    return _unit(config) * clipping.grid_step(clip_norm, config.residual_radius, config.outputs)


def _unit(config: Config) -> jax.Array:
    """The value of a unit of a feature."""
    return clipping.grid_step(jnp.ones((), config.clip_norms.dtype), config.radius, config.features)


def _least(config: Config, diagonal: jax.Array) -> jax.Array:
    """A ridge where there is no noise: features may be collinear."""
    return jnp.finfo(diagonal.dtype).eps ** 0.5 * (jnp.max(diagonal) + 1)


def inform(config: Config, query: Query, total: totals.UserTotal) -> Info:
    """Compute ``users ()``, the number with usable features, and ``mean_target ()``. NOT PRIVATE."""
    del query
    return Info({"users": total.facts["users"], "mean_target": total.facts["targets"] / config.users})


def release(key: jax.Array, config: Config, state: State) -> Release:
    """Return the weights; ``key`` is unused."""
    del key
    path = state.public.path
    return Release(jnp.zeros(1, config.clip_norms.dtype), path[jnp.maximum(state.public.step - 1, 0)], path)


def privacy(config: Config) -> guarantees.Guarantee:
    """``mu``-GDP for replace-one on the users, of the Gram matrix and all steps together; none at ``mu = inf``.

    The users are the rows that the model is trained on; a user with several rows is not protected, but with ``people``,
    which assumes that the owners of rows are public.

    Raises:
      ValueError: a stacked config; pass a single config.
    """
    if config.mu.ndim:
        raise ValueError(f"privacy takes one config, got mu of shape {config.mu.shape}")
    if not config.private:
        return guarantees.no_guarantee(PEOPLE if config.people else PROTECTED, "mu is infinite: no noise was added")
    count = config.clip_norms.shape[-1]
    owners = (assumptions.ROW_OWNERS,) * config.people
    return composed_guarantee.guarantee_from_stages(
        [(PART, "gaussian", level(int(config.radius), int(config.residual_radius), count))],
        PEOPLE if config.people else PROTECTED,
        assumptions=(assumptions.RANDOM_BITS, assumptions.PUBLIC_CONFIG, assumptions.SEPARABLE_LOSSES, *owners),
        total_variation=total_variation(config.features, config.outputs, count),
    )


def total_variation(features: int, outputs: int, steps: int) -> float:
    """Bound the total variation between all noise of a run and ideal noise."""
    width, upper = (tables.gaussian_total_variation(sigma, BITS) for sigma in (SIGMA, UPPER_SIGMA))
    return features * (1 + outputs * steps) * width + features * (features - 1) // 2 * upper


def _radii_of_rows(config: Config, counts: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The radii of a row's integers, over the root of the number of rows of its person: a person's rows add up to one.

    The squares are compared as integers: a root that was rounded up would let a person move more than is charged.
    """
    if not config.people:
        return config.radius, config.residual_radius
    most = 2 * integer_products.MOST**2  # with so many rows a row counts nothing
    exact = (counts >= 1) & (counts < 2**24)  # not NaN, nor a number that a float32 may have rounded down
    whole = jnp.ceil(jnp.where(exact, counts, most)).astype(jnp.int32)

    def shorten(radius: jax.Array, dimension: int) -> jax.Array:
        share = radius**2 // whole
        root = jnp.floor(jnp.sqrt(share.astype(counts.dtype))).astype(jnp.int32)
        root = jnp.where(root**2 > share, root - 1, root)
        return jnp.where(root**2 >= dimension, root, 0)  # rounding would hide the direction of a shorter row

    return shorten(config.radius, config.features), shorten(config.residual_radius, config.outputs)


def _residuals(config: Config, scores: jax.Array, targets: jax.Array) -> jax.Array:
    """Residuals ``(k, s)`` of ``scores (k, s)``; zero without a target."""
    if config.link == "identity":
        return jnp.where(jnp.isfinite(targets), targets - scores[0], 0)[None]
    classes = max(config.outputs, 2)
    listed = jnp.isfinite(targets) & (targets == jnp.round(targets)) & (targets >= 0) & (targets < classes)
    if config.link == "logistic":
        return jnp.where(listed, targets - jax.nn.sigmoid(scores[0]), 0)[None]
    own = (jnp.arange(classes, dtype=targets.dtype)[:, None] == targets[None]).astype(scores.dtype)
    return jnp.where(listed[None], own - jax.nn.softmax(scores, axis=0), 0)


def _settings(config: Config) -> calibration.NoiseSettings:
    def counts(*values: Any) -> jax.Array:
        return jnp.stack([jnp.asarray(value, jnp.int32) for value in values])

    return calibration.NoiseSettings(
        mu=config.mu,
        radius=jnp.stack([config.radius, config.residual_radius]),
        sigma=counts(SIGMA, UPPER_SIGMA),
        kind=counts(int(config.private), int(config.weighted), int(config.people)),
        users=counts(config.users),
        steps=counts(config.steps),
        releases=counts(config.features, config.outputs),
        clip=config.clip_norms,
    )


_steps = Algorithm(init, ask, tell, release, privacy, contribute=contribute, perturb=perturb, inform=inform)
algorithm = guard.guard_noise(_steps, _settings)
