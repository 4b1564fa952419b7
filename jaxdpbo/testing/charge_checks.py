"""What is drawn is what is charged: a run's draws are recorded, and played again with one user's values replaced.

What the difference costs, composed by ``draw_costs``, is at most the guarantee, for any values, and nothing
else that leaves the run differs. The steps are those of the drivers, compiled.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import jax
import numpy as np

from jaxdpbo.guarantee import assumptions
from jaxdpbo.testing import draw_costs, tape
from jaxdpbo.testing import subject as _subject
from jaxdpbo.testing.subject import Seen, Subject, expect

HUGE = 1e12
NEIGHBOURS = 200  # of a data set


class Charge(NamedTuple):
    """The draws of a run, and the most that they cost, in the notion of the guarantee, between the ``pair``."""

    draws: list[tape.Draw]
    worst: float
    pair: tuple[list[np.ndarray], list[np.ndarray]]


def check_charge(subject: Subject, fresh: Callable[[], tape.Tape], data_sets: int = 2) -> Charge:
    """Play a run on neighbours of several data sets, of ordinary values and of values of any kind.

    Args:
      subject: with a guarantee of "gdp" or "dp".
      fresh: of ``tape.running``.
      data_sets: with ``NEIGHBOURS`` neighbours each.

    Raises:
      AssertionError: what must be mended.
    """
    worst, draws, pair, stated = 0.0, [], ([], []), subject.stated
    for seed in range(data_sets):
        rng, key, recording = np.random.default_rng(seed), jax.random.key(seed), fresh()
        values = data_set(rng, subject, ordinary=seed % 2 == 0)
        seen, draws = recording.record(_subject.whole_run, subject, key, values)
        if not draws and not subject.adds_users:
            return Charge([], 0.0, ([], []))  # it pays elsewhere, as in a transform of rows
        expect(draws, "perturb must draw its noise by a mechanism of jaxdpbo: it draws nothing")
        _check_kinds(subject, draws)
        cost_of = draw_costs.level_of if stated.notion == "gdp" else draw_costs.epsilon_of
        for user, replaced in neighbours(rng, values, NEIGHBOURS):
            other = [value.copy() for value in values]
            for value, own in zip(other, replaced, strict=True):
                value[..., user] = own
            of_other, pairs = recording.play(_subject.whole_run, subject, key, other)
            expect(len(pairs) == len(draws), "the values of users decide how much is drawn: perturb must draw equally")
            difference = _difference(seen, of_other)
            expect(
                not difference, f"{difference} follows from a user's values beside the draws of jaxdpbo's mechanisms"
            )
            if (cost := cost_of(tape.terms(pairs))) > worst:
                worst, pair = cost, (values, other)
    expect(
        worst <= stated.level * (1 + 1e-6),
        f"the draws cost {stated.notion} {worst:.6g} between two neighbours, more than privacy states, "
        f"{stated.level:.6g}: bound each user's part in contribute, raise the noise in perturb, or state what it costs",
    )
    return Charge(draws, worst, pair)


def _check_kinds(subject: Subject, draws: list[tape.Draw]) -> None:
    stated = subject.stated
    known = draw_costs.LEVELS if stated.notion == "gdp" else draw_costs.EPSILONS
    in_floats = assumptions.IDEAL_NOISE in stated.assumptions
    for mechanism in sorted({draw.mechanism for draw in draws}):
        expect(
            mechanism in known, f"privacy states {stated.notion}, and no cost of {mechanism} is known in this notion"
        )
        expect(
            mechanism.startswith("float") == in_floats,
            f"perturb draws {mechanism}, so the assumptions of privacy must "
            + (
                "name IDEAL_NOISE, and not RANDOM_BITS"
                if mechanism.startswith("float")
                else "name RANDOM_BITS, and not IDEAL_NOISE"
            ),
        )


def _difference(seen: Seen, of_other: Seen) -> str:
    """The first part that differs, in words; "" if none does."""
    if not _subject.are_equal(seen.release, of_other.release):
        return "the release"
    for number, (one, other) in enumerate(zip(seen.steps, of_other.steps, strict=True)):
        for name, own, its in zip(("the query", "the result of perturb", "the public state"), one, other, strict=True):
            if not _subject.are_equal(own, its):
                return f"{name} of step {number}"
    return ""


def data_set(rng: np.random.Generator, subject: Subject, *, ordinary: bool) -> list[np.ndarray]:
    """Users' values at every step: of ordinary users beside one of more than all before, or of any kind."""
    shapes = [(subject.points, *subject.shape)] * subject.config.steps
    if not ordinary:
        return [extremes(rng, shape) for shape in shapes]
    values = [rng.normal(size=shape) for shape in shapes]
    for step, value in enumerate(values):
        value[..., 1:] += 5.0 * (step == 0)  # the others' favourite
        value[..., 0] = min(HUGE * 1e3**step, 1e30) * signs(rng, value[..., 0].shape)
        if len(value) == 1:
            value[..., 0] *= (-1) ** step
    return values


def neighbours(
    rng: np.random.Generator, values: list[np.ndarray], count: int
) -> Iterator[tuple[int, list[np.ndarray]]]:
    """Yield a user, and what takes the place of the user's values at every step."""
    first = [value[..., 0] for value in values]
    yield 0, [-own for own in first]
    yield 0, [-own if step else np.zeros_like(own) for step, own in enumerate(first)]
    yield 0, [np.zeros_like(own) for own in first]
    yield 0, [np.full_like(own, np.nan) for own in first]
    yield 0, [np.where(own > 0, np.inf, -np.inf) for own in first]
    yield 0, [1e-30 * own for own in first]
    for _ in range(count - 6):
        user = int(rng.integers(values[0].shape[-1]))
        mirrored = rng.random() < 0.3
        yield user, [-value[..., user] if mirrored else extremes(rng, value.shape[:-1]) for value in values]


def signs(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Draw signs of both kinds, so that points differ."""
    drawn = rng.choice([-1.0, 1.0], shape)
    drawn[0] = 1.0
    drawn[-1] = -1.0 if shape[0] > 1 else 1.0
    return drawn


def extremes(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Draw numbers of any kind."""
    huge = 10.0 ** rng.uniform(-30, 40, shape) * rng.choice([-1, 1], shape)
    odd = rng.choice([0.0, np.nan, np.inf, -np.inf, 1.0, -1.0, 3.0, 1e-320], shape)
    return np.where(rng.random(shape) < 0.5, huge, odd)
