"""What a curator may do to its inputs before they leave: the published random projection, and sound transforms.

Kharkovskii, Dai and Low (2020), "Private outsourced Bayesian optimization". Row ``i`` of ``inputs (n, d)`` is one
person's; ``curate`` turns all of them into rows ``z_i`` that a modeler may see.

=======================  ================================================  ========================================
transform                released                                          guarantee
=======================  ================================================  ========================================
``random_projection``    ``(x - mean) M / sqrt(r)``, the paper's           NONE: one affine map for all rows, which
                                                                           ``d + 1`` known rows reveal
``planar_laplace``       ``x + w``, ``w`` of density ``exp(-epsilon |w|)``   metric ``epsilon``-DP, pure
``gaussian``             ``x + w``, normal, exact calibration              ``mu``-GDP
``private_projection``   ``x P + w``, ``P`` public, ``w`` normal           ``mu``-GDP
``randomised_response``  a public cell, the true one more often            ``epsilon``-DP, replace-one
=======================  ================================================  ========================================

The sound ones noise each row by itself, so the guarantee of all rows is that of one. A unit of distance is ``scale``
times the unit of the inputs, and ``centre`` is where they are measured from: both public, chosen without the inputs.
Estimating them from the inputs would be a release of its own, that nobody here pays for.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxdpbo import _checks, laws
from jaxdpbo.privacy import accounting, guarantee, keys

ROWS = "the rows of X; NOT the outputs that the curator returns for them"
PROJECTED = (
    "z = x G + h with one G and h for all rows: neighbours have disjoint supports, and d + 1 known rows reveal all "
    "others (the column-space attack)"
)


@dataclass(frozen=True)
class Config:
    """Made by one of the functions below; all of it is public.

    Attributes:
      kind: of the transform.
      centre: ``(d,)``.
      scale: the unit of distance.
      radius: rows are brought into this ball around the centre, in units of distance; inf for none.
      dimension: ``r``, of a released row.
      law: of the noise, or of the cell that is named; None where there is none.
      threshold: ``omega`` of the random projection.
      guarantee: of the release.
    """

    kind: str
    centre: np.ndarray
    scale: float
    dimension: int
    guarantee: guarantee.Guarantee
    radius: float = math.inf
    law: laws.Law | laws.Response | None = None
    threshold: float = 0.0


class Metadata(NamedTuple):
    """What the modeler is told besides the rows: public, or a post-processing of what it is told.

    Attributes:
      kind: of the transform.
      law: of the noise on a row, or of the cell it names, for the modeler's kernel; None where there is none.
      projection: ``(d, r)``, the public ``P`` of ``private_projection``; otherwise None.
      scale: the unit of distance.
    """

    kind: str
    law: laws.Law | laws.Response | None
    projection: jax.Array | None
    scale: float


class Curated(NamedTuple):
    """``z (n, r)`` to be sent, its public ``metadata``, and under which ``guarantee``."""

    z: jax.Array
    metadata: Metadata
    guarantee: guarantee.Guarantee


def random_projection(*, dimension: int, projected: int, epsilon: float, delta: float, scale: float = 1.0) -> Config:
    """The published transform, Algorithm 1: it carries NO guarantee, whatever its ``epsilon`` and ``delta`` say.

    They only set the ``threshold`` under which the singular values of the centred inputs are raised. Centring
    subtracts the inputs' own mean, as printed.

    Args:
      dimension: ``d``, of the inputs.
      projected: ``r``.
      epsilon: as claimed.
      delta: as claimed.
      scale: the inputs are divided by it first.

    Raises:
      ValueError: a number out of range; names it.
    """
    size, rank = _checks.size("dimension", dimension), _checks.size("projected", projected)
    delta, epsilon = _checks.probability("delta", delta), _checks.positive("epsilon", epsilon)
    return Config(
        kind="random_projection",
        centre=np.zeros(size),
        scale=_checks.positive("scale", scale),
        dimension=rank,
        guarantee=guarantee.no_guarantee(ROWS, PROJECTED),
        threshold=threshold(rank, epsilon, delta),
    )


def threshold(projected: int, epsilon: float, delta: float) -> float:
    """``omega = 16 sqrt(r ln(2 / delta)) ln(16 r / delta) / epsilon``: line 5 of the published Algorithm 1."""
    return 16.0 * math.sqrt(projected * math.log(2.0 / delta)) * math.log(16.0 * projected / delta) / epsilon


def largest_projected(smallest_singular: float, epsilon: float, delta: float) -> int:
    """The largest ``r`` whose threshold is at most the smallest singular value of the centred inputs; 0 where none is.

    What the paper finds best for its transform. The singular value is private, and so is this number: one more reason
    why that transform carries no guarantee.
    """
    rank = 0
    while threshold(rank + 1, epsilon, delta) <= smallest_singular:
        rank += 1
    return rank


def planar_laplace(*, centre: Any, scale: float, epsilon: float, radius: float | None = None) -> Config:
    """Noise of density proportional to ``exp(-epsilon |w|)``, ``w`` in units of distance, on every row.

    Formal guarantee: pure metric DP, ``epsilon`` for each unit between a row and its replacement (Andres et al. 2013,
    in ``d`` dimensions). With ``radius`` rows are brought into that ball, ``w`` has density ``exp(-epsilon |w| /
    (2 radius))``, and the guarantee is ``epsilon``-DP for replacing a row by any other.

    Args:
      centre: ``(d,)``, public.
      scale: the unit of distance, public.
      epsilon: for a unit of distance, or for any replacement.
      radius: in units of distance, for "replace_one".

    Raises:
      ValueError: a number out of range; names it.
    """
    epsilon, reach = _checks.positive("epsilon", epsilon), _reach(radius)
    origin = _checks.vector("centre", centre)
    return _noised("planar_laplace", origin, scale, laws.law("planar_laplace", reach / epsilon, len(origin)), radius,
                   "metric_dp", "dp", epsilon)  # fmt: skip


def gaussian(*, centre: Any, scale: float, epsilon: float, delta: float, radius: float | None = None) -> Config:
    """Normal noise on every row, of the exact calibration: ``mu = gdp_mu(epsilon, delta)``.

    Formal guarantee: ``mu``-GDP for rows a unit of distance apart, or with ``radius`` for any two rows in that ball.

    Args:
      centre: ``(d,)``, public.
      scale: the unit of distance, public.
      epsilon: of the ``(epsilon, delta)`` that ``mu`` implies.
      delta: likewise.
      radius: in units of distance, for "replace_one".

    Raises:
      ValueError: a number out of range; names it.
    """
    mu, origin = accounting.gdp_mu(epsilon, delta), _checks.vector("centre", centre)
    return _noised("gaussian", origin, scale, laws.law("gaussian", _reach(radius) / mu, len(origin)), radius,
                   "gdp", "gdp", mu)  # fmt: skip


def private_projection(
    *, centre: Any, scale: float, projected: int, epsilon: float, delta: float, radius: float | None = None
) -> Config:
    """A public random ``P (d, r)``, ``r < d``, and normal noise on what is left of a row.

    Formal guarantee: as ``gaussian``; the noise grows with the largest singular value of ``P``, which ``curate`` draws
    (Kenthapadi et al. 2013, their row norms replaced by the operator norm: neighbours differ in a whole row).

    Args:
      centre: ``(d,)``, public.
      scale: the unit of distance, public.
      projected: ``r``; at ``d`` and above ``gaussian`` is better at everything.
      epsilon: of the ``(epsilon, delta)`` that ``mu`` implies.
      delta: likewise.
      radius: in units of distance, for "replace_one".

    Raises:
      ValueError: a number out of range; names it.
    """
    mu, origin = accounting.gdp_mu(epsilon, delta), _checks.vector("centre", centre)
    if _checks.size("projected", projected) >= len(origin):
        raise ValueError(f"projected must be under the dimension {len(origin)}, got {projected}")
    noise = laws.law("gaussian", _reach(radius) / mu, projected)
    return _noised("private_projection", origin, scale, noise, radius, "gdp", "gdp", mu)


def randomised_response(*, centre: Any, scale: float, epsilon: float, cells: Any) -> Config:
    """Every row becomes one of ``K`` public cells: the nearest with ``e^epsilon`` times the probability of any other.

    Formal guarantee: ``epsilon``-DP for replacing a row by any other.

    Args:
      centre: ``(d,)``, public.
      scale: the unit of distance, public.
      epsilon: positive.
      cells: ``(K, d)``, at least 2, distinct, in units of distance from the centre.

    Raises:
      ValueError: a number out of range; names it.
    """
    epsilon, origin = _checks.positive("epsilon", epsilon), _checks.vector("centre", centre)
    response = laws.response(cells, 1.0 / (1.0 + (len(cells) - 1) * math.exp(-epsilon)))
    if len(response.cells[0]) != len(origin):
        raise ValueError(f"cells must be of dimension {len(origin)}, got {len(response.cells[0])}")
    return Config(
        kind="randomised_response",
        centre=origin,
        scale=_checks.positive("scale", scale),
        dimension=len(origin),
        guarantee=_statement("dp", epsilon, "replace_one"),
        law=response,
    )


def curate(key: jax.Array | None, config: Config, inputs: Any) -> Curated:
    """What may leave, once: A SECOND CALL IS A SECOND SPEND, and two releases of one row average their noise away.

    Nothing about the values raises: a row with a number that is not finite counts as the centre.

    Args:
      key: None draws one from the operating system; a typed key is for tests, and the guarantee then rests on its
        being secret.
      config: of a transform.
      inputs: ``(n, d)``, private, in an order that says nothing of them: a sorted table tells on every row.

    Raises:
      TypeError: ``key`` is not a typed key.
      ValueError: ``inputs`` is not ``(n, d)``; it says no value.
    """
    statement = config.guarantee if key is None else config.guarantee.assuming(guarantee.KEY_SECRET)
    key = keys.secret_key() if key is None else _checks.key("key", key)
    shape = np.shape(inputs)
    if len(shape) != 2 or shape[0] < 1 or shape[1] != len(config.centre):
        raise ValueError(f"inputs must have shape (n, {len(config.centre)}), got {shape}")
    rows = _standard(inputs, config)
    draw_key, noise_key = jax.random.split(key)
    law, projection = config.law, None
    if law is None:
        released = _projected(draw_key, rows, config)
    elif isinstance(law, laws.Response):
        released = _responded(draw_key, rows, law)
    else:
        if config.kind == "private_projection":
            projection = jax.random.normal(draw_key, (shape[1], config.dimension), rows.dtype) / config.dimension**0.5
            law = law._replace(scale=law.scale * float(jnp.linalg.norm(projection, ord=2)))
            rows = jnp.matmul(rows, projection, precision="highest")
        released = rows + laws.draw(noise_key, law, len(rows))
    return Curated(released, Metadata(config.kind, law, projection, config.scale), statement)


def _standard(inputs: Any, config: Config) -> jax.Array:
    """Rows ``(n, d)`` from the centre in units of distance, inside the ball, finite."""
    raw = jnp.asarray(inputs, jnp.result_type(float))
    rows = (raw - jnp.asarray(config.centre, raw.dtype)[None]) / config.scale
    length = jnp.linalg.norm(rows, axis=1, keepdims=True)
    usable = jnp.isfinite(length)
    rows = jnp.where(usable, rows, 0.0)
    return rows * jnp.where(usable & (length > config.radius), config.radius / length, 1.0)


def _projected(key, rows, config):
    """Algorithm 1, lines 2 to 10."""
    centred = rows - jnp.mean(rows, axis=0, keepdims=True)
    left, singular, right = jnp.linalg.svd(centred, full_matrices=False)
    raised = jnp.sqrt(jnp.square(singular) + config.threshold**2)
    values = jnp.where(jnp.min(singular) >= config.threshold, singular, raised)
    matrix = jax.random.normal(key, (rows.shape[1], config.dimension), rows.dtype)
    inflated = jnp.matmul(left * values[None], right, precision="highest")
    return jnp.matmul(inflated, matrix, precision="highest") / math.sqrt(config.dimension)


def _responded(key, rows, response):
    cells = jnp.asarray(response.cells, rows.dtype)
    nearest = jax.lax.map(lambda row: jnp.argmin(jnp.sum(jnp.square(cells - row[None]), axis=1)), rows)
    truth_key, other_key = jax.random.split(key)
    tells = jax.random.uniform(truth_key, (len(rows),)) < response.truth
    others = jax.random.randint(other_key, (len(rows),), 1, len(cells))
    return cells[jnp.where(tells, nearest, (nearest + others) % len(cells))]


def _reach(radius: float | None) -> float:
    """How far apart neighbours may be: a unit, or the ball's diameter."""
    return 1.0 if radius is None else 2.0 * _checks.positive("radius", radius)


def _noised(kind, centre, scale, law, radius, near, anywhere, level) -> Config:
    notion, relation = (near, "unit_distance") if radius is None else (anywhere, "replace_one")
    return Config(
        kind=kind,
        centre=centre,
        scale=_checks.positive("scale", scale),
        dimension=law.dimension,
        guarantee=_statement(notion, level, relation),
        radius=math.inf if radius is None else float(radius),
        law=law,
    )


def _statement(notion: str, level: float, relation: str) -> guarantee.Guarantee:
    assumptions = guarantee.IDEAL_NOISE, guarantee.PUBLIC_CONFIG
    return guarantee.guarantee(notion, level, relation, ROWS, holds_if=assumptions)
