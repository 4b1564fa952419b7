"""What a curator may do to its inputs before they leave: the published random projection, and sound transforms.

Kharkovskii, Dai and Low (2020), "Private outsourced Bayesian optimization". Row ``i`` of ``inputs (n, d)`` is one
person's; ``curate`` turns all of them into rows ``z_i`` that a modeler may see.

=======================  ================================================  ========================================
transform                released                                          guarantee
=======================  ================================================  ========================================
``random_projection``    ``(x - mean) M / sqrt(r)``, the paper's           NONE: one affine map for all rows, which
                                                                           ``d + 1`` known rows reveal
``product_laplace``      ``x + w``, each coordinate Laplace                metric ``epsilon``-DP
``planar_laplace``       ``x + w``, ``w`` of density ``exp(-epsilon |w|)``   metric ``epsilon``-DP
``gaussian``             ``x + w``, normal, exact calibration              ``mu``-GDP
``private_projection``   ``x P + w``, ``P`` public, ``w`` normal           ``mu``-GDP
``randomised_response``  a public cell, the true one more often            ``epsilon``-DP, replace-one
=======================  ================================================  ========================================

The sound ones noise each row by itself, so the guarantee of all rows is that of one. A unit of distance is ``scale``
times the unit of the inputs, and ``centre`` is where they are measured from: both public, chosen without the inputs.
Estimating them from the inputs would be a release of its own, that nobody here pays for.

With ``noise="exact"`` rows are rounded down to cells of a grid and noised there by integers
(``mechanisms.discrete``); what rounding adds to the distance of two rows is paid for by a little more noise. Metric DP
then holds for rows a unit of distance apart or more, and nearer ones are told apart by no more than those.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxdpbo import _checks, laws
from jaxdpbo.privacy import accounting, guarantee, keys, mechanisms, records
from jaxdpbo.privacy import ledger as privacy_ledger
from jaxdpbo.privacy.mechanisms import tables

NOISES = ("exact", "float")
CELLS = 4096  # of the product Laplace grid, as far as neighbours may be apart
PLANAR = Fraction(1, 8)  # rate of the planar noise for a cell: its table grows with the square of the inverse
VARIATION = 2.0**-100  # one row's noise is within this of its law, whichever it is
WIDTHS = (4096, 65536)  # of Gaussian noise in cells, the second where the first would leave neighbours too few of them

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
      cell: the side of the grid's cells, in units of distance; 0 for noise in floating point.
      spread: of the exact noise in cells: the width of Gaussian, the rate of Laplace noise.
    """

    kind: str
    centre: np.ndarray
    scale: float
    dimension: int
    guarantee: guarantee.Guarantee
    radius: float = math.inf
    law: laws.Law | laws.Response | None = None
    threshold: float = 0.0
    cell: float = 0.0
    spread: int | Fraction = 0


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


def product_laplace(
    *, centre: Any, scale: float, epsilon: float, radius: float | None = None, noise: str = "exact"
) -> Config:
    """Laplace noise on every coordinate of every row: of any dimension, and the one to take.

    Formal guarantee: metric DP, ``epsilon`` for each unit between a row and its replacement: a unit is at most
    ``sqrt(d)`` in l1 norm. With ``radius`` rows are brought into that ball, and the guarantee is ``epsilon``-DP for
    replacing a row by any other. The root mean square of the noise is 1.15 times the planar law's for ``d = 2``, and
    tends to 1.41 times.

    Args:
      centre: ``(d,)``, public.
      scale: the unit of distance, public.
      epsilon: for a unit of distance, or for any replacement.
      radius: in units of distance, for "replace_one".
      noise: "exact" or "float".

    Raises:
      ValueError: a number out of range; names it.
    """
    epsilon, reach = _checks.positive("epsilon", epsilon), _reach(radius)
    origin = _checks.vector("centre", centre)
    root = math.sqrt(len(origin))
    if _checks.choice("noise", noise, NOISES) == "float":
        law = laws.law("product_laplace", reach * root / epsilon, len(origin))
        return _noised("product_laplace", origin, scale, law, radius, "metric_dp", "dp", epsilon)
    moved = math.ceil(root * CELLS) + 2 * len(origin)  # rounding down moves a coordinate by a cell, floats by another
    cell, rate = reach / CELLS, Fraction(epsilon) / moved
    if rate < Fraction(1, 2**24):
        raise ValueError(f"epsilon must be at least {moved / 2**24:.2g} with exact noise, got {epsilon:g}")
    law = laws.law("product_laplace", cell / float(rate), len(origin))
    assert 2 * len(origin) * tables.geometric_variation(rate) < VARIATION
    return _noised("product_laplace", origin, scale, law, radius, "metric_dp", "dp", epsilon, cell, rate)


def planar_laplace(
    *, centre: Any, scale: float, epsilon: float, radius: float | None = None, noise: str = "exact"
) -> Config:
    """Noise of density proportional to ``exp(-epsilon |w|)``, ``w`` in units of distance, on every row.

    Formal guarantee: metric DP, ``epsilon`` for each unit between a row and its replacement (Andres et al. 2013, in
    ``d`` dimensions). With ``radius`` rows are brought into that ball, ``w`` has density ``exp(-epsilon |w| /
    (2 radius))``, and the guarantee is ``epsilon``-DP for replacing a row by any other.

    Exact for ``d = 2`` alone, on cells of an eighth of the noise's scale: rounding costs 22 % more noise at ``epsilon =
    1``, 6 % at 3, so that below 1.5 ``product_laplace`` is better there too.

    Args:
      centre: ``(d,)``, public.
      scale: the unit of distance, public.
      epsilon: for a unit of distance, or for any replacement.
      radius: in units of distance, for "replace_one".
      noise: "exact" or "float".

    Raises:
      ValueError: a number out of range; names it.
    """
    epsilon, reach = _checks.positive("epsilon", epsilon), _reach(radius)
    origin = _checks.vector("centre", centre)
    if _checks.choice("noise", noise, NOISES) == "float":
        law = laws.law("planar_laplace", reach / epsilon, len(origin))
        return _noised("planar_laplace", origin, scale, law, radius, "metric_dp", "dp", epsilon)
    if len(origin) != 2 or epsilon < 0.5:
        raise ValueError(
            f"planar_laplace is exact for 2 dimensions and epsilon of at least 0.5, got {len(origin)} and {epsilon:g}: "
            "product_laplace is for any"
        )
    cell = reach / (epsilon / float(PLANAR) - math.sqrt(2) - 2.0**-10)
    law = laws.law("planar_laplace", cell / float(PLANAR), 2)
    assert tables.planar_variation(PLANAR) < VARIATION
    return _noised("planar_laplace", origin, scale, law, radius, "metric_dp", "dp", epsilon, cell, PLANAR)


def gaussian(
    *, centre: Any, scale: float, epsilon: float, delta: float, radius: float | None = None, noise: str = "exact"
) -> Config:
    """Normal noise on every row, of the exact calibration: ``mu = gdp_mu(epsilon, delta)``.

    Formal guarantee: ``mu``-GDP for rows a unit of distance apart, or with ``radius`` for any two rows in that ball.

    Args:
      centre: ``(d,)``, public.
      scale: the unit of distance, public.
      epsilon: of the ``(epsilon, delta)`` that ``mu`` implies.
      delta: likewise.
      radius: in units of distance, for "replace_one".
      noise: "exact" or "float".

    Raises:
      ValueError: a number out of range; names it.
    """
    mu, origin = accounting.gdp_mu(epsilon, delta), _checks.vector("centre", centre)
    return _normal("gaussian", origin, scale, radius, mu, len(origin), noise)


def private_projection(
    *,
    centre: Any,
    scale: float,
    projected: int,
    epsilon: float,
    delta: float,
    radius: float | None = None,
    noise: str = "exact",
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
      noise: "exact" or "float".

    Raises:
      ValueError: a number out of range; names it.
    """
    mu, origin = accounting.gdp_mu(epsilon, delta), _checks.vector("centre", centre)
    if _checks.size("projected", projected) >= len(origin):
        raise ValueError(f"projected must be under the dimension {len(origin)}, got {projected}")
    return _normal("private_projection", origin, scale, radius, mu, projected, noise)


def randomised_response(*, centre: Any, scale: float, epsilon: float, cells: Any, noise: str = "exact") -> Config:
    """Every row becomes one of ``K`` public cells: the nearest with ``e^epsilon`` times the probability of any other.

    Formal guarantee: ``epsilon``-DP for replacing a row by any other.

    Args:
      centre: ``(d,)``, public.
      scale: the unit of distance, public.
      epsilon: positive.
      cells: ``(K, d)``, at least 2, distinct, in units of distance from the centre.
      noise: "exact", its probabilities to within 2^-128 each, or "float".

    Raises:
      ValueError: a number out of range; names it.
    """
    epsilon, origin = _checks.positive("epsilon", epsilon), _checks.vector("centre", centre)
    truth = 1.0 / (1.0 + (len(cells) - 1) * math.exp(-epsilon))
    exact = _checks.choice("noise", noise, NOISES) == "exact"
    response = laws.response(cells, truth * (1 - 2.0**-48))  # whatever was rounded, no odds above e^epsilon
    if len(response.cells[0]) != len(origin):
        raise ValueError(f"cells must be of dimension {len(origin)}, got {len(response.cells[0])}")
    return Config(
        kind="randomised_response",
        centre=origin,
        scale=_checks.positive("scale", scale),
        dimension=len(origin),
        guarantee=_statement("dp", epsilon, "replace_one", exact),
        law=response,
        spread=int(exact),
    )


def curate(
    key: jax.Array | None,
    config: Config,
    inputs: Any,
    *,
    insecure_key: bool = False,
    ledger: str | Path | None = None,
    run: str | None = None,
) -> Curated:
    """What may leave, once: A SECOND CALL IS A SECOND SPEND, and two releases of one row average their noise away.

    Nothing about the values raises: a row with a number that is not finite counts as the centre.

    Args:
      key: None draws one from the operating system; a typed key is for tests, and the guarantee then rests on its
        being secret.
      config: of a transform.
      inputs: ``(n, d)``, private, in an order that says nothing of them: a sorted table tells on every row.
      insecure_key: permit a key of a generator without a security claim where the noise is exact.
      ledger: charge the release there (``privacy.ledger``); the same ``run`` is then given the same rows again. No
        ``key`` may be given.
      run: its name in the ledger, and of these inputs: needed there.

    Raises:
      ledger.Refused: the budget does not suffice, or the name stands for another release.
      TypeError: ``key`` is not a typed key, or of such a generator.
      ValueError: ``inputs`` is not ``(n, d)``; it says no value.
    """
    if ledger is not None and key is not None:
        raise ValueError("key must not be given with a ledger: a release on record draws from the operating system")
    key, statement = keys.for_release(key, config.guarantee, insecure_key)
    shape = np.shape(inputs)
    if len(shape) != 2 or shape[0] < 1 or shape[1] != len(config.centre):
        raise ValueError(f"inputs must have shape (n, {len(config.centre)}), got {shape}")
    charged = None if ledger is None else records.charge(ledger, run, f"curate by {config.kind}", statement, config)
    rows = _standard(inputs, config)
    draw_key, noise_key = jax.random.split(key)
    law, projection, cell = config.law, None, config.cell
    if law is None:
        released = _projected(draw_key, rows, config)
    elif isinstance(law, laws.Response):
        released = _responded(draw_key, rows, law, bool(config.spread))
    else:
        if config.kind == "private_projection":
            projection = jax.random.normal(draw_key, (shape[1], config.dimension), rows.dtype) / config.dimension**0.5
            stretch = _stretch(projection)
            law, cell = law._replace(scale=law.scale * stretch), cell * stretch
            rows = jnp.matmul(rows, projection, precision="highest")
        if cell:
            table = jnp.asarray(tables.padded(Fraction(config.spread))) if config.kind == "product_laplace" else None
            spread = None if config.kind == "product_laplace" else config.spread
            released = _released(noise_key, rows, cell, table, config.kind, spread)
        else:
            released = rows + laws.draw(noise_key, law, len(rows))
    if charged is not None and ledger is not None:
        payload = {"rows": records.as_text((released, projection))}
        stored = privacy_ledger.store_release(ledger, charged.run, payload)
        released, projection = records.from_text((released, projection), stored["rows"])
        if projection is not None and isinstance(
            config.law, laws.Law
        ):  # its stretch is that of the projection drawn first
            law = config.law._replace(scale=config.law.scale * _stretch(projection))
    return Curated(released, Metadata(config.kind, law, projection, config.scale), statement)


def _stretch(projection: jax.Array) -> float:
    """The largest singular value, and more than its own rounding."""
    return float(jnp.linalg.norm(projection, ord=2)) * (1 + 2.0**-16)


@partial(jax.jit, static_argnums=(4, 5))
def _released(key, rows, cell, table, kind, spread):
    """Rows rounded down to cells, noised by whole cells, and put in the middle of the cell that they are in then."""
    end = 2.0**29 if rows.dtype == jnp.float64 else 2.0**22  # beyond, floats would round by cells; rows end there
    whole = jnp.clip(jnp.floor(rows / cell), -end, end).astype(jnp.int32)
    if kind == "planar_laplace":
        noise = mechanisms.planar_laplace(key, rows.shape[0], spread)
    elif kind == "product_laplace":
        noise = mechanisms.discrete_laplace_of(key, rows.shape, table)  # traced: budgets do not compile anew
    else:
        noise = mechanisms.discrete_gaussian(key, rows.shape, spread)
    return ((whole + noise).astype(rows.dtype) + 0.5) * cell


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


def _responded(key, rows, response, exact):
    cells = jnp.asarray(response.cells, rows.dtype)
    nearest = jax.lax.map(lambda row: jnp.argmin(jnp.sum(jnp.square(cells - row[None]), axis=1)), rows)
    if exact:
        truth, count = Fraction(response.truth), len(cells) - 1
        turns = mechanisms.outcome(key, (len(rows),), (truth, *((1 - truth) / count,) * count))
        return cells[(nearest + turns) % len(cells)]
    truth_key, other_key = jax.random.split(key)
    tells = jax.random.uniform(truth_key, (len(rows),)) < response.truth
    others = jax.random.randint(other_key, (len(rows),), 1, len(cells))
    return cells[jnp.where(tells, nearest, (nearest + others) % len(cells))]


def _reach(radius: float | None) -> float:
    """How far apart neighbours may be: a unit, or the ball's diameter."""
    return 1.0 if radius is None else 2.0 * _checks.positive("radius", radius)


def _normal(kind, origin, scale, radius, mu, dimension, noise) -> Config:
    reach = _reach(radius)
    if _checks.choice("noise", noise, NOISES) == "float":
        law = laws.law("gaussian", reach / mu, dimension)
        return _noised(kind, origin, scale, law, radius, "gdp", "gdp", mu)
    rounding = 2 * math.sqrt(dimension)  # a cell in each coordinate for rounding down, another for floats
    for width in WIDTHS:
        distance = accounting.largest_distance(mu, width)
        if distance > 32 * rounding:
            break
    else:
        raise ValueError(
            f"epsilon must be larger with exact noise in {dimension} dimensions, got {mu:.2g}-GDP: rounding would cost "
            "more than 3 % (noise='float' has no grid)"
        )
    cell = reach / (distance - rounding)
    law = laws.law("gaussian", width * cell, dimension)
    level = accounting.discrete_gaussian_mu(distance, width)
    assert dimension * tables.gaussian_variation(width) < VARIATION
    return _noised(kind, origin, scale, law, radius, "gdp", "gdp", level, cell, width)


def _noised(kind, centre, scale, law, radius, near, anywhere, level, cell=0.0, spread: int | Fraction = 0) -> Config:
    notion, relation = (near, "unit_distance") if radius is None else (anywhere, "replace_one")
    statement = _statement(notion, level, relation, exact=cell > 0)
    return Config(
        kind=kind,
        centre=centre,
        scale=_checks.positive("scale", scale),
        dimension=law.dimension,
        guarantee=statement.assuming(guarantee.FLOAT_SENSITIVITY) if cell else statement,
        radius=math.inf if radius is None else float(radius),
        law=law,
        cell=cell,
        spread=spread,
    )


def _statement(notion: str, level: float, relation: str, exact: bool) -> guarantee.Guarantee:
    curve = (guarantee.DISCRETE_CURVE,) if notion == "gdp" else ()
    rests_on = (*curve, guarantee.RANDOM_BITS) if exact else (guarantee.IDEAL_NOISE,)
    variation = VARIATION if exact else 0.0
    return guarantee.guarantee(
        notion, level, relation, ROWS, holds_if=(*rests_on, guarantee.PUBLIC_CONFIG), variation=variation
    )
