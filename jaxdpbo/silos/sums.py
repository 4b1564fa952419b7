"""What a run among silos adds up, and what all its sums cost: sums of losses or gradients, or those of a linear model.

A server may ask for any sums that the terms allow, in any order. A silo gives ``answers`` at most and, where these cost
differently, keeps one for each step without an answer: levels are of the most costly such requests.
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Protocol

from jaxdpbo import sensitivity
from jaxdpbo.accounting import noise_shares, rounded_gaussian
from jaxdpbo.algorithms import private_linear
from jaxdpbo.drivers import table_scan
from jaxdpbo.guarantee import assumptions, composed_guarantee, guarantees
from jaxdpbo.noise import calibration
from jaxdpbo.types import Algorithm, Query

NOT_A_SUM = (
    "algorithm must add noise to a sum over users, such as dp_gibo.algorithm or private_linear.algorithm: a choice "
    "among candidates would show the sums to one of the silos"
)
PRIVATE_SCALE = "clip_norm and loss_range must be numbers: the counts behind 'private' would reach the server unmasked"

Widths = tuple[tuple[int, int], ...]  # a count of numbers and the sigma of their noise, in the order of a sum


class Sums(Protocol):
    """The sums of a run.

    Attributes:
      title: of the record.
      part: of the guarantee, that pays for all sums.
      protects: of the guarantee.
      users: of all silos.
      steps: sums of a run without repetitions.
      numbers: of a user at a point, beside one loss: ``()``, or how many.
      radii: the bounds of a user's integers.
      equal_cost: True if all sums cost the same.
      assumptions: beside those of every run.
      terms: in words, for a page.
    """

    title: str
    part: str
    protects: str
    users: int
    steps: int
    numbers: tuple[int, ...]
    radii: tuple[int, ...]
    equal_cost: bool
    assumptions: tuple[str, ...]
    terms: dict[str, Any]

    def widths(self, count: int) -> Widths:
        """The noise of a sum of ``count`` numbers, of all silos together."""
        ...

    def level(self, answers: int, variances: Sequence[int]) -> float:
        """The GDP level of ``answers`` sums with noise of these variances, one for each of ``widths``; rounded up."""
        ...

    def is_of_step(self, step: int, queries: Query) -> bool:
        """True if stacked queries ask for what a run adds up in this step."""
        ...


class LossSums:
    """Sums of losses or of clipped gradients: each costs the same."""

    title, part, protects = "the answer of a search among silos", composed_guarantee.RELEASES, guarantees.USERS
    numbers: tuple[int, ...] = ()
    equal_cost = True
    assumptions: tuple[str, ...] = ()

    def __init__(self, noise: calibration.SumNoise) -> None:
        """Keep the noise of a config."""
        self._noise, self.users, self.steps, self.radii = noise, noise.users, noise.steps, (int(noise.radius),)
        self.terms: dict[str, Any] = {}

    def widths(self, count: int) -> Widths:
        """One width."""
        return ((count, self._noise.sigma),)

    def level(self, answers: int, variances: Sequence[int]) -> float:
        """Of all answers, in any steps."""
        distance = sensitivity.integer_sum(self.radii[0])
        return noise_shares.discrete_gaussian_mu(distance, variances[0], answers * self._noise.releases)

    def is_of_step(self, step: int, queries: Query) -> bool:
        """Every query."""
        return True


class LinearSums:
    """The Gram matrix of a linear model in the first step, and a slope in each other."""

    title, part = "a linear model of several silos", private_linear.PART
    equal_cost = False

    def __init__(self, config: private_linear.Config) -> None:
        """Keep the config."""
        self._config, self.users, self.steps = config, config.users, config.steps
        self.protects = private_linear.PEOPLE if config.people else private_linear.PROTECTED
        self.numbers, self.radii = (config.values,), (int(config.radius), int(config.residual_radius))
        self.assumptions: tuple[str, ...] = (assumptions.ROW_OWNERS,) * config.people
        self.terms = {
            "model": f"{config.features} features, {config.outputs} outputs, link {config.link}",
            "a row counts": "by its weight"
            if config.weighted
            else "by the rows of its person"
            if config.people
            else "once",
        }

    def widths(self, count: int) -> Widths:
        """The diagonal, the entries above it, which count twice, and the slope."""
        features = self._config.features
        sizes = features, features * (features - 1) // 2, features * self._config.outputs
        assert sum(sizes) == count
        sigmas = private_linear.SIGMA, private_linear.UPPER_SIGMA, private_linear.SIGMA
        return tuple(zip(sizes, sigmas, strict=True))

    def level(self, answers: int, variances: Sequence[int]) -> float:
        """Of the most costly requests: all repetitions are of the Gram matrix, or all are of slopes.

        One machine charges less (``private_linear.level``), since a user has the same features in all its sums. Here
        the version of a silo may change between two sums, and a loss may read what a server sends.
        """
        diagonal, upper, slope = map(noise_shares.gaussian_variance, variances)
        radius, residual_radius = self.radii
        of_gram = Fraction(sensitivity.gram_squared(radius)) / min(diagonal, 2 * upper)
        of_step = Fraction(sensitivity.integer_sum(radius * residual_radius)) ** 2 / slope
        later = self.steps - 1
        grams = (answers - later) * of_gram + later * of_step
        return rounded_gaussian.root_above(max(grams, of_gram + (answers - 1) * of_step))

    def is_of_step(self, step: int, queries: Query) -> bool:
        """The Gram matrix in the first step, and slopes in others, as ``level`` counts them."""
        return bool(queries.broadcast.first[0]) == (step == 0)


def sums_of(algorithm: Algorithm, config: Any) -> Sums:
    """The sums of an algorithm.

    Raises:
      ValueError: silos cannot run the algorithm, or its noise is not exact.
    """
    if algorithm == private_linear.algorithm and isinstance(config, private_linear.Config):
        if not config.private:
            raise ValueError(table_scan.NOT_EXACT)
        return LinearSums(config)
    noise = getattr(config, "noise", None)
    if algorithm.contribute is None or algorithm.perturb is None or not isinstance(noise, calibration.SumNoise):
        raise ValueError(NOT_A_SUM)
    if noise.scale is not None:
        raise ValueError(PRIVATE_SCALE)
    if noise.kind != "exact":
        raise ValueError(table_scan.NOT_EXACT)
    return LossSums(noise)
