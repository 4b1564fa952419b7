"""Public numbers of each transform: they determine its noise, its grid and its guarantee."""

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from jaxdpbo import accounting, checks, input_noise, rounding, sensitivity
from jaxdpbo.guarantee import assumptions, guarantees
from jaxdpbo.noise.mechanisms import tables
from jaxdpbo.types import ArrayLike

NOISES = ("exact", "float")
CELLS = 4096  # of the product Laplace grid, between neighbours
PLANAR = Fraction(1, 8)  # rate of the planar noise for a cell: the table grows with the inverse square
TOTAL_VARIATION = 2.0**-100  # bounds the total variation of a row's noise, for every transform
SIGMAS = (4096, 65536)  # of Gaussian noise in cells; the second if the first leaves neighbours too few cells
END = 2.0**29  # cells from the centre where rows end, in every coordinate
MAX_CELLS = 2**28  # cells between neighbours
STEPS = (2.0**-960, 2.0**960)  # range of a cell's side: beyond, float64 loses digits

ROWS = "the rows of X; NOT the outputs that the curator returns for them"
PROJECTED = (
    "z = x G + h with one G and h for all rows: neighbours have disjoint supports, and d + 1 known rows reveal all "
    "others (the column-space attack)"
)


@dataclass(frozen=True)
class Config:
    """A transform's numbers, all public; made by the functions below.

    Attributes:
      kind: of the transform.
      centre: ``(d,)``.
      scale: the unit of distance.
      radius: rows are brought into this ball around the centre, in units of distance; inf for none.
      dimension: ``r``, of a released row.
      distribution: of the noise, or of the reported cell; otherwise None.
      threshold: ``omega`` of the random projection.
      guarantee: of the release.
      cell: the side of the grid's cells, in units of distance; 0 for noise in floating point.
      grid_scale: of the exact noise in cells: the width of Gaussian, the rate of Laplace noise, the probability of the
        true cell; 0 for noise in floating point.
    """

    kind: str
    centre: np.ndarray
    scale: float
    dimension: int
    guarantee: guarantees.Guarantee
    radius: float = math.inf
    distribution: input_noise.NoiseDistribution | input_noise.Response | None = None
    threshold: float = 0.0
    cell: float = 0.0
    grid_scale: int | Fraction = 0


def random_projection(*, dimension: int, projected: int, epsilon: float, delta: float, scale: float = 1.0) -> Config:
    """Configure the published transform, Algorithm 1: NO guarantee, for any ``epsilon`` and ``delta``.

    They only set the ``threshold``: a smaller singular value of the centred inputs raises all singular values. Centring
    subtracts the inputs' own mean, as printed.

    Args:
      dimension: ``d``, of the inputs.
      projected: ``r``.
      epsilon: of the paper.
      delta: of the paper.
      scale: the inputs are divided by ``scale`` first.

    Raises:
      ValueError: an argument out of range, by name.

    >>> from jaxdpbo import transforms
    >>> transforms.random_projection(dimension=4, projected=2, epsilon=1.0, delta=1e-5).guarantee.notion
    'none'
    """
    size, rank = checks.size("dimension", dimension), checks.size("projected", projected)
    delta, epsilon = checks.probability("delta", delta), checks.positive("epsilon", epsilon)
    return Config(
        kind="random_projection",
        centre=np.zeros(size),
        scale=checks.positive("scale", scale),
        dimension=rank,
        guarantee=guarantees.no_guarantee(ROWS, PROJECTED),
        threshold=threshold(rank, epsilon, delta),
    )


@checks.takes(projected=checks.size, epsilon=checks.positive, delta=checks.probability)
def threshold(projected: int, epsilon: float, delta: float) -> float:
    """Return ``omega = 16 sqrt(r ln(2 / delta)) ln(16 r / delta) / epsilon``: line 5 of the published Algorithm 1.

    >>> from jaxdpbo import transforms
    >>> assert transforms.threshold(2, 1.0, 1e-5) > 1184
    """
    return 16.0 * math.sqrt(projected * math.log(2.0 / delta)) * math.log(16.0 * projected / delta) / epsilon


@checks.takes(smallest_singular=checks.nonnegative, epsilon=checks.positive, delta=checks.probability)
def largest_rank(smallest_singular: float, epsilon: float, delta: float) -> int:
    """Return the largest ``r`` with a threshold of at most the smallest singular value of the centred inputs, or 0.

    The paper finds this rank best for its transform. The singular value is private, and so is this number: another
    reason against a guarantee for this transform.
    """
    most = 1
    while threshold(most, epsilon, delta) <= smallest_singular and most < checks.MAX_SIZE:
        most *= 2
    rank = most // 2
    while most - rank > 1:  # rank passes, or is 0; most does not
        middle = (rank + most) // 2
        rank, most = (middle, most) if threshold(middle, epsilon, delta) <= smallest_singular else (rank, middle)
    return rank


def product_laplace(
    *, centre: ArrayLike, scale: float, epsilon: float, radius: float | None = None, noise: str = "exact"
) -> Config:
    """Configure Laplace noise on every coordinate of every row: for any dimension, and the recommended transform.

    Formal guarantee: metric DP, ``epsilon`` for each unit between a row and its replacement: a unit is at most
    ``sqrt(d)`` in l1 norm. With ``radius`` rows are brought into this ball, and the guarantee is ``epsilon``-DP for
    replacing a row by any other. The root mean square of the noise is 1.15 times the planar distribution's for ``d =
    2``, and tends to 1.41 times.

    Args:
      centre: ``(d,)``, public.
      scale: the unit of distance, public.
      epsilon: for a unit of distance, or for any replacement.
      radius: in units of distance, for "replace_one".
      noise: "exact" or "float".

    Raises:
      ValueError: an argument out of range, by name.

    >>> from jaxdpbo import transforms
    >>> transforms.product_laplace(centre=[0.0, 0.0], scale=1.0, epsilon=1.0).guarantee.notion
    'metric_dp'
    """
    epsilon, reach = checks.positive("epsilon", epsilon), sensitivity.row_distance(radius)
    origin = checks.vector("centre", centre)
    if checks.one_of("noise", noise, NOISES) == "float":
        distribution = input_noise.distribution(
            "product_laplace", reach * sensitivity.row_l1(len(origin)) / epsilon, len(origin)
        )
        return _make("product_laplace", origin, scale, distribution, radius, "metric_dp", "dp", epsilon)
    moved = sensitivity.cells_l1(CELLS, len(origin))
    cell, rate = reach / CELLS, min(Fraction(epsilon) / moved, Fraction(2**10))  # a table's largest
    if rate < Fraction(1, 2**24):
        least = rounding.shorten_up(moved / 2**24, 3)
        raise ValueError(f"epsilon must be at least {least} with exact noise, got {epsilon:g}")
    distribution = input_noise.distribution("product_laplace", cell / float(rate), len(origin))
    assert 2 * len(origin) * tables.geometric_total_variation(rate) < TOTAL_VARIATION
    chosen = _make("product_laplace", origin, scale, distribution, radius, "metric_dp", "dp", epsilon, cell, rate)
    return _check_cost(chosen, moved, in_l1=True)


def planar_laplace(
    *, centre: ArrayLike, scale: float, epsilon: float, radius: float | None = None, noise: str = "exact"
) -> Config:
    """Configure noise of density proportional to ``exp(-epsilon |w|)``, ``w`` in units of distance, on every row.

    Formal guarantee: metric DP, ``epsilon`` for each unit between a row and its replacement (Andres et al. 2013, in
    ``d`` dimensions). With ``radius`` rows are brought into this ball, ``w`` has density ``exp(-epsilon |w| /
    (2 radius))``, and the guarantee is ``epsilon``-DP for replacing a row by any other.

    Exact noise is for ``d = 2`` alone, on cells of an eighth of the noise's scale: rounding costs 22 % more noise at
    ``epsilon = 1``, 6 % at 3, so below 1.5 prefer ``product_laplace`` for ``d = 2`` too.

    Args:
      centre: ``(d,)``, public.
      scale: the unit of distance, public.
      epsilon: for a unit of distance, or for any replacement.
      radius: in units of distance, for "replace_one".
      noise: "exact" or "float".

    Raises:
      ValueError: an argument out of range, by name.

    >>> from jaxdpbo import transforms
    >>> transforms.planar_laplace(centre=[0.0, 0.0], scale=1.0, epsilon=1.0).guarantee.notion
    'metric_dp'
    """
    epsilon, reach = checks.positive("epsilon", epsilon), sensitivity.row_distance(radius)
    origin = checks.vector("centre", centre)
    if checks.one_of("noise", noise, NOISES) == "float":
        distribution = input_noise.distribution("planar_laplace", reach / epsilon, len(origin))
        return _make("planar_laplace", origin, scale, distribution, radius, "metric_dp", "dp", epsilon)
    if len(origin) != 2 or epsilon < 0.5:
        raise ValueError(
            "centre must have 2 coordinates and epsilon be at least 0.5 for exact planar_laplace, "
            f"got {len(origin)} and {epsilon:g}: use product_laplace"
        )
    cell = reach / (epsilon / float(PLANAR) - sensitivity.rounding_l2(2, each=1.0) - 2.0**-10)
    distribution = input_noise.distribution("planar_laplace", cell / float(PLANAR), 2)
    assert tables.planar_total_variation(PLANAR) < TOTAL_VARIATION
    chosen = _make("planar_laplace", origin, scale, distribution, radius, "metric_dp", "dp", epsilon, cell, PLANAR)
    return _check_cost(chosen, Fraction(epsilon) / PLANAR)


def gaussian(
    *, centre: ArrayLike, scale: float, epsilon: float, delta: float, radius: float | None = None, noise: str = "exact"
) -> Config:
    """Configure normal noise on every row, by the exact calibration: ``mu = gdp_mu(epsilon, delta)``.

    Formal guarantee: ``mu``-GDP for rows a unit of distance apart, or with ``radius`` for any two rows in this ball.

    Args:
      centre: ``(d,)``, public.
      scale: the unit of distance, public.
      epsilon: of the ``(epsilon, delta)`` implied by ``mu``.
      delta: of the same pair.
      radius: in units of distance, for "replace_one".
      noise: "exact" or "float".

    Raises:
      ValueError: an argument out of range, by name.

    >>> from jaxdpbo import transforms
    >>> transforms.gaussian(centre=[0.0, 0.0], scale=1.0, epsilon=1.0, delta=1e-5).guarantee.notion
    'gdp'
    """
    mu, origin = accounting.gdp_mu(epsilon, delta), checks.vector("centre", centre)
    return _normal("gaussian", origin, scale, radius, mu, len(origin), noise)


def private_projection(
    *,
    centre: ArrayLike,
    scale: float,
    projected: int,
    epsilon: float,
    delta: float,
    radius: float | None = None,
    noise: str = "exact",
) -> Config:
    """Configure a public random ``P (d, r)``, ``r < d``, and normal noise on the projected rows.

    Formal guarantee: as ``gaussian``; the noise grows with the largest singular value of ``P``, as drawn by ``curate``
    (Kenthapadi et al. 2013, their row norms replaced by the operator norm: neighbours differ in a whole row).

    Args:
      centre: ``(d,)``, public.
      scale: the unit of distance, public.
      projected: ``r``; at ``d`` and above ``gaussian`` is better at everything.
      epsilon: of the ``(epsilon, delta)`` implied by ``mu``.
      delta: of the same pair.
      radius: in units of distance, for "replace_one".
      noise: "exact" or "float".

    Raises:
      ValueError: an argument out of range, by name.

    >>> from jaxdpbo import transforms
    >>> transforms.private_projection(centre=[0, 0], scale=1, epsilon=1.0, delta=1e-5, projected=1).guarantee.notion
    'gdp'
    """
    mu, origin = accounting.gdp_mu(epsilon, delta), checks.vector("centre", centre)
    if checks.size("projected", projected) >= len(origin):
        raise ValueError(f"projected must be under the dimension {len(origin)}, got {projected}")
    return _normal("private_projection", origin, scale, radius, mu, projected, noise)


def randomised_response(
    *, centre: ArrayLike, scale: float, epsilon: float, cells: ArrayLike, noise: str = "exact"
) -> Config:
    """Configure a random public cell of ``K`` for every row: the nearest is ``e^epsilon`` times as likely as any other.

    Formal guarantee: ``epsilon``-DP for replacing a row by any other. Exact probabilities are multiples of 2^-128, the
    others' all equal, with odds of at most ``e^epsilon``: nothing is left to a variation distance.

    Args:
      centre: ``(d,)``, public.
      scale: the unit of distance, public.
      epsilon: at least ``K^2 2^-127``, about 2e-38 for two cells; from 88.7 on the same as 88.7.
      cells: ``(K, d)``, at least 2, distinct, in units of distance from the centre.
      noise: "exact" or "float".

    Raises:
      ValueError: an argument out of range, by name.

    >>> from jaxdpbo import transforms
    >>> transforms.randomised_response(cells=[[0.0], [1.0]], centre=[0.0], scale=1, epsilon=1.0).guarantee.notion
    'dp'
    """
    epsilon, origin = checks.positive("epsilon", epsilon), checks.vector("centre", centre)
    count = checks.size("the number of cells", len(checks.distinct_rows("cells", cells)), minimum=2)
    exact = checks.one_of("noise", noise, NOISES) == "exact"
    truth = tables.truth(epsilon, count)
    response = input_noise.response(cells, min(float(truth), 1 - 2.0**-53))
    if len(response.cells[0]) != len(origin):
        raise ValueError(f"cells must be of dimension {len(origin)}, got {len(response.cells[0])}")
    return Config(
        kind="randomised_response",
        centre=origin,
        scale=checks.positive("scale", scale),
        dimension=len(origin),
        guarantee=_guarantee_of("dp", epsilon, "replace_one", exact, total_variation=0.0),
        distribution=response,
        grid_scale=truth if exact else 0,
    )


def _normal(kind, origin, scale, radius, mu, dimension, noise) -> Config:
    reach = sensitivity.row_distance(radius)
    if checks.one_of("noise", noise, NOISES) == "float":
        distribution = input_noise.distribution("gaussian", reach / mu, dimension)
        return _make(kind, origin, scale, distribution, radius, "gdp", "gdp", mu)
    rounding = sensitivity.rounding_l2(dimension)
    for sigma in SIGMAS:
        distance = accounting.largest_distance(mu, sigma)
        if distance > 32 * rounding:
            break
    else:
        raise ValueError(
            f"epsilon must be larger with exact noise in {dimension} dimensions, got {mu:.2g}-GDP: rounding would cost "
            "more than 3 % (noise='float' has no grid)"
        )
    cell = reach / (distance - rounding)
    distribution = input_noise.distribution("gaussian", sigma * cell, dimension)
    level = accounting.rounded_gaussian_mu(distance, sigma)
    assert dimension * tables.gaussian_total_variation(sigma) < TOTAL_VARIATION
    return _check_cost(_make(kind, origin, scale, distribution, radius, "gdp", "gdp", level, cell, sigma), distance)


def step(config: Config) -> float:
    """Return the side of a cell in the inputs' own units: the divisor in ``curate``."""
    return config.scale * config.cell


def limit(config: Config) -> float:
    """Return the ball's radius in cells, as in ``curate``; inf for none."""
    return config.radius / config.cell


def rounding_bound(config: Config) -> float:
    """Bound how far float64 moves a row, in cells of each coordinate: ``u = 2^-53``, from public numbers alone.

    A coordinate is ``clip((x - c) / step)``. The difference is rounded once, relative to ITSELF (twice for an integer
    ``x`` of over 53 bits or a longer float), so a far centre costs nothing: missing digits of ``x`` belong to the input
    as passed. The quotient is rounded once more. Clipped to ``END`` either way, the two are at most ``4 u END`` cells.
    Bringing a row of ``d`` coordinates into the ball adds ``(d / 2 + 12) u`` of a radius of at most ``END`` cells. A
    projection adds the error of a sum of ``d`` products, ``(d + 4) u`` of ``|row| |P|``, for a row at most
    ``sqrt(d) END`` cells long (Higham 2002, section 3.1, in any order of the sum).
    """
    dimension = len(config.centre)
    longer = math.sqrt(dimension) if config.kind == "private_projection" else 1.0
    return (dimension + 16) * longer * 2.0**-53 * END


def _check_cost(config: Config, paid: int | Fraction, *, in_l1: bool = False) -> Config:
    """Return ``config`` if the noise, in cells ``paid`` for, covers the distance of neighbours with all rounding.

    Neighbours are ``reach / step`` cells apart. Rounding down moves the difference of a coordinate by less than a cell,
    floats by ``2 rounding_bound``; in exact fractions, the root taken by squaring.
    """
    side = step(config)
    if not STEPS[0] <= side <= STEPS[1]:
        raise ValueError(f"scale must give cells of a side in [2^-960, 2^960] with exact noise, got {config.scale:g}")
    apart = sensitivity.cells_apart(Fraction(config.scale) / Fraction(side), limit(config))
    if apart > MAX_CELLS:
        raise ValueError(
            f"epsilon must be smaller with exact noise: neighbours would be {float(apart):.2g} cells apart, over 2^28"
        )
    rounding = sensitivity.add_computation_error(Fraction(1), Fraction(rounding_bound(config)))
    if not sensitivity.cells_fit(paid, apart, config.dimension, rounding, in_l1=in_l1):
        raise ValueError(
            f"centre must have fewer coordinates with exact noise, got {len(config.centre)}: float64 would round rows "
            "by more than the noise covers"
        )
    return config


def _make(
    kind, centre, scale, distribution, radius, near, anywhere, level, cell=0.0, grid_scale: int | Fraction = 0
) -> Config:
    notion, relation = (near, "unit_distance") if radius is None else (anywhere, "replace_one")
    scale = checks.positive("scale", scale)
    guarantee = _guarantee_of(notion, level, relation, exact=cell > 0, unit=scale if radius is None else None)
    return Config(
        kind=kind,
        centre=centre,
        scale=scale,
        dimension=distribution.dimension,
        guarantee=guarantee,
        radius=math.inf if radius is None else float(radius),
        distribution=distribution,
        cell=cell,
        grid_scale=grid_scale,
    )


def _guarantee_of(notion, level, relation, exact, unit=None, total_variation=TOTAL_VARIATION) -> guarantees.Guarantee:
    of_noise = assumptions.RANDOM_BITS if exact else assumptions.IDEAL_NOISE
    return guarantees.guarantee(
        notion, level, relation, ROWS, assumptions=(of_noise, assumptions.PUBLIC_CONFIG),
        total_variation=total_variation if exact else 0.0, unit=unit,
    )  # fmt: skip
