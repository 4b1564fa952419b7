"""Pictures of results: each function takes a result, draws on ``axes`` or on a new figure's, and returns the axes.

What they show is what the result holds: releases, statements and public numbers. Needs the ``plotting`` extra.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxdpbo import _checks
from jaxdpbo.algorithms.dpareto.run import USABLE, Release
from jaxdpbo.drivers import Run
from jaxdpbo.drivers.preview import Preview
from jaxdpbo.privacy import auditing
from jaxdpbo.privacy.guarantee import Guarantee
from jaxdpbo.types import ArrayLike

if TYPE_CHECKING:
    from matplotlib.axes import Axes

RATES = np.linspace(0.0, 1.0, 401)  # of type I errors


def plot_path(
    runs: Run | Sequence[Run],
    *,
    low: ArrayLike | None = None,
    high: ArrayLike | None = None,
    axes: "Axes | None" = None,
) -> "Axes":
    """The released path of a descent, a line a parameter; of several runs the medians, with bands of quartiles.

    Args:
      runs: whose release has a ``path (T + 1, d)``, as that of ``dp_gibo``, alone or between choices.
      low: ``(d,)``, and
      high: ``(d,)``, of the box: parameters are then drawn over it, 0 to 1.
      axes: matplotlib's.

    Raises:
      ValueError: no runs, or a release without a path.
    """
    given = [runs] if isinstance(runs, Run) else list(runs)
    paths = [_find_path(run.release) for run in given]
    if not paths or any(each is None for each in paths):
        raise ValueError("runs must be of a descent: their release has no path")
    found = np.stack([np.asarray(each, float) for each in paths if each is not None])
    if low is not None and high is not None:
        found = (found - np.asarray(low)) / (np.asarray(high) - np.asarray(low))
    drawn = _axes(axes)
    for number, values in enumerate(np.moveaxis(found, 2, 0)):
        lower, middle, upper = np.percentile(values, (25, 50, 75), axis=0)
        drawn.plot(middle, color=f"C{number % 10}", label=f"parameter {number}")
        if len(values) > 1:
            drawn.fill_between(np.arange(len(middle)), lower, upper, color=f"C{number % 10}", alpha=0.2, linewidth=0)
    return _name_params(drawn, "step", "parameter" if low is None else "parameter, over its side of the box")


def plot_front(release: Release, *, axes: "Axes | None" = None) -> "Axes":
    """Epsilon and error of the settings that ``dpareto`` measured, and its front as a line.

    Args:
      release: of ``dpareto``.
      axes: matplotlib's.
    """
    values, usable = np.asarray(release.values, float), np.asarray(release.failed) == USABLE
    best = np.asarray(release.front)
    drawn = _axes(axes)
    drawn.scatter(*values[usable & ~best].T, color="0.7", s=12, label="dominated")
    order = np.flatnonzero(best)[np.argsort(values[best, 0])]
    drawn.step(*values[order].T, where="post", color="C0", marker="o", label="front")
    drawn.set_xscale("log")
    return _name_params(drawn, "epsilon", "error")


def plot_trade_off(
    statement: Guarantee, *, measured: auditing.TradeOff | None = None, axes: "Axes | None" = None
) -> "Axes":
    """What a statement leaves to any attack: the least share of wrong answers on one data set for that on the other.

    The diagonal is guessing. ``measured``, of ``auditing.trade_off``, is one attack's.

    Raises:
      ValueError: a statement that is neither "gdp" nor "dp".
    """
    drawn = _axes(axes)
    drawn.plot(RATES, 1 - RATES, color="0.7", linestyle=":", label="guessing")
    drawn.plot(
        RATES, auditing.declared_trade_off(statement, RATES), color="C0", label=statement.claim.partition(" (")[0]
    )
    if measured is not None:
        drawn.plot(measured.type_one, measured.type_two, color="C3", marker=".", linestyle="", label="an attack")
    return _name_params(drawn, "type I error", "type II error")


def plot_audit(
    audits: Sequence[auditing.Audit],
    statements: Sequence[Guarantee],
    names: Sequence[str],
    *,
    axes: "Axes | None" = None,
) -> "Axes":
    """Lower bounds that attacks showed, over what was claimed: a bar beyond 1 refutes its claim.

    Args:
      audits: bounds, one each.
      statements: what they are of, each "gdp" or "dp".
      names: for the axis.
      axes: matplotlib's.

    Raises:
      ValueError: of different lengths, or a statement of another notion.
    """
    if not len(audits) == len(statements) == len(names):
        raise ValueError(
            f"audits, statements and names must be as many, got {len(audits)}, {len(statements)}, {len(names)}"
        )
    shares = []
    for found, statement in zip(audits, statements, strict=True):
        notion = _checks.choice("notion", statement.notion, ("gdp", "dp"))
        shares.append((found.mu if notion == "gdp" else found.epsilon) / statement.level)
    drawn = _axes(axes)
    places = np.arange(len(shares))
    drawn.barh(places, shares, color=["C3" if share > 1 else "C0" for share in shares])
    drawn.axvline(1.0, color="0.3", linestyle=":")
    drawn.set_yticks(places, names)
    drawn.invert_yaxis()
    return _name_params(drawn, "lower bound over claim", "", legend=False)


def plot_previews(found: Sequence[Preview], *, axes: "Axes | None" = None) -> "Axes":
    """The noise of searches that were not run, by how many users they would have.

    Args:
      found: of ``preview``, with other numbers of users and nothing else changed.
      axes: matplotlib's.

    Raises:
      ValueError: none.
    """
    if not found:
        raise ValueError("found must hold a preview at least")
    ordered = sorted(found, key=lambda one: one.users)
    users = [one.users for one in ordered]
    drawn = _axes(axes)
    for name, label in (
        ("relative_noise", "of a step, over the largest gradient"),
        ("loss_noise", "of the loss, over its range"),
    ):
        values = [getattr(one, name) for one in ordered]
        if all(value is not None for value in values):
            drawn.plot(users, values, marker="o", label=label)
    drawn.axhline(1.0, color="0.7", linestyle=":", label="helpful below")
    drawn.set_xscale("log")
    drawn.set_yscale("log")
    return _name_params(drawn, "users", "noise")


def plot_budget(statement: Guarantee, *, axes: "Axes | None" = None) -> "Axes":
    """What a "gdp" budget is spent on: shares of ``mu^2``, which add up to 1.

    Raises:
      ValueError: a statement of another notion.
    """
    _checks.choice("notion", statement.notion, ("gdp",))
    parts = statement.parts or (("all releases", statement.level),)
    drawn = _axes(axes)
    places = np.arange(len(parts))
    drawn.barh(places, [(level / statement.level) ** 2 for _, level in parts], color="C0")
    drawn.set_yticks(places, [what for what, _ in parts])
    drawn.invert_yaxis()
    return _name_params(drawn, f"share of mu^2, mu = {statement.level:.3g}", "", legend=False)


def _find_path(release: Any) -> Any:
    """Of a release, or of the search inside of it."""
    found = getattr(release, "path", None)
    return found if found is not None or not hasattr(release, "inner") else _find_path(release.inner)


def _axes(axes: "Axes | None") -> "Axes":
    if axes is not None:
        return axes
    pyplot = _checks.extra("matplotlib.pyplot", "plotting", "jaxdpbo.plotting")
    return pyplot.figure(figsize=(6, 4), layout="constrained").add_subplot()


def _name_params(axes: "Axes", across: str, up: str, *, legend: bool = True) -> "Axes":
    axes.set(xlabel=across, ylabel=up)
    if legend:
        axes.legend(frameon=False, fontsize=8)
    return axes
