"""What a private search is configured with: rounds of points, budgets of choices, an inner algorithm."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxdpbo import _arrays, _checks
from jaxdpbo import space as spaces
from jaxdpbo.privacy import calibration, choice
from jaxdpbo.space import Space
from jaxdpbo.types import ArrayLike, Bounds

DESIGN_CHOICE, LAST_CHOICE = "the choice in a design", "the choice of the answer"  # parts of a guarantee


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Config:
    """Made by ``config``.

    Traced: ``choices``, a budget for each round and, with an ``inner`` config, one for the answer; ``width ()``;
    ``bounds (2, d)``; of all rounds ``fresh``, ``offset`` and ``kept``, ``(m, d)``: a point has the coordinates of
    ``fresh`` where ``kept`` is False, otherwise those of the point chosen last plus ``offset``. Static: ``batch``, and
    how many points each round has.
    """

    inner: Any
    choices: tuple[choice.ChoiceBudget, ...]
    width: jax.Array
    bounds: jax.Array
    fresh: jax.Array
    offset: jax.Array
    kept: jax.Array
    users: int = field(metadata={"static": True})
    batch: int = field(metadata={"static": True})
    rounds: tuple[int, ...] = field(metadata={"static": True})
    space: Space | None = field(metadata={"static": True})

    @property
    def noise(self) -> str:
        """Of ``calibration.NOISES``."""
        return self.choices[0].noise

    @property
    def mechanism(self) -> str:
        """What all of the budget is spent on where there is no inner algorithm."""
        return DESIGN_CHOICE

    @property
    def design_steps(self) -> int:
        """Of all rounds."""
        return sum(self.rounds) // self.batch

    @property
    def steps(self) -> int:
        """``T``: the rounds, the inner algorithm, and one on its answer."""
        return self.design_steps + (0 if self.inner is None else self.inner.steps + 1)


class Round(NamedTuple):
    """Points of one round, ``(q, d)`` each: ``fresh``, or where ``kept`` those of the chosen point plus ``offset``."""

    fresh: np.ndarray
    offset: np.ndarray
    kept: np.ndarray


def config(
    *,
    users: int,
    bounds: Bounds,
    loss_range: ArrayLike,
    rounds: Sequence[Round],
    choice_mu: Sequence[float],
    batch: int,
    inner_config: Any = None,
    noise: str = "exact",
) -> Config:
    """Check a configuration.

    Args:
      users: ``n``, public.
      bounds: ``(2, d)``, finite, or a ``Space``.
      loss_range: ``(low, high)``, chosen without the users' data: differences between a user's losses count up to its
        width. A narrower one is sharper, and wrong where few users lose much and many win a little.
      rounds: of points; the first keeps none, and its first point has half of the prior. Later choices give it to the
        point chosen last, and the last one to the inner algorithm's answer.
      choice_mu: the GDP budget of each round's choice, and with an ``inner_config`` that of the answer's.
      batch: ``b``, a divisor of every round's count, and the inner algorithm's own.
      inner_config: of the inner algorithm, of the same users.
      noise: "exact", or "float", for research sweeps; or "none" (only with budgets of inf).

    Raises:
      ValueError: a number out of range, a wrong shape.
      TypeError: an argument of the wrong kind.

    >>> import numpy as np
    >>> from jaxdpbo import private_search
    >>> corners = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    >>> design = private_search.Round(corners, 0 * corners, np.zeros((4, 2), bool))
    >>> box = {"low": [0, 0], "high": [1, 1]}
    >>> options = {"users": 500, "bounds": box, "loss_range": (0, 1), "batch": 2}
    >>> chosen = private_search.config(rounds=[design], choice_mu=[0.5], **options)
    >>> chosen.steps, private_search.make_algorithm().privacy(chosen).level <= 0.5
    (2, True)
    """
    bounds, space = spaces.box(bounds)
    box, batch, users = _checks.box("bounds", bounds), _checks.size("batch", batch), _checks.size("users", users)
    dtype = jnp.result_type(float)
    low, high = _checks.interval("loss_range", loss_range, dtype)
    designs = [_round(each, box, batch) for each in rounds]
    if not designs or np.any(designs[0].kept):
        raise ValueError("rounds must be one or more, of which the first keeps nothing")
    given = _checks.reals("choice_mu", choice_mu)
    if given.shape != (len(designs) + (inner_config is not None),):
        raise ValueError(f"choice_mu must be one number a choice, got shape {given.shape} for {len(designs)} rounds")
    _check_inner(inner_config, users, batch)
    levels = [_checks.positive("choice_mu", mu, finite=False) for mu in given.tolist()]
    kind = _checks.choice("noise", noise, calibration.NOISES)
    kind = "none" if np.all(np.isinf(levels)) else kind
    steps = sum(len(each.fresh) for each in designs) // batch + (0 if inner_config is None else inner_config.steps + 1)
    if steps * batch >= 2**16:
        raise ValueError(f"points must be fewer than 65,536, got {steps * batch} in {steps} steps")
    return Config(
        inner=inner_config,
        choices=tuple(choice.budget(mu, kind, dtype=dtype) for mu in levels),
        width=_arrays.to_device(high - low, dtype),
        bounds=_arrays.to_device(box, dtype),
        fresh=_arrays.to_device(np.concatenate([each.fresh for each in designs]), dtype),
        offset=_arrays.to_device(np.concatenate([each.offset for each in designs]), dtype),
        kept=_arrays.to_device(np.concatenate([each.kept for each in designs])),
        users=users,
        batch=batch,
        rounds=tuple(len(each.fresh) for each in designs),
        space=space,
    )


def _check_inner(inner_config: Any, users: int, batch: int) -> None:
    """ValueError where the inner algorithm has other users, or other batches."""
    if inner_config is not None and (inner_config.users, inner_config.batch) != (users, batch):
        raise ValueError(
            f"inner_config must be of {users} users and {batch} points a step, got {inner_config.users} and "
            f"{inner_config.batch}"
        )


def _round(value: Round, box: np.ndarray, batch: int) -> Round:
    fresh, offset, kept = (
        _checks.rows("rounds", value.fresh),
        _checks.rows("rounds", value.offset),
        np.asarray(value.kept),
    )
    if fresh.shape != offset.shape or fresh.shape != kept.shape or fresh.shape[1] != box.shape[1] or len(fresh) % batch:
        raise ValueError(
            f"rounds must have points of {box.shape[1]} numbers, a multiple of {batch}, all of one shape, got "
            f"{fresh.shape}, {offset.shape} and {kept.shape}"
        )
    if kept.dtype != bool:
        raise TypeError(f"rounds must say True or False for what is kept, got {kept.dtype}")
    _checks.inside("rounds", np.where(kept, box[0], fresh), box)
    return Round(fresh, offset, kept)
