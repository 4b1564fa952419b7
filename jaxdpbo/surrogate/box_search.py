"""Maximise an acquisition over candidates, or over a box by multi-start projected Adam."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax.tree_util import Partial

from jaxdpbo import checks
from jaxdpbo.surrogate.entry import compiled, expect_shapes


class BoxSearch(NamedTuple):
    """Settings of the acquisition search over a box; static.

    Attributes:
      raw_samples: points evaluated before the ascents.
      num_restarts: ascents, from the best raw samples; at most ``raw_samples``.
      ascent_steps: gradient steps of each ascent.
    """

    raw_samples: int = 1000
    num_restarts: int = 8
    ascent_steps: int = 50


def best_candidate(utility: Callable[[jax.Array], jax.Array], candidates: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Find the candidate ``(c, ...)`` of largest utility.

    Compile once for all calls by passing a ``jax.tree_util.Partial``, as for ``search_box``.

    Returns:
      The candidate's index and utility. Among candidates within rounding of the largest (``2e-13`` of it in float64,
      ``1e-5`` in float32) the first wins, so equal candidates give the same choice on every backend. A NaN utility
      counts as -inf.

    >>> import jax.numpy as jnp
    >>> from jaxdpbo import surrogate
    >>> row, utility = surrogate.best_candidate(lambda point: -jnp.sum(point**2), jnp.array([[2.0], [0.5], [-3.0]]))
    >>> int(row), float(utility)
    (1, -0.25)

    Raises:
      ValueError: ``utility`` does not return a scalar, at trace time.
    """
    return (_best_candidate_compiled if isinstance(utility, Partial) else _best_candidate)(utility, candidates)


def _best_candidate(utility, candidates):
    utilities = jax.vmap(utility)(candidates)
    if utilities.ndim != 1:
        raise ValueError(f"utility must return a scalar, got shape {utilities.shape[1:]}")
    return first_of_largest(utilities)


_best_candidate_compiled = compiled()(_best_candidate)


def first_of_largest(utilities: jax.Array, start: jax.Array | int = 0) -> tuple[jax.Array, jax.Array]:
    """Compute ``best_candidate`` of given utilities ``(c,)``: the first from ``start`` on, then from the beginning."""
    utilities = jnp.where(jnp.isnan(utilities), -jnp.inf, utilities)
    largest = jnp.max(utilities)
    slack = jnp.where(jnp.isfinite(largest), tie_tolerance(utilities.dtype) * jnp.abs(largest), 0.0)
    count = utilities.shape[0]
    start = jnp.asarray(start, jnp.int32)
    places = jnp.arange(count, dtype=jnp.int32) - start
    places = jnp.where(places < 0, places + count, places)
    nearest = jnp.min(jnp.where(utilities >= largest - slack, places, count))
    best = (nearest + start) % count
    return best, utilities[best]


def tie_tolerance(dtype: jax.typing.DTypeLike) -> float:
    """Relative difference within which utilities count as equal: rounding, and at most the fifth digit."""
    return min(1e3 * float(jnp.finfo(dtype).eps), 1e-5)


def ascend(
    value_and_gradient: Callable[[jax.Array], tuple[jax.Array, jax.Array]],
    project: Callable[[jax.Array], jax.Array],
    start: jax.Array,
    *,
    steps: int,
    step_size: jax.Array | float,
) -> tuple[jax.Array, jax.Array]:
    """Run projected Adam with a decaying step from one start; keep the best point evaluated, the start included.

    Where the utility or its gradient is not finite, the ascent continues from the best point.

    Args:
      value_and_gradient: of the utility at one point, any shape.
      project: maps a point into the feasible set.
      start: a feasible point.
      steps: gradient steps; ``steps + 1`` evaluations, all in one loop, so that the utility is compiled once.
      step_size: initial size of a step, in the units of the point; any shape that broadcasts with the point.

    Returns:
      The best point evaluated and its utility.
    """
    smallest = float(jnp.finfo(start.dtype).tiny)  # changes no update; without it, a slope of 0 has no derivative
    adam = optax.scale_by_adam(b1=0.7, b2=0.8, eps_root=smallest, nesterov=True)  # short memories: a short ascent
    optimizer = optax.chain(adam, optax.scale_by_schedule(optax.cosine_decay_schedule(1.0, steps, alpha=0.2)))
    size = jnp.asarray(step_size, start.dtype)

    def keep_best(best, point, value):
        better = value > best[1]  # False for NaN
        return jnp.where(better, point, best[0]), jnp.where(better, value, best[1])

    def step(carry, _):
        point, memory, best = carry
        value, gradient = value_and_gradient(point)
        best = keep_best(best, point, value)
        usable = jnp.isfinite(value) & jnp.all(jnp.isfinite(gradient))
        with jax.numpy_dtype_promotion("standard"):  # optax takes floats to the power of its count of steps
            update, memory = optimizer.update(jnp.where(usable, gradient, 0.0), memory)
        moved = project(jnp.where(usable, point, best[0]) + size * jnp.asarray(update))
        return (moved, memory, best), None

    worst = (start, jnp.full((), -jnp.inf, start.dtype))
    (_, _, best), _ = jax.lax.scan(step, (start, optimizer.init(start), worst), length=steps + 1)
    return best


def multi_start(
    key: jax.Array,
    utility: Callable[[jax.Array], jax.Array],
    lower: jax.Array,
    upper: jax.Array,
    *,
    num_restarts: int,
    steps: int,
    step_size: float = 0.05,
    initial: jax.Array | None = None,
) -> tuple[jax.Array, jax.Array]:
    """Maximise a differentiable utility over the box ``[lower, upper]``, both ``(d,)`` and finite.

    Args:
      key: for the uniform starts.
      utility: scalar function of one point.
      lower: lower corner.
      upper: upper corner.
      num_restarts: number of starts, mapped.
      steps: Adam steps from each start.
      step_size: of Adam, as a share of the box.
      initial: a point to use as the first start.

    Returns:
      The best point evaluated ``(d,)`` and its utility. Where the utility was NaN everywhere: a start, and -inf.

    >>> import jax
    >>> import jax.numpy as jnp
    >>> import numpy as np
    >>> from jaxdpbo.surrogate import box_search
    >>> def utility(point):
    ...     return -jnp.sum(jnp.square(point - 0.3))
    >>> point, _ = box_search.multi_start(
    ...     jax.random.key(0), utility, jnp.zeros(2), jnp.ones(2), num_restarts=2, steps=30
    ... )
    >>> print(np.asarray(point).round(1))
    [0.3 0.3]
    """
    width = upper - lower
    value_and_gradient = jax.value_and_grad(lambda unit: utility(lower + width * unit))
    units = jax.random.uniform(key, (num_restarts, *lower.shape), lower.dtype)
    if initial is not None:
        units = units.at[0].set((initial - lower) / width)

    def ascent(unit):
        return ascend(value_and_gradient, lambda point: jnp.clip(point, 0, 1), unit, steps=steps, step_size=step_size)

    points, values = jax.lax.map(ascent, units)
    best = jnp.argmax(values)
    return lower + width * points[best], values[best]


def sample_and_ascend(
    key: jax.Array,
    utility: Callable[[jax.Array], jax.Array],
    lower: jax.Array,
    upper: jax.Array,
    *,
    incumbent: jax.Array,
    raw_samples: int,
    num_restarts: int,
    steps: int,
    step_size: float = 0.05,
) -> tuple[jax.Array, jax.Array]:
    """Maximise a utility made of matrix products: raw samples first, then vmapped ascents from the best.

    Args:
      key: for the samples.
      utility: scalar function of one point; ``vmap`` turns its products with a vector into products with a matrix.
      lower: lower corner.
      upper: upper corner.
      incumbent: ``(d,)``, a promising point and the start of an ascent.
      raw_samples: number of samples: half uniform in the box, half normal around the incumbent with a twentieth of the
        box as standard deviation.
      num_restarts: ascents from the best samples, besides the ascent from the incumbent.
      steps: Adam steps of each.
      step_size: of Adam, as a share of the box.

    Returns:
      The best point evaluated ``(d,)`` and its utility; among equal ascents the first wins.

    >>> import jax
    >>> import jax.numpy as jnp
    >>> import numpy as np
    >>> from jaxdpbo.surrogate import box_search
    >>> def utility(point):
    ...     return -jnp.sum(jnp.square(point - 0.3))
    >>> point, _ = box_search.sample_and_ascend(
    ...     jax.random.key(0), utility, jnp.zeros(2), jnp.ones(2), incumbent=jnp.full(2, 0.5),
    ...     raw_samples=16, num_restarts=2, steps=30,
    ... )
    >>> print(np.asarray(point).round(1))
    [0.3 0.3]
    """
    width = upper - lower
    dimension = lower.shape[0]

    def unit_utility(unit):
        return utility(lower + width * unit)

    far_key, near_key = jax.random.split(key)
    middle = ((incumbent - lower) / width)[None]
    far = jax.random.uniform(far_key, (raw_samples - raw_samples // 2, dimension), lower.dtype)
    near = jnp.clip(middle + 0.05 * jax.random.normal(near_key, (raw_samples // 2, dimension), lower.dtype), 0, 1)
    tried = jnp.concatenate([far, near])
    best, value = ascend_from_best(
        unit_utility,
        middle,
        tried,
        jax.vmap(unit_utility)(tried),
        num_restarts=num_restarts,
        steps=steps,
        step_size=step_size,
    )
    return jnp.clip(lower + width * best, lower, upper), value


def ascend_from_best(
    utility: Callable[[jax.Array], jax.Array],
    always: jax.Array,
    tried: jax.Array,
    scores: jax.Array,
    *,
    num_restarts: int,
    steps: int,
    step_size: float = 0.05,
) -> tuple[jax.Array, jax.Array]:
    """Ascend in the unit box from all of ``always (a, d)``, and from the ``tried (k, d)`` with the largest scores.

    Args:
      utility: scalar function of one point, vmapped.
      always: starts.
      tried: raw samples.
      scores: ``(k,)``, their utilities, or scores in the same order; NaN comes last.
      num_restarts: ascents from the raw samples.
      steps: Adam steps of each.
      step_size: of Adam.

    Returns:
      The best point evaluated ``(d,)`` and its utility; among equal ascents the first wins.
    """

    def ascent(unit):
        return ascend(
            jax.value_and_grad(utility), lambda at: jnp.clip(at, 0, 1), unit, steps=steps, step_size=step_size
        )

    _, best = jax.lax.top_k(jnp.where(jnp.isnan(scores), -jnp.inf, scores), num_restarts)
    points, values = jax.vmap(ascent)(jnp.concatenate([always, tried[best]]))
    winner, value = first_of_largest(values)
    return points[winner], value


def search_box(
    key: jax.Array,
    utilities: Callable[[jax.Array], jax.Array],
    lower: jax.Array,
    upper: jax.Array,
    *,
    incumbent: jax.Array,
    search: BoxSearch,
    step_size: float = 0.05,
) -> tuple[jax.Array, jax.Array]:
    """Maximise like ``sample_and_ascend``, with batched utilities: ``(k,)`` of points ``(k, d)``.

    Samples around the incumbent are logistic, of about the same standard deviation: cheap to draw and to compile. The
    samples form as many groups as there are restarts, half uniform each, and each ascent starts from the best of a
    group, without a sort.

    Compile once for all calls by passing the arrays of your utility in a ``jax.tree_util.Partial``. With any other
    function a call from Python compiles anew, since the function may read arrays that have changed.

    >>> import jax
    >>> import jax.numpy as jnp
    >>> import numpy as np
    >>> from jaxdpbo import surrogate
    >>> def utilities(middle, points):
    ...     return -jnp.sum(jnp.square(points - middle), axis=1)
    >>> for middle in (0.3, 0.6):  # compiles once
    ...     point, _ = surrogate.search_box(
    ...         jax.random.key(0), jax.tree_util.Partial(utilities, middle), jnp.zeros(2), jnp.ones(2),
    ...         incumbent=jnp.full(2, 0.5), search=surrogate.BoxSearch(raw_samples=16, num_restarts=2, ascent_steps=30),
    ...     )
    ...     print(np.asarray(point).round(1))
    [0.3 0.3]
    [0.6 0.6]

    Raises:
      ValueError: a wrong shape, or ``utilities`` of another shape than ``(k,)``, at trace time.
    """
    run = _search_box_compiled if isinstance(utilities, Partial) else _search_box
    return run(key, utilities, lower, upper, incumbent=incumbent, search=search, step_size=step_size)


def _search_box(key, utilities, lower, upper, *, incumbent, search, step_size):
    expect_shapes(lower=(lower, "d"), upper=(upper, "d"), incumbent=(incumbent, "d"))
    width = upper - lower

    def unit_utilities(units):
        heights = utilities(lower[None] + width[None] * units)
        expect_shapes(points=(units, "k d"), utilities=(heights, "k"))
        return heights

    def ascent(unit):
        of_one = jax.value_and_grad(lambda at: unit_utilities(at[None])[0])
        return ascend(of_one, lambda at: jnp.clip(at, 0, 1), unit, steps=search.ascent_steps, step_size=step_size)

    count = search.raw_samples
    middle = ((incumbent - lower) / width)[None]
    drawn = jax.random.uniform(key, (count, lower.shape[0]), lower.dtype, minval=jnp.finfo(lower.dtype).tiny)
    near = jnp.clip(middle + 0.03 * (jnp.log(drawn) - jnp.log1p(-drawn)), 0, 1)
    tried = jnp.where((jnp.arange(count) % 2 == 1)[:, None], near, drawn)
    size = -(-count // search.num_restarts)
    tried = tried[jnp.arange(size * search.num_restarts) % count]  # the last group repeats some samples
    heights = unit_utilities(tried)
    best = jnp.argmax(jnp.where(jnp.isnan(heights), -jnp.inf, heights).reshape(-1, size), axis=1)
    starts = tried[best + size * jnp.arange(search.num_restarts)]
    points, values = jax.vmap(ascent)(jnp.concatenate([middle, starts]))
    winner, value = first_of_largest(values)
    return jnp.clip(lower + width * points[winner], lower, upper), value


_search_box_compiled = compiled("search")(_search_box)


def make_search(search: BoxSearch) -> BoxSearch:
    """Check a ``BoxSearch``; return Python integers.

    >>> from jaxdpbo.surrogate import box_search
    >>> box_search.make_search(box_search.BoxSearch(raw_samples=100, num_restarts=4))
    BoxSearch(raw_samples=100, num_restarts=4, ascent_steps=50)

    Raises:
      TypeError: not a ``BoxSearch``, or a field that is not an integer.
      ValueError: a number below 1, or ``num_restarts`` above ``raw_samples``.
    """
    if not isinstance(search, BoxSearch):
        raise TypeError(
            f"search must be a surrogate.BoxSearch, such as BoxSearch(raw_samples=100), got {type(search).__name__}"
        )
    checked = BoxSearch(*(checks.size(name, value) for name, value in zip(BoxSearch._fields, search, strict=True)))
    if checked.num_restarts > checked.raw_samples:
        raise ValueError(
            f"num_restarts must be at most raw_samples = {checked.raw_samples}, got {checked.num_restarts}"
        )
    return checked
