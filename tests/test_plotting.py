"""Pictures show what results hold."""

from dataclasses import replace

import matplotlib
import numpy as np
import pytest

matplotlib.use("Agg")

from jaxdpbo import audit, dpareto, phases, plotting, preview
from jaxdpbo.algorithms.dp_gibo import Release
from jaxdpbo.drivers import Run
from jaxdpbo.guarantee import composed_guarantee, guarantees

GDP = guarantees.guarantee("gdp", 1.0, "replace_one", "people", parts=(("a", 0.6), ("b", 0.8)))
DP = guarantees.guarantee("dp", 0.5, "replace_one", "people")


def walk(seed):
    path = np.random.default_rng(seed).normal(size=(5, 2))
    return Run(Release(path[-1], path, np.zeros(4), 1.0), GDP)


def test_a_path_is_drawn_once_a_parameter_and_several_with_bands():
    axes = plotting.plot_path(walk(0))
    assert [len(line.get_ydata()) for line in axes.lines] == [5, 5]
    np.testing.assert_array_equal(axes.lines[1].get_ydata(), walk(0).release.path[:, 1])
    again = plotting.plot_path([walk(0), walk(1), walk(2)], low=[-1, -1], high=[1, 1])
    middle = np.median([walk(seed).release.path[:, 0] for seed in range(3)], axis=0)
    np.testing.assert_allclose(again.lines[0].get_ydata(), (middle + 1) / 2)
    assert len(again.collections) == 2
    with pytest.raises(ValueError, match="with a path in the release"):
        plotting.plot_path(Run(None, GDP))


def test_the_path_of_a_plan_is_drawn():
    run = Run(phases.Release(np.zeros(2), np.asarray(0.3), walk(0).release.path, None, ()), GDP)
    np.testing.assert_array_equal(plotting.plot_path(run).lines[0].get_ydata(), walk(0).release.path[:, 0])


def test_a_front_is_a_line_of_what_nothing_dominates():
    values = np.array([[1.0, 0.3], [2.0, 0.2], [2.0, 0.4], [0.5, 0.5]])
    release = dpareto.Release(
        np.zeros(1), np.zeros((4, 1)), values, np.zeros(4, int), np.array([True, True, False, True]), 0.0, None
    )
    axes = plotting.plot_front(release)
    np.testing.assert_array_equal(axes.lines[0].get_xdata(), [0.5, 1.0, 2.0])
    assert axes.get_xscale() == "log"


def test_a_trade_off_is_what_the_statement_says():
    axes = plotting.plot_trade_off(GDP, measured=audit.TradeOff(np.array([0.5]), np.array([0.4])))
    rates = axes.lines[1].get_xdata()
    np.testing.assert_allclose(axes.lines[1].get_ydata(), audit.declared_trade_off(GDP, rates))
    assert np.all(axes.lines[1].get_ydata() <= axes.lines[0].get_ydata() + 1e-12)
    assert len(axes.lines) == 3
    with pytest.raises(ValueError, match="notion"):
        plotting.plot_trade_off(guarantees.no_guarantee("people", "none"))


def test_trade_offs_in_the_same_axes_differ_in_colour():
    axes = None
    for level in (0.5, 1.0, 2.0):
        axes = plotting.plot_trade_off(replace(GDP, level=level), label=f"mu = {level}", axes=axes)
    assert [line.get_label() for line in axes.lines] == ["guessing", "mu = 0.5", "mu = 1.0", "mu = 2.0"]
    assert len({line.get_color() for line in axes.lines}) == 4


def test_an_audit_is_a_share_of_its_claim():
    found = audit.Audit(0.4, 1.2, 0.0, 1, 0, 10)
    axes = plotting.plot_audit([found, found], [GDP, DP], ["one", "two"])
    assert [bar.get_width() for bar in axes.patches] == [1.2, 0.8]
    assert axes.patches[0].get_facecolor() != axes.patches[1].get_facecolor()  # one is refuted
    with pytest.raises(ValueError, match="must have one length"):
        plotting.plot_audit([found], [GDP, DP], ["one"])


class Model:
    """A model of one column, as a picture sees it."""

    def __init__(self, values, predicted, classes=None):
        self.values, self.predicted = values, predicted
        if classes is not None:
            self.classes_ = np.array(classes)

    def partial_dependence(self, column, at):
        assert (column, at) == ("age", None)
        return self.values, self.predicted


def test_a_model_is_drawn_along_a_column_as_lines_or_as_bars():
    axes = plotting.plot_partial_dependence(Model([0.0, 1.0], np.array([3.0, 5.0])), "age")
    assert [line.get_ydata().tolist() for line in axes.lines] == [[3.0, 5.0]]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("age", "prediction")
    shares = np.array([[0.25, 0.75], [0.5, 0.5], [1.0, 0.0]])
    axes = plotting.plot_partial_dependence(Model(["f", "m", None], shares, ["no", "yes"]), "age")
    assert [bar.get_height() for bar in axes.patches] == [0.75, 0.5, 0.0]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["f", "m", "missing"]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["yes"]
    three = Model([0.0, 1.0], np.eye(3)[:2], ["a", "b", "c"])
    assert len(plotting.plot_partial_dependence(three, "age").lines) == 3


def test_previews_are_sorted_by_users_and_a_budget_adds_up():
    found = [preview(users=users, mu=1.0, space=[(0, 6)] * 3, loss_range=(0, 1)) for users in (2000, 200)]
    axes = plotting.plot_previews(found)
    np.testing.assert_array_equal(axes.lines[0].get_xdata(), [200, 2000])
    assert np.all(np.diff(axes.lines[0].get_ydata()) < 0)
    with pytest.raises(ValueError, match="at least"):
        plotting.plot_previews([])
    bars = plotting.plot_budget(GDP).patches
    np.testing.assert_allclose([bar.get_width() for bar in bars], [0.36, 0.64])
    assert len(plotting.plot_budget(guarantees.guarantee("gdp", 1.0, "replace_one", "people")).patches) == 1
    with pytest.raises(ValueError, match="notion"):
        plotting.plot_budget(DP)
    stages = [("a choice", "bounded_range", 0.5), ("a search", "gaussian", 0.3)]
    stated = composed_guarantee.guarantee_from_stages(stages, "people").to_dp(1e-5)
    bars = plotting.plot_budget(stated).patches
    assert sum(bar.get_width() for bar in bars) == pytest.approx(1.0)
    assert bars[1].get_width() == pytest.approx((0.3 / stated.also[1]) ** 2)
