"""``scripts/contributions [--check]``: write docs/contributions.md, the numbers a user adds in a step of an algorithm.

Lengths come from the traced ``contribute``, bounds from the configs.
"""

import argparse
import math
import os
import pkgutil
import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("JAX_ENABLE_X64", "1")

import jax
import jax.numpy as jnp
import numpy as np

from jaxdpbo import (
    algorithms,
    dp_gd,
    dp_gibo,
    gp_ucb,
    phases,
    private_choice,
    private_estimate,
    private_evaluations,
    private_linear,
)
from jaxdpbo.noise import wide_integers
from jaxdpbo.types import Algorithm, Query

PAGE = Path(__file__).parent.parent / "docs" / "contributions.md"
USERS, STEPS, DIMENSION, MU = 10_000, 25, 3, 1.0
BATCH = DIMENSION + 1
BOX = {"low": [-1.0] * DIMENSION, "high": [1.0] * DIMENSION}
SUMMED, SURVEYED = "contribute", "survey"
DESCENDING = "steps of the descent"
NORMS: dict[str, Callable[[Any], float]] = {
    "length": lambda part: math.sqrt(sum(int(number) ** 2 for number in np.ravel(part))),
    "each": lambda part: max(abs(int(number)) for number in np.ravel(part)),
}


class Part(NamedTuple):
    """Numbers that a user adds to a total.

    Attributes:
      words: their meaning.
      when: the steps in which they count.
      function: their origin, ``SUMMED`` or ``SURVEYED``.
      pick: gives their ``Wide`` from the ``whole`` of a total.
      norm: the bounded norm, of ``NORMS``.
      bound: gives the bound from a config.
    """

    words: str
    when: str
    function: str
    pick: Callable[[Any], wide_integers.Wide]
    norm: str
    bound: Callable[[Any], int]


class Row(NamedTuple):
    """An algorithm, a config, and the parts that its users add."""

    name: str
    algorithm: Algorithm
    config: Any
    parts: tuple[Part, ...]


def _gradient_part(pick: Callable[[Any], Any], noise: Callable[[Any], Any], when: str = "each step") -> Part:
    return Part("a clipped gradient", when, SUMMED, pick, "length", lambda config: int(noise(config).radius))


def _flags_part(pick: Callable[[Any], Any], function: str, threshold: str) -> Part:
    return Part(
        f"flags of the powers of two at or above {threshold}", "a single step", function, pick, "each", lambda _: 1
    )


def _losses(
    words: str,
    pick: Callable[[Any], Any],
    when: str = "each step",
    noise: Callable[[Any], Any] = lambda config: config.noise,
) -> Part:
    return Part(words, when, SUMMED, pick, "each", lambda config: int(noise(config).radius))


def _choice_part(number: int) -> Part:
    """Of the choice that is a phase of this number."""

    def bound(config: Any) -> int:
        noise = config.phases[number].noise
        return int(noise.units) * int(noise.digits)

    words, when = "losses at the points so far, minus the user's least loss", "a step that ends with a choice"
    return Part(words, when, SUMMED, lambda whole: whole[number], "each", bound)


def _whole(whole: Any) -> Any:
    return whole


def rows() -> list[Row]:
    """Every algorithm with a ``contribute``, with all parts that its users add."""
    shared = {"users": USERS, "mu": MU}
    descent = {**shared, "steps": STEPS, "bounds": BOX}
    own = _gradient_part(_whole, lambda config: config.noise)
    sought = _flags_part(_whole, SURVEYED, "the length of a gradient")
    gibo = dp_gibo.config(**descent, batch=BATCH)
    candidates = np.linspace(-1, 1, 12).reshape(BATCH, DIMENSION)
    evaluated = gp_ucb.config(steps=STEPS, bounds=BOX)
    around = {"bounds": BOX, "loss_range": (0, 1), "batch": BATCH, "users": USERS}
    half = dp_gibo.config(**descent | {"mu": MU / 2}, batch=BATCH)
    return [
        Row("dp_gd", dp_gd.algorithm, dp_gd.config(**descent), (own,)),
        Row(
            'dp_gd, `clip_norm="private"`', dp_gd.algorithm, dp_gd.config(**descent, clip_norm="private"),
            (own, sought),
        ),
        Row("dp_gibo", dp_gibo.algorithm, gibo, (own,)),
        Row(
            'dp_gibo, `memory="none"`', dp_gibo.algorithm, dp_gibo.config(**descent, batch=BATCH, memory="none"),
            (own,),
        ),
        Row(
            'dp_gibo, `clip_norm="private"`', dp_gibo.algorithm,
            dp_gibo.config(**descent, batch=BATCH, clip_norm="private"), (own, sought),
        ),
        Row(
            "private_evaluations", private_evaluations.make_algorithm(gp_ucb.algorithm),
            private_evaluations.config(gp_ucb.algorithm, evaluated, **shared, loss_range=(0, 1)),
            (_losses("a clipped loss at each point of a query", lambda whole: whole.means),),
        ),
        Row(
            'private_evaluations, `loss_range="private"`', private_evaluations.make_algorithm(gp_ucb.algorithm),
            private_evaluations.config(
                gp_ucb.algorithm, evaluated, **shared, loss_range="private", design=candidates[:3]
            ),
            (
                _losses("a clipped loss at each point of a query", lambda whole: whole.means),
                _flags_part(lambda whole: whole.counts, SUMMED, "the largest difference on the design"),
            ),
        ),
        Row(
            "private_linear", private_linear.algorithm,
            private_linear.config(users=USERS, features=DIMENSION, mu=MU),
            (
                Part(
                    "squares of the features", "the first step", SUMMED, lambda whole: whole.diagonal, "length",
                    lambda config: int(config.radius) ** 2,
                ),
                Part(
                    "products of two features", "the first step", SUMMED, lambda whole: whole.upper, "length",
                    lambda config: math.isqrt(int(config.radius) ** 4 // 2) + 1,
                ),
                Part(
                    "features times the residual", "later steps", SUMMED, lambda whole: whole.slope, "length",
                    lambda config: int(config.radius) * int(config.residual_radius),
                ),
            ),
        ),
        Row(
            "private_choice", phases.make_algorithm(private_choice.design),
            phases.config(private_choice.design_config(**around, points=candidates, mu=MU)), (_choice_part(0),),
        ),
        Row(
            "private_choice before and after dp_gibo",
            phases.make_algorithm(private_choice.design, dp_gibo.from_point, private_choice.at_answers),
            phases.config(
                private_choice.design_config(**around, points=candidates, mu=MU / 2), half,
                private_choice.answers_config(**around, mu=MU / 2),
            ),
            (
                _choice_part(0),
                _gradient_part(lambda whole: whole[1], lambda config: config.phases[1].noise, DESCENDING),
                _choice_part(2),
            ),
        ),
        Row(
            "private_evaluations, of the answer of dp_gibo",
            phases.make_algorithm(phases.Phase(dp_gibo.algorithm), private_estimate.at_answer),
            phases.config(half, private_estimate.config(users=USERS, mu=MU / 2, bounds=BOX, loss_range=(0, 1))),
            (
                _gradient_part(lambda whole: whole[0], lambda config: config.phases[0].noise, DESCENDING),
                _losses(
                    "a clipped loss at the answer", lambda whole: whole[1].means, "the last step",
                    lambda config: config.phases[1].noise,
                ),
            ),
        ),
    ]  # fmt: skip


def algorithms_without_contribute() -> list[str]:
    """Algorithms without a ``contribute``."""
    names = [module.name for module in pkgutil.iter_modules(algorithms.__path__)]
    found = {name: getattr(import_module(f"jaxdpbo.algorithms.{name}"), "algorithm", None) for name in names}
    return sorted(name for name, algorithm in found.items() if algorithm is not None and algorithm.contribute is None)


def first_query(row: Row) -> Query:
    """The first query of a run."""
    key = jax.random.key(0)
    return jax.jit(lambda config: row.algorithm.ask(key, config, row.algorithm.init(key, config)))(row.config)


def values_of(row: Row, query: Query, users: int) -> tuple[int, ...]:
    """The shape of the objective's values for this number of users."""
    per_user = {dp_gd.algorithm: DIMENSION, private_linear.algorithm: DIMENSION + 1}.get(row.algorithm)
    return (len(query.mask), users) if per_user is None else (1, per_user, users)


def users_total(row: Row, function: str, query: Query, memory: Any, values: jax.Array) -> Any:
    """The ``whole`` of the total of these users."""
    if function == SURVEYED:
        assert row.algorithm.survey is not None
        return row.algorithm.survey(row.config, query, memory, values)
    assert row.algorithm.contribute is not None
    return row.algorithm.contribute(row.config, query, memory, values)[0].whole


def page() -> str:
    """The text of the page."""
    lines = []
    for row in rows():
        query = jax.eval_shape(lambda row=row: first_query(row))
        memory = row.algorithm.remember(row.config, 1)
        memory_size = sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(memory))
        values = jnp.zeros(values_of(row, query, 1))
        for number, part in enumerate(row.parts):
            whole = jax.eval_shape(partial(users_total, row, part.function), query, memory, values)
            count = part.pick(whole).low.shape[0]
            norm = "length at most" if part.norm == "length" else "each at most"
            named = row.name if number == 0 else ""
            bound = f"{norm} {part.bound(row.config):,}"
            lines.append(
                f"| {named} | {part.words} | {part.when} | {count} | {bound} | {memory_size if number == 0 else ''} |"
            )
    table = "\n".join(lines)
    names = ", ".join(f"`{name}`" for name in algorithms_without_contribute())
    return f"""# The contribution of a user

Read this page to see how far each of your users can move the sums of a step. Every user adds a short vector of whole
numbers to a sum. The library adds noise to the sum once, or draws a choice from it once. The table lists these vectors
for {USERS:,} users, `mu = {MU:g}`, {STEPS} steps, {DIMENSION} parameters and {BATCH} points a step.
`scripts/contributions` wrote the page from the traced programs and the configurations; `tests/test_contribute.py` gives
`contribute` extreme records and checks the bounds.

| algorithm | part that a user adds | steps | numbers | bound on the numbers | numbers that a user carries |
|---|---|---|---|---|---|
{table}

The bounds come from the configuration, which is public and fixed before the run. Neither a query nor a record can
change a bound. A sum has 64 bits, so any number of users fits. With `noise="float"` the vectors are floats, in the
units of the losses or gradients.

These algorithms have no `contribute`, because their objective returns one value for all users, or because they keep raw
values until the release: {names}.
"""


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="scripts/contributions", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if the page differs")
    options = parser.parse_args(arguments)
    text = page()
    if options.check:
        return int(PAGE.read_text() != text)
    PAGE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
