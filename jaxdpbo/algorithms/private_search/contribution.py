"""Sums over users in a step of the search, and the choice or the noise: the only place where it spends its budget.

Every function takes the inner algorithm first, or None without an inner algorithm.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxdpbo import types
from jaxdpbo.algorithms.private_search.configs import Config
from jaxdpbo.noise import choice as _choice
from jaxdpbo.noise import totals, wide_integers
from jaxdpbo.surrogate import gp
from jaxdpbo.types import Algorithm, Memory, Query


class UserMemory(NamedTuple):
    """Raw memory of users: ``losses (m, s)`` of ``s`` users, and the memory of the inner algorithm."""

    losses: jax.Array
    inner: Any


class Work(NamedTuple):
    """Public inputs of ``contribute``.

    Attributes:
      step: ``()``.
      number: ``()``, number of the choice at the end of this step, counted from 1; 0 for no choice.
      favoured: ``()``, the row with half of the choice's prior.
      inner: for the inner algorithm.
    """

    step: jax.Array
    number: jax.Array
    favoured: jax.Array
    inner: Any


class Parts(NamedTuple):
    """Parts of the ``choice`` and of the ``inner`` algorithm, in a total or in a release.

    The choice is ``(m,)`` in a total and a row ``()`` in a release.
    """

    choice: Any
    inner: Any


def remember(inner: Algorithm | None, config: Config, users: int) -> Memory:
    """Make the memory of ``users`` before any evaluation."""
    count, dtype = config.steps * config.batch, config.width.dtype
    inside = () if inner is None else inner.remember(config.inner, users)
    return UserMemory(jnp.zeros((count, users), dtype), inside)


def contribute(
    inner: Algorithm | None,
    config: Config,
    query: Query,
    memory: UserMemory,
    values: jax.Array,
    present: jax.Array | None = None,
) -> tuple[totals.UserTotal, Memory]:
    """Sum each user's relative losses in a step with a choice; in an inner step, call the inner ``contribute``.

    Args:
      inner: the inner algorithm, or None.
      config: see ``config``.
      query: from ``ask``.
      memory: of ``remember``, for the same users.
      values: ``(b, s)``, the users' losses. A loss that is not finite is remembered, and counts as documented in
        ``choice.choose_row``.
      present: ``(s,)``, False at padding columns, which belong to no user.

    Raises:
      ValueError: ``values`` is of another shape, at trace time.
    """
    types.check_values(values, config.batch, memory=memory, present=present)
    work, values = query.work, values.astype(config.width.dtype)
    first = jnp.minimum(work.step, config.steps - 1) * config.batch
    losses = gp.write(memory.losses, jnp.where(query.mask[:, None], values, jnp.inf), first, query.active)

    def make_choice(end, budget):
        def sum_relative(losses):
            total = _choice.sum_losses(budget, losses[:end], config.width, present)
            return jax.tree.map(lambda leaf: jnp.pad(leaf, (0, len(losses) - end)), total)

        return sum_relative

    branches = [make_choice(end, budget) for end, budget in zip(choice_ends(config), config.choices, strict=True)]
    nobody = totals.make_zeros(branches[-1], losses)
    chosen = jax.lax.switch(work.number, [lambda losses: nobody, *branches], losses)
    total, inside = totals.UserTotal((), {}), memory.inner
    if inner is not None:
        assert inner.contribute is not None
        contributes = partial(inner.contribute, config.inner, inner_query(query), memory.inner, values, present)
        nothing = totals.make_zeros(contributes)[0], memory.inner
        total, inside = jax.lax.cond(is_searching(config, query), contributes, lambda: nothing)
    present_losses = values if present is None else jnp.where(present[None], values, 0)
    facts = {"losses": jnp.sum(present_losses, axis=1), "inner": total.facts}
    return totals.UserTotal(Parts(chosen, total.whole), facts), UserMemory(losses, inside)


def survey(
    inner: Algorithm,
    config: Config,
    query: Query,
    memory: UserMemory,
    values: jax.Array,
    present: jax.Array | None = None,
) -> wide_integers.Wide:
    """Call ``survey`` of the inner algorithm."""
    assert inner.survey is not None
    return inner.survey(config.inner, inner_query(query), memory.inner, values, present)


def refine(inner: Algorithm, key: jax.Array, config: Config, query: Query, whole: wide_integers.Wide) -> Query:
    """Call ``refine`` of the inner algorithm, with its privacy guarantee."""
    assert inner.refine is not None
    refined = inner.refine(key, config.inner, inner_query(query), whole)
    return query._replace(work=query.work._replace(inner=refined.work))


def perturb(inner: Algorithm | None, key: jax.Array, config: Config, query: Query, whole: Parts) -> Parts:
    """Choose the row of this step (0 without a choice), and make the inner algorithm's noisy sum (zeros elsewhere).

    Formal guarantee: of a choice, ``choice.level`` and ``choice.pure_level`` of its budget; of the inner step, its
    own. Replace-one; a step has only one of the two.
    """
    choice_key, inner_key = jax.random.split(key)

    def draw_row(end, budget):
        return lambda total: _choice.draw(
            choice_key, budget, jax.tree.map(lambda leaf: leaf[:end], total), query.work.favoured
        )

    branches = [draw_row(end, budget) for end, budget in zip(choice_ends(config), config.choices, strict=True)]
    row = jax.lax.switch(query.work.number, [lambda _: jnp.zeros((), jnp.int32), *branches], whole.choice)
    noisy = ()
    if inner is not None:
        assert inner.perturb is not None
        perturbs = partial(inner.perturb, inner_key, config.inner, inner_query(query), whole.inner)
        noisy = jax.lax.cond(is_searching(config, query), perturbs, lambda: totals.make_zeros(perturbs))
    return Parts(row, noisy)


def inner_query(query: Query) -> Query:
    """Return the query in the form made by the inner algorithm."""
    return query._replace(work=query.work.inner)


def is_searching(config: Config, query: Query) -> jax.Array:
    """Return whether this step belongs to the inner algorithm: ``()``."""
    return query.active & (phase(config, query.work.step) == 1)


def phase(config: Config, step: jax.Array) -> jax.Array:
    """Phase of a step: 0 in the designs, 1 in the inner algorithm, 2 on its answers."""
    return (step >= config.design_steps).astype(jnp.int32) + (step >= config.steps - 1).astype(jnp.int32)


def choice_ends(config: Config) -> list[int]:
    """Number of points available to each choice."""
    ends = [int(end) for end in np.cumsum(config.rounds)]
    return ends if config.inner is None else [*ends, config.steps * config.batch]
