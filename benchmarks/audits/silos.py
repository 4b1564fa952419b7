"""What a server sees of silos: sums, with and without what colluding silos know, against the stated levels.

A silo answers for many points at once. Each point is a trial: its share of the level is that of a single sum.
"""

import base64
import math
import tempfile
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.audits.rows import Row, Scores, claim
from jaxdpbo import Guarantee, ledger, private_evaluations, random_search, silos
from jaxdpbo.silos import masks, messages
from jaxdpbo.silos import silo as _silo
from jaxdpbo.tables import table

NAMES = "ABC"
USERS = 2  # of a silo; one user of A is 0 or 4
POINTS = 500  # of an answer
ANSWERS = 200  # of the claim; with fewer the rounding of a radius differs by less than 1e-3
MU = 1.0  # of a point, before shares are rounded
FLAT, STEEP = 0.1, 0.9  # points where all losses are 0, and where a loss is what a user holds

View = Callable[["Federation", int], np.ndarray]  # the scores of an attempt, (POINTS,)


def rows() -> list[Row]:
    """Return the rows; an empty list if cryptography, of the extra silos, is not installed."""
    try:
        import cryptography  # noqa: F401
    except ImportError:
        return []
    levels = [_levels(colluding) for colluding in (1, 2)]
    alone, broken = levels[0].server, levels[0].broken_masks
    return [
        Row("silos: the server", _claim(alone), _scores(_colluding_view(0))),
        Row("silos: the server and 1 of 3 silos", _claim(levels[0].colluding), _scores(_colluding_view(1))),
        Row("silos: the server and 2 of 3 silos", _claim(levels[1].colluding), _scores(_colluding_view(2))),
        Row("silos: all masks broken", _claim(broken), _scores(_unmasked_answer)),
        Row("silos: the answer of one silo", _claim(alone), _scores(_answer_of_one), least=0.0),
        Row("silos, all masks forgotten", _claim(alone), _scores(_unmasked_answer), holds=False),
        Row("silos, a share left out", _claim(alone), _scores(_sum_without_share), holds=False),
        Row("silos, an attempt not charged", _claim(alone), _scores(_mean_of_attempts, 2), holds=False),
        Row("silos, a mask used twice", _claim(alone), _scores(_difference_of_steps, 2), holds=False),
    ]


class Federation:
    """Three silos in one process; the first user of A holds ``value``."""

    def __init__(self, folder: Path, value: float, answers: int) -> None:
        cards = [silos.create_identity(folder / name, name, users=USERS) for name in NAMES]
        self.agreement = _agree(silos.make_roster(cards), answers)
        self.silos = {name: self._open(folder / name, name, value) for name in NAMES}
        self.keys = {name: silo.credential() for name, silo in self.silos.items()}

    def _open(self, folder: Path, name: str, value: float) -> silos.Silo:
        ledger.create(folder / "book", mu=1e6)
        columns = {"x": np.array([value if name == "A" else 0.0, *[0.0] * (USERS - 1)])}
        return silos.Silo(self.agreement, _loss, columns, name=name, folder=folder, ledger=folder / "book")

    def answers(self, step: int, attempt: int = 0, point: float = STEEP) -> dict[str, np.ndarray]:
        """What each silo sends for a query of the server's choice, uint64 ``(POINTS,)``."""
        template = self.agreement.template
        query = template._replace(points=np.full_like(template.points, point))
        leaves = messages.write_leaves([np.asarray(leaf)[None] for leaf in jax.tree.leaves(query)])
        request = messages.Request(self.agreement.run, step, attempt, self.keys, leaves).to_bytes()
        return {name: np.frombuffer(silo.answer(request), "<u8")[:POINTS] for name, silo in self.silos.items()}


def _loss(point, batch):
    return jnp.where(point[0] > 0.5, batch["x"], 0.0)


def _agree(roster: silos.Roster, answers: int, colluding: int = 1) -> silos.Agreement:
    inner = random_search.config(users=1, steps=answers, batch=POINTS, bounds=[(0.0, 1.0)])
    config = private_evaluations.config(
        random_search.algorithm, inner, users=roster.users, mu=MU * math.sqrt(answers * POINTS), loss_range=(0.0, 4.0)
    )
    algorithm = private_evaluations.make_algorithm(random_search.algorithm)
    return silos.agree("audit", algorithm, config, roster, colluding=colluding)


def _levels(colluding: int) -> silos.SiloGuarantees:
    """The guarantees of ``ANSWERS`` answers for ``POINTS`` points each."""
    cards = [silos.Member(name, USERS, base64.b64encode(name.encode() * 32).decode()) for name in NAMES]
    return _agree(silos.make_roster(cards), ANSWERS, colluding).guarantees


def _claim(stated: Guarantee) -> Guarantee:
    """The level of a single sum."""
    return claim("gdp", stated.level / math.sqrt(ANSWERS * POINTS))


def _scores(view: View, answers: int = 1) -> Callable[[int], Scores]:
    """Scores of as many trials under both values of the user, from ``view`` of ``answers`` answers."""

    def run_trials(value: float, trials: int) -> np.ndarray:
        # a silo has two users: a whole batch would be padding
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(table, "BATCH", USERS):
            count = -(-trials // POINTS)
            federation = Federation(Path(folder), value, answers * count)
            return np.concatenate([view(federation, number) for number in range(count)])[:trials]

    return lambda trials: (run_trials(0.0, trials), run_trials(4.0, trials))


def _add(answers: dict[str, np.ndarray]) -> np.ndarray:
    return np.sum(list(answers.values()), axis=0, dtype=np.uint64).view(np.int64).astype(float)


def _colluding_view(count: int) -> View:
    """The last ``count`` silos tell the server their noise."""

    def view(federation: Federation, number: int) -> np.ndarray:
        noise, draw = [], _silo._draw_noise

        def overhear(*arguments):
            noise.append(draw(*arguments))
            return noise[-1]

        with mock.patch.object(_silo, "_draw_noise", overhear):
            total = _add(federation.answers(number))
        return total - sum(part[:POINTS] for part in noise[len(NAMES) - count :])

    return view


def _answer_of_one(federation: Federation, number: int) -> np.ndarray:
    return federation.answers(number)["A"].view(np.int64).astype(float)


def _unmasked_answer(federation: Federation, number: int) -> np.ndarray:
    with mock.patch.object(masks, "make_mask", lambda *arguments: np.zeros(arguments[-1], np.uint64)):
        return federation.answers(number)["A"].view(np.int64).astype(float)


def _sum_without_share(federation: Federation, number: int) -> np.ndarray:
    """The last silo forgets its noise."""
    draw, silos_left = _silo._draw_noise, iter(NAMES)

    def forget_noise(*arguments):
        return np.zeros_like(draw(*arguments)) if next(silos_left) == NAMES[-1] else draw(*arguments)

    with mock.patch.object(_silo, "_draw_noise", forget_noise):
        return _add(federation.answers(number))


def _mean_of_attempts(federation: Federation, number: int) -> np.ndarray:
    """A server that claims that a sum was lost."""
    sums = [_add(federation.answers(number, attempt)) for attempt in (0, 1)]
    return (sums[0] + sums[1]) / 2


def _difference_of_steps(federation: Federation, number: int) -> np.ndarray:
    """A's answers under one mask, at points where its user counts and at points where nobody does."""
    make_mask = masks.make_mask

    def forget_context(name, private, publics, context, count):
        return make_mask(name, private, publics, b"", count)

    with mock.patch.object(masks, "make_mask", forget_context):
        first, second = (
            federation.answers(2 * number + odd, point=point)["A"] for odd, point in enumerate((STEEP, FLAT))
        )
    return (first - second).view(np.int64).astype(float)
