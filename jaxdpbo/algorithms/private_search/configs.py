"""Configuration of a private search: rounds of points, budgets of choices, an inner algorithm."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxdpbo import arrays, checks
from jaxdpbo import space as spaces
from jaxdpbo.ledger import fingerprints
from jaxdpbo.noise import calibration, choice
from jaxdpbo.space import Space
from jaxdpbo.types import ArrayLike, Bounds

DESIGN_CHOICE, LAST_CHOICE = "the choice in a design", "the choice of the answer"  # names of parts of a guarantee


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Config:
    """Made by ``config``.

    Traced: ``choices``, a budget for each round and, with an ``inner`` config, one for the answer; ``width ()``;
    ``bounds (2, d)``; of all rounds ``fresh``, ``offset`` and ``kept``, ``(m, d)``: a coordinate of a point comes from
    ``fresh`` where ``kept`` is False, otherwise from the point chosen last, plus ``offset``. ``proposals
    (m, d)`` of public records, or None, are evaluated in the place of ``fresh``: a ledger's fingerprint leaves them
    out, since a search on public records may not repeat to the last bit. Static: ``batch``, and the number of points of
    each round.
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
    proposals: jax.Array | None = field(metadata={fingerprints.LEFT_OUT: True})

    @property
    def noise(self) -> str:
        """Kind of noise, of ``calibration.NOISES``."""
        return self.choices[0].noise

    @property
    def mechanism(self) -> str:
        """Part of the guarantee that spends the whole budget without an inner algorithm."""
        return DESIGN_CHOICE

    @property
    def design_steps(self) -> int:
        """Number of steps of all rounds."""
        return sum(self.rounds) // self.batch

    @property
    def steps(self) -> int:
        """Number of steps ``T``: the rounds, the inner algorithm, and one step for its answer."""
        return self.design_steps + (0 if self.inner is None else self.inner.steps + 1)


class Round(NamedTuple):
    """Points of one round, ``(q, d)`` each: ``fresh``, or where ``kept`` the chosen point plus ``offset``.

    >>> import numpy as np
    >>> from jaxdpbo import private_search
    >>> corners = np.array([[0.0, 0.0], [1.0, 1.0]])
    >>> design = private_search.Round(corners, 0 * corners, np.zeros((2, 2), bool))
    >>> design.fresh.shape
    (2, 2)
    """

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
    proposals: ArrayLike | None = None,
    noise: str = "exact",
) -> Config:
    """Check a configuration.

    Args:
      users: ``n``, public.
      bounds: ``(2, d)``, finite, or a ``Space``.
      loss_range: ``(low, high)``, chosen without the users' data: differences between a user's losses count up to its
        width. A narrower range gives more accurate choices, and wrong choices where few users lose much and many win a
        little.
      rounds: designs; ``kept`` is False throughout the first. Half of the prior of the first choice goes to the first
        point, of later choices to the point chosen last, and of the last choice to the inner algorithm's answer.
      choice_mu: the GDP budget of each round's choice and, with an ``inner_config``, of the choice of the answer.
      batch: ``b``, a divisor of the size of every round, and the inner algorithm's own.
      inner_config: of the inner algorithm, with the same users.
      proposals: points ``(m, d)`` that public records proposed, in the place of those of a single round; the guarantee
        then says so.
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
    box, batch, users = checks.box("bounds", bounds), checks.size("batch", batch), checks.size("users", users)
    dtype = jnp.result_type(float)
    low, high = checks.interval("loss_range", loss_range, dtype)
    designs = [_round(design, box, batch) for design in rounds]
    if not designs or np.any(designs[0].kept):
        raise ValueError("rounds must be one or more Round, of which the first keeps nothing (kept is False)")
    mus = checks.reals("choice_mu", choice_mu)
    if mus.shape != (len(designs) + (inner_config is not None),):
        raise ValueError(f"choice_mu must be one number a choice, got shape {mus.shape} for {len(designs)} rounds")
    _check_inner(inner_config, users, batch)
    levels = [checks.positive("choice_mu", mu, finite=False) for mu in mus.tolist()]
    kind = checks.one_of("noise", noise, calibration.NOISES)
    kind = "none" if np.all(np.isinf(levels)) else kind
    steps = sum(len(design.fresh) for design in designs) // batch + (
        0 if inner_config is None else inner_config.steps + 1
    )
    if steps * batch >= 2**16:
        raise ValueError(f"points must be fewer than 65,536, got {steps * batch} in {steps} steps")
    return Config(
        inner=inner_config,
        choices=tuple(choice.budget(mu, kind, dtype=dtype) for mu in levels),
        width=arrays.to_device(high - low, dtype),
        bounds=arrays.to_device(box, dtype),
        fresh=arrays.to_device(np.concatenate([design.fresh for design in designs]), dtype),
        offset=arrays.to_device(np.concatenate([design.offset for design in designs]), dtype),
        kept=arrays.to_device(np.concatenate([design.kept for design in designs])),
        users=users,
        batch=batch,
        rounds=tuple(len(design.fresh) for design in designs),
        space=space,
        proposals=_proposals(proposals, designs, box),
    )


def _proposals(proposals: ArrayLike | None, designs: list[Round], box: np.ndarray) -> jax.Array | None:
    if proposals is None:
        return None
    points = checks.inside("proposals", checks.rows("proposals", proposals), box)
    if len(designs) > 1 or points.shape != designs[0].fresh.shape:
        shape = designs[0].fresh.shape
        raise ValueError(f"proposals must be the points of a single round, {shape}, got {points.shape}")
    return arrays.to_device(points, jnp.result_type(float))


def _check_inner(inner_config: Any, users: int, batch: int) -> None:
    """Raise ValueError where the inner algorithm has other users, or other batches."""
    if inner_config is not None and (inner_config.users, inner_config.batch) != (users, batch):
        raise ValueError(
            f"inner_config must be of {users} users and {batch} points a step, got {inner_config.users} and "
            f"{inner_config.batch}"
        )


def _round(value: Round, box: np.ndarray, batch: int) -> Round:
    fresh, offset, kept = (
        checks.rows("rounds", value.fresh),
        checks.rows("rounds", value.offset),
        np.asarray(value.kept),
    )
    if fresh.shape != offset.shape or fresh.shape != kept.shape or fresh.shape[1] != box.shape[1] or len(fresh) % batch:
        raise ValueError(
            f"rounds must have points of {box.shape[1]} numbers, a multiple of {batch}, all of one shape, got "
            f"{fresh.shape}, {offset.shape} and {kept.shape}"
        )
    if kept.dtype != bool:
        raise TypeError(f"rounds must have booleans as kept, got {kept.dtype}")
    checks.inside("rounds", np.where(kept, box[0], fresh), box)
    return Round(fresh, offset, kept)
