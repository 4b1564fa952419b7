"""What users add up to in a step of the search, and the choice or the noise: the one place where it pays.

Every function takes the inner algorithm first, None where there is none.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxdpbo import types
from jaxdpbo.algorithms.private_search.configs import Config
from jaxdpbo.privacy import choice, totals, wide_integers
from jaxdpbo.surrogate import gp
from jaxdpbo.types import Algorithm, Memory, Query


class Remembered(NamedTuple):
    """Raw: ``losses (m, s)`` of ``s`` users, and what they carry for the inner algorithm."""

    losses: jax.Array
    inner: Any


class Work(NamedTuple):
    """What users need to know for their part of a step.

    Attributes:
      active: ``()``, whether a step is left, under the budget that the run was begun with.
      step: ``()``.
      number: ``()``, which of the choices this step ends with, counted from 1; 0 where with none.
      favoured: ``()``, the row that has half of that choice's prior.
      inner: for the inner algorithm.
    """

    active: jax.Array
    step: jax.Array
    number: jax.Array
    favoured: jax.Array
    inner: Any


class Parts(NamedTuple):
    """Of a ``choice``, and of the ``inner`` algorithm: of a total, ``(m,)`` and its, or of what is released, ``()`` a
    row and its.
    """

    choice: Any
    inner: Any


class Facts(NamedTuple):
    """Sums over users, raw: their ``losses (b,)``, and the inner algorithm's."""

    losses: jax.Array
    inner: Any


def remember(inner: Algorithm | None, config: Config, users: int) -> Memory:
    """``Remembered`` of ``users`` who have not been evaluated yet."""
    count, dtype = config.steps * config.batch, config.width.dtype
    inside = () if inner is None else inner.remember(config.inner, users)
    return Remembered(jnp.zeros((count, users), dtype), inside)


def contribute(
    inner: Algorithm | None,
    config: Config,
    query: Query,
    memory: Memory,
    values: jax.Array,
    present: jax.Array | None = None,
) -> tuple[totals.Total, Memory]:
    """In a step that ends with a choice, each user's relative losses; in one of the inner algorithm, its part.

    Args:
      inner: the inner algorithm, or None.
      config: see ``config``.
      query: what was asked.
      memory: of ``remember``, for the same users.
      values: ``(b, s)``, the users' losses. A loss that is not finite is remembered, and counts as
        ``choice.choose_row`` says.
      present: ``(s,)``, False at columns that stand for nobody.

    Raises:
      ValueError: ``values`` is of another shape, at trace time.
    """
    types.check_values(values, config.batch, memory=memory, present=present)
    work, values = query.work, values.astype(config.width.dtype)
    first = jnp.minimum(work.step, config.steps - 1) * config.batch
    losses = gp.write(memory.losses, jnp.where(query.mask[:, None], values, jnp.inf), first, work.active)

    def make_choice(end, budget):
        def sum_relative(losses):
            total = choice.sum_losses(budget, losses[:end], config.width, present)
            return jax.tree.map(lambda leaf: jnp.pad(leaf, (0, len(losses) - end)), total)

        return sum_relative

    branches = [make_choice(end, budget) for end, budget in zip(choice_ends(config), config.choices, strict=True)]
    nobody = totals.make_zeros(branches[-1], losses)
    chosen = jax.lax.switch(work.number, [lambda losses: nobody, *branches], losses)
    total, inside = totals.Total((), ()), memory.inner
    if inner is not None:
        assert inner.contribute is not None
        contributes = partial(inner.contribute, config.inner, inner_query(query), memory.inner, values, present)
        nothing = totals.make_zeros(contributes)[0], memory.inner
        total, inside = jax.lax.cond(is_searching(config, query), contributes, lambda: nothing)
    known = values if present is None else jnp.where(present[None], values, 0)
    facts = Facts(jnp.sum(known, axis=1), total.facts)
    return totals.Total(Parts(chosen, total.whole), facts), Remembered(losses, inside)


def survey(
    inner: Algorithm, config: Config, query: Query, memory: Memory, values: jax.Array, present: jax.Array | None = None
) -> wide_integers.Wide:
    """Of the inner algorithm."""
    assert inner.survey is not None
    return inner.survey(config.inner, inner_query(query), memory.inner, values, present)


def refine(inner: Algorithm, key: jax.Array, config: Config, query: Query, whole: wide_integers.Wide) -> Query:
    """Of the inner algorithm; the privacy guarantee is its own."""
    assert inner.refine is not None
    refined = inner.refine(key, config.inner, inner_query(query), whole)
    return query._replace(work=query.work._replace(inner=refined.work))


def perturb(inner: Algorithm | None, key: jax.Array, config: Config, query: Query, whole: Parts) -> Parts:
    """The row that the step chooses, 0 where it chooses none; and the inner algorithm's noisy sum, zeros elsewhere.

    Formal guarantee: of a choice, ``choice.level`` and ``choice.pure_level`` of its budget; of the inner step, its own.
    Replace-one; a step has one of the two.
    """
    choice_key, inner_key = jax.random.split(key)

    def draw_row(end, budget):
        return lambda total: choice.draw(
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
    """The query as the inner algorithm made it."""
    return query._replace(work=query.work.inner)


def is_searching(config: Config, query: Query) -> jax.Array:
    """Whether this step is one of the inner algorithm's: ``()``."""
    return query.work.active & (phase(config, query.work.step) == 1)


def phase(config: Config, step: jax.Array) -> jax.Array:
    """0 in the designs, 1 in the inner algorithm, 2 on its answers."""
    return (step >= config.design_steps).astype(jnp.int32) + (step >= config.steps - 1).astype(jnp.int32)


def choice_ends(config: Config) -> list[int]:
    """How many points each choice is among."""
    ends = [int(end) for end in np.cumsum(config.rounds)]
    return ends if config.inner is None else [*ends, config.steps * config.batch]
