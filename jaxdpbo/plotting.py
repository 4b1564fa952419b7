"""Plots of results: each function draws a result on ``axes``, or on a new figure, and returns the axes.

Plots show the contents of a result: releases, guarantees and public numbers. Needs the ``plotting`` extra.
"""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxdpbo import audit as _auditing
from jaxdpbo import checks, namespace, rounding
from jaxdpbo.algorithms.dpareto.run import USABLE, Release
from jaxdpbo.drivers import Run
from jaxdpbo.drivers.previews import Preview
from jaxdpbo.guarantee.composed_guarantee import part_levels
from jaxdpbo.guarantee.guarantees import Guarantee
from jaxdpbo.types import ArrayLike

__all__ = [
    "plot_audit",
    "plot_budget",
    "plot_front",
    "plot_partial_dependence",
    "plot_path",
    "plot_previews",
    "plot_trade_off",
]
__dir__ = namespace.list_public(__name__)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_RATES = np.linspace(0.0, 1.0, 401)  # type I error rates
GUESSING = "guessing"


def plot_path(
    runs: Run | Sequence[Run],
    *,
    low: ArrayLike | None = None,
    high: ArrayLike | None = None,
    axes: "Axes | None" = None,
) -> "Axes":
    """Plot the released path of a descent, a line for each parameter; for several runs, medians and quartile bands.

    >>> import numpy as np
    >>> from jaxdpbo import Search, minimize, plotting
    >>> def loss(point, data):
    ...     return np.abs(data - point).sum(axis=1)
    >>> run = minimize(loss, np.full((500, 1), 2.0), [(0, 6)], epsilon=3, delta=1e-5, search=Search(steps=4, batch=2))
    >>> len(plotting.plot_path(run).lines)
    1

    Args:
      runs: runs with a ``path (T + 1, d)`` in the release, as from ``dp_gibo``, alone or between choices.
      low: ``(d,)``, the lower ends of the box.
      high: ``(d,)``, the upper ends; with both, parameters are drawn relative to the box, from 0 to 1.
      axes: the matplotlib axes.

    Raises:
      ValueError: no runs, or a release without a path.
    """
    listed = [runs] if isinstance(runs, Run) else list(runs)
    paths = [getattr(run.release, "path", None) for run in listed]
    if not paths or any(path is None for path in paths):
        raise ValueError("runs must be runs of a descent, with a path in the release")
    stacked = np.stack([np.asarray(path, float) for path in paths if path is not None])
    if low is not None and high is not None:
        stacked = (stacked - np.asarray(low)) / (np.asarray(high) - np.asarray(low))
    drawn = _axes(axes)
    for number, values in enumerate(np.moveaxis(stacked, 2, 0)):
        lower, middle, upper = np.percentile(values, (25, 50, 75), axis=0)
        drawn.plot(middle, color=f"C{number % 10}", label=f"parameter {number}")
        if len(values) > 1:
            drawn.fill_between(np.arange(len(middle)), lower, upper, color=f"C{number % 10}", alpha=0.2, linewidth=0)
    return _name_params(drawn, "step", "parameter" if low is None else "parameter, over its side of the box")


def plot_front(release: Release, *, axes: "Axes | None" = None) -> "Axes":
    """Plot epsilon and error of the settings measured by ``dpareto``, and the front as a line.

    >>> import numpy as np
    >>> from jaxdpbo import dpareto, plotting
    >>> points, values, failed = np.array([[0.2], [0.8]]), np.array([[2.0, 0.1], [0.5, 0.4]]), np.zeros(2, int)
    >>> release = dpareto.Release(points[0], points, values, failed, failed == 0, np.array(1.0), None)
    >>> plotting.plot_front(release).get_xlabel()
    'epsilon'

    Args:
      release: a release of ``dpareto``.
      axes: the matplotlib axes.
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
    guarantee: Guarantee,
    *,
    measured: _auditing.TradeOff | None = None,
    label: str | None = None,
    axes: "Axes | None" = None,
) -> "Axes":
    """Plot the trade-off of a guarantee: the least type II error of any attack, for each type I error.

    The diagonal is guessing. ``measured``, from ``audit.trade_off``, shows an attack. ``label`` replaces the
    guarantee in the legend. Curves in the same ``axes`` have colours of their own.

    >>> from jaxdpbo import plotting
    >>> from jaxdpbo.guarantee import guarantee
    >>> guarantee = guarantee("gdp", 1.0, "replace_one", "the users")
    >>> len(plotting.plot_trade_off(guarantee).lines) > 0
    True

    Raises:
      ValueError: a guarantee other than "gdp" or "dp".
    """
    drawn = _axes(axes)
    if GUESSING not in drawn.get_legend_handles_labels()[1]:
        drawn.plot(_RATES, 1 - _RATES, color="0.7", linestyle=":", label=GUESSING)
    curve = _auditing.declared_trade_off(guarantee, _RATES)
    drawn.plot(_RATES, curve, label=label or guarantee.claim.partition(" (")[0])
    if measured is not None:
        drawn.plot(measured.type_one, measured.type_two, color="C3", marker=".", linestyle="", label="an attack")
    return _name_params(drawn, "type I error", "type II error")


def plot_audit(
    audits: Sequence[_auditing.Audit],
    guarantees: Sequence[Guarantee],
    names: Sequence[str],
    *,
    axes: "Axes | None" = None,
) -> "Axes":
    """Plot lower bounds from attacks, relative to the guaranteed levels: a bar above 1 refutes the guarantee.

    >>> from jaxdpbo import plotting
    >>> from jaxdpbo.audit import epsilon_lower_bound
    >>> from jaxdpbo.guarantee import guarantee
    >>> guarantee = guarantee("gdp", 1.0, "replace_one", "the users")
    >>> audit = epsilon_lower_bound(60, 40, 100)
    >>> axes = plotting.plot_audit([audit], [guarantee], ["a mean"])
    >>> len(axes.get_yticklabels()) + len(axes.get_xticklabels()) > 0
    True

    Args:
      audits: the lower bounds.
      guarantees: the audited guarantees, each "gdp" or "dp".
      names: labels for the axis.
      axes: the matplotlib axes.

    Raises:
      ValueError: arguments of different lengths, or a guarantee of another notion.
    """
    if not len(audits) == len(guarantees) == len(names):
        raise ValueError(
            f"audits, guarantees and names must have one length, got {len(audits)}, {len(guarantees)}, {len(names)}"
        )
    shares = []
    for audit, guarantee in zip(audits, guarantees, strict=True):
        notion = checks.one_of("notion", guarantee.notion, ("gdp", "dp"))
        shares.append((audit.mu if notion == "gdp" else audit.epsilon) / guarantee.level)
    drawn = _axes(axes)
    places = np.arange(len(shares))
    drawn.barh(places, shares, color=["C3" if share > 1 else "C0" for share in shares])
    drawn.axvline(1.0, color="0.3", linestyle=":")
    drawn.set_yticks(places, names)
    drawn.invert_yaxis()
    return _name_params(drawn, "lower bound over guaranteed level", "", legend=False)


def plot_previews(previews: Sequence[Preview], *, axes: "Axes | None" = None) -> "Axes":
    """Plot the noise of previewed searches against the number of users.

    >>> import jaxdpbo
    >>> from jaxdpbo import plotting
    >>> previews = [jaxdpbo.preview(users=users, space=[(0, 1)], loss_range=(0, 1), mu=1) for users in (100, 1000)]
    >>> len(plotting.plot_previews(previews).lines) > 0
    True

    Args:
      previews: previews from ``preview``, different in the number of users alone.
      axes: the matplotlib axes.

    Raises:
      ValueError: no previews.
    """
    if not previews:
        raise ValueError("previews must hold at least one preview")
    ordered = sorted(previews, key=lambda preview: preview.users)
    users = [preview.users for preview in ordered]
    drawn = _axes(axes)
    for name, label in (
        ("relative_noise", "of a step, over the largest gradient"),
        ("loss_noise", "of the loss, over its range"),
    ):
        values = [getattr(preview, name) for preview in ordered]
        if all(value is not None for value in values):
            drawn.plot(users, values, marker="o", label=label)
    drawn.axhline(1.0, color="0.7", linestyle=":", label="helpful below")
    drawn.set_xscale("log")
    drawn.set_yscale("log")
    return _name_params(drawn, "users", "noise")


def plot_budget(guarantee: Guarantee, *, axes: "Axes | None" = None) -> "Axes":
    """Plot the parts of a budget as shares of ``mu^2``, with sum 1.

    A "dp" guarantee of ``minimize`` has a GDP level of its parts too (``Guarantee.also``).

    >>> import jaxdpbo
    >>> from jaxdpbo import plotting
    >>> from jaxdpbo.guarantee import guarantee
    >>> guarantee = guarantee("gdp", 1.0, "replace_one", "the users", parts=[("search", 0.8),
    ...     ("estimate", 0.6)])
    >>> len(plotting.plot_budget(guarantee).patches) > 0
    True

    Raises:
      ValueError: a guarantee of another notion, or of "dp" without stages.
    """
    if guarantee.stages:
        parts = part_levels(guarantee.stages)
    else:
        checks.one_of("notion", guarantee.notion, ("gdp",))
        parts = guarantee.parts or (("all releases", guarantee.level),)
    total = math.hypot(*(level for _, level in parts))
    drawn = _axes(axes)
    places = np.arange(len(parts))
    drawn.barh(places, [(level / total) ** 2 for _, level in parts], color="C0")
    drawn.set_yticks(places, [what for what, _ in parts])
    drawn.invert_yaxis()
    return _name_params(drawn, f"share of mu^2, mu = {rounding.shorten_up(total, 3)}", "", legend=False)


def plot_partial_dependence(
    model: Any, column: Any, *, at: Mapping[Any, Any] | None = None, axes: "Axes | None" = None
) -> "Axes":
    """Plot what a private model predicts along one column, others at public values: a picture of the model, of no row.

    A classifier has a line for each class but the first of two. Categories have bars, the last of a missing value.

    >>> import numpy as np
    >>> from jaxdpbo import plotting, space
    >>> from jaxdpbo.integrations.sklearn import PrivateRegressor
    >>> X = np.random.default_rng(0).uniform(size=(2000, 2))
    >>> model = PrivateRegressor(space.real(0, 1), target_range=(0, 1), epsilon=2, delta=1e-5).fit(X, X[:, 0] ** 2)
    >>> plotting.plot_partial_dependence(model, 0).get_ylabel()
    'prediction'

    Args:
      model: a fitted ``PrivateClassifier`` or ``PrivateRegressor``.
      column: the name, or of an array the number.
      at: values of other columns, see ``PrivateClassifier.partial_dependence``.
      axes: the matplotlib axes.

    Raises:
      ValueError: a column that the model leaves out.
    """
    values, predicted = model.partial_dependence(column, at)
    classes = getattr(model, "classes_", None)
    shown = {"prediction": predicted} if classes is None else dict(zip(map(str, classes), predicted.T, strict=True))
    if classes is not None and len(classes) == 2:
        del shown[str(classes[0])]
    drawn, is_number = _axes(axes), all(isinstance(value, float) for value in values)
    for number, (name, heights) in enumerate(shown.items()):
        if is_number:
            drawn.plot(values, heights, label=name)
        else:
            drawn.bar(np.arange(len(values)) + 0.8 * number / len(shown), heights, 0.8 / len(shown), label=name)
    if not is_number:
        named = ["missing" if value is None else str(value) for value in values]
        drawn.set_xticks(np.arange(len(values)) + 0.4 - 0.4 / len(shown), named)
    up = "prediction" if classes is None else "probability"
    return _name_params(drawn, str(column), up, legend=classes is not None)


def _axes(axes: "Axes | None") -> "Axes":
    if axes is not None:
        return axes
    pyplot = checks.extra("matplotlib.pyplot", "plotting", "jaxdpbo.plotting")
    return pyplot.figure(figsize=(6, 4), layout="constrained").add_subplot()


def _name_params(axes: "Axes", across: str, up: str, *, legend: bool = True) -> "Axes":
    axes.set(xlabel=across, ylabel=up)
    if legend:
        axes.legend(frameon=False, fontsize=8)
    return axes
