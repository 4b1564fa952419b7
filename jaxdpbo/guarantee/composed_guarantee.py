"""Guarantees of several mechanisms together: of noised sums, of an algorithm's stages, and of ``accounting.total``."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp

from jaxdpbo import accounting, sensitivity
from jaxdpbo.guarantee import assumptions as _assumptions
from jaxdpbo.guarantee import guarantees
from jaxdpbo.noise import calibration, choice, private_scale
from jaxdpbo.noise.mechanisms import tables

FIND_SCALE, RELEASES, SEARCH = "the scale of the clip", "the noisy means", "the search"  # parts of a guarantee


def gdp_guarantee(noise: calibration.SumNoise, protects: str, releases_of: str = RELEASES) -> guarantees.Guarantee:
    """Return the GDP guarantee for replace-one on the users, of all releases together; none at ``mu = inf``.

    ``releases_of`` names the releases as a part.

    A kind "float" gives ``mu``-GDP for ideal noise; "exact" gives the level of ``radius`` and ``sigma``, within the
    total variation of all draws together.

    Raises:
      ValueError: stacked noise; pass a single config.
    """
    if noise.mu.ndim:
        raise ValueError(f"privacy takes one config, got mu of shape {noise.mu.shape}")
    if noise.kind != "exact" and jnp.isinf(noise.mu):
        return guarantees.no_guarantee(protects, "mu is infinite: no noise was added")
    releases, total_variation, level = noise.steps * noise.releases, 0.0, float(noise.mu)
    if noise.kind == "exact":
        level = accounting.rounded_gaussian_mu(sensitivity.integer_sum(int(noise.radius)), noise.sigma, releases)
        total_variation = releases * noise.dimension * tables.gaussian_total_variation(noise.sigma)
    stages = [(releases_of, "gaussian", level)]
    if noise.scale is not None:
        stages.insert(0, (FIND_SCALE, "gaussian", private_scale.level(noise.scale)))
        total_variation += private_scale.total_variation(noise.scale)
    return guarantee_from_stages(
        stages,
        protects,
        assumptions=(
            _assumptions.RANDOM_BITS if noise.kind == "exact" else _assumptions.IDEAL_NOISE,
            _assumptions.PUBLIC_CONFIG,
            _assumptions.SEPARABLE_LOSSES,
        ),
        total_variation=total_variation,
    )


def choice_guarantee(
    description: str, noise: choice.ChoiceNoise, protects: str, assumptions: tuple[str, ...] = ()
) -> guarantees.Guarantee:
    """Return the guarantee of one ``choice.draw``: its range, as pure DP and as GDP; none without noise.

    Args:
      description: of the choice, a part of a larger guarantee.
      noise: of the choice, not stacked.
      protects: the protected users, in words.
      assumptions: beyond those of the noise, of public settings and of separable losses.
    """
    if noise.kind == "none":
        return guarantees.no_guarantee(protects, "mu is infinite: no noise was added")
    exact = noise.kind == "exact"
    return guarantee_from_stages(
        [(description, "bounded_range", choice.pure_level(noise))],
        protects,
        assumptions=(
            _assumptions.RANDOM_BITS if exact else _assumptions.IDEAL_NOISE,
            _assumptions.PUBLIC_CONFIG,
            _assumptions.SEPARABLE_LOSSES,
            *assumptions,
        ),
        total_variation=choice.TOTAL_VARIATION * exact,
    )


def guarantee_stages(config: Any, guarantee: guarantees.Guarantee) -> tuple[accounting.StageFields, ...]:
    """Return the mechanisms behind a config's guarantee: its stages, or Gaussian ones for its parts or its level.

    A config may name its mechanism in an attribute ``mechanism``.
    """
    name = getattr(config, "mechanism", SEARCH)
    return guarantee.stages or tuple(
        (what, "gaussian", level) for what, level in guarantee.parts or ((name, guarantee.level),)
    )


def guarantee_from_stages(
    stages: Sequence[accounting.StageFields],
    protects: str,
    *,
    assumptions: tuple[str, ...] = (),
    total_variation: float = 0.0,
) -> guarantees.Guarantee:
    """Build the GDP guarantee of mechanisms that follow each other, itemised by description.

    Formal guarantee: replace-one GDP with the composed level of the stages (docs/theorems.md). A single choice is also
    pure DP, by its range.

    >>> from jaxdpbo.guarantee import composed_guarantee
    >>> stages = [("a choice", "bounded_range", 0.25)] * 2 + [("a search", "gaussian", 0.2)]
    >>> guarantee = composed_guarantee.guarantee_from_stages(stages, "the users")
    >>> guarantee.claim
    'gdp 0.29843, of which 0.222 for a choice and 0.2 for a search (replace_one) for the users'
    >>> round(guarantee.epsilon(1e-5), 3), guarantee.to_dp(1e-5).notion
    (0.994, 'dp')

    Args:
      stages: a description, a kind and a level each, see ``Guarantee``; descriptions that are equal are one part.
      protects: the protected users, in words.
      assumptions: by name.
      total_variation: a bound on the total variation between all noise and ideal noise.

    Raises:
      ValueError: a kind or a level out of range, or no stage.
    """
    if not stages:
        raise ValueError("stages must name one mechanism or more: guarantees.no_guarantee states that there is none")
    parts = part_levels(stages)
    pure = [level for _, kind, level in stages if kind == "bounded_range"]
    return guarantees.guarantee(
        "gdp",
        accounting.compose_gdp_rounded_up(*(level for _, level in parts)),
        "replace_one",
        protects,
        assumptions=assumptions,
        total_variation=total_variation,
        parts=parts if len(parts) > 1 else (),
        also=("dp", pure[0]) if len(pure) == len(stages) == 1 else None,
        stages=stages,
    )


def part_levels(stages: Sequence[accounting.StageFields]) -> tuple[tuple[str, float], ...]:
    """Return the GDP level of each part, of all its stages together, in the order of the parts.

    >>> from jaxdpbo.guarantee import composed_guarantee
    >>> composed_guarantee.part_levels([("a search", "gaussian", 3.0), ("a search", "gaussian", 4.0)])
    (('a search', 5.0),)
    """
    levels: dict[str, list[float]] = {}
    for description, kind, level in stages:
        levels.setdefault(description, []).append(level if kind == "gaussian" else accounting.bounded_range_mu(level))
    return tuple((description, accounting.compose_gdp_rounded_up(*found)) for description, found in levels.items())


def guarantee_from_total(
    total: accounting.Total, protects: str, *, assumptions: tuple[str, ...] = (), total_variation: float = 0.0
) -> guarantees.Guarantee:
    """Build the guarantee of composed stages, itemised by stage, for a result to carry and a ledger to charge.

    Formal guarantee: ``(epsilon, delta)``-DP with the epsilon and delta of ``total``, and Gaussian DP but for the same
    ``delta`` (``also``, by ``accounting.gdp_level``), so that ledgers of both notions accept the charge; under
    ``STAGE_COSTS``, ``PUBLIC_CONFIG`` and ``assumptions``. No guarantee if nothing is proved at this ``delta``.

    >>> from jaxdpbo import accounting
    >>> from jaxdpbo.guarantee import guarantee_from_total
    >>> total = accounting.total([accounting.gaussian_stage(0.5, "a search")], 1e-5)
    >>> guarantee_from_total(total, "the rows").notion
    'dp'

    Args:
      total: from ``accounting.total``; its stages must be all releases about these rows.
      protects: the protected users, in words.
      assumptions: the assumptions of the stages, by name, such as ``IDEAL_NOISE`` for noise in floats.
      total_variation: a bound on the total variation between all noise and ideal noise.

    Raises:
      TypeError: ``total`` is no ``accounting.Total``.
    """
    if not isinstance(total, accounting.Total):
        raise TypeError(f"total must be made by accounting.total, got {total!r:.80}")
    if math.isinf(total.epsilon):
        return guarantees.no_guarantee(protects, f"nothing is proved of these stages at delta={total.delta:g}")
    level, mu = max(total.epsilon, guarantees.LEAST), accounting.gdp_level(total.stages, total.delta)
    counts = Counter((item.description, item.epsilon) for item in total.items)
    return guarantees.guarantee(
        "dp",
        level,
        total.relation,
        protects,
        assumptions=tuple(dict.fromkeys((_assumptions.STAGE_COSTS, _assumptions.PUBLIC_CONFIG, *assumptions))),
        delta=total.delta,
        total_variation=total_variation,
        # A stage is a part of the release, so its cost is at most the total.
        parts=[
            (
                description if times == 1 else f"{description} (each of {times})",
                min(max(epsilon, guarantees.LEAST), level),
            )
            for (description, epsilon), times in counts.items()
        ],
        also=("gdp", max(mu, guarantees.LEAST)) if math.isfinite(mu) else None,
    )
