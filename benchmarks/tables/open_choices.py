"""Which choices that the papers leave open were tried, and how near each came: for docs/open_choices.md."""

from collections.abc import Callable, Mapping

import numpy as np

from benchmarks.papers import rules
from benchmarks.papers.claims import FREE, GIBO, SEARCH
from benchmarks.report import other_seeds
from benchmarks.tables.markdown import load_result, table

HEADER = ("choices", "minus random search, mean (95 %; seeds)")


def _search_differences(ends: Mapping[str, np.ndarray], names: Mapping[str, str]) -> str:
    rows = [(label, str(rules.interval(ends[name] - ends[SEARCH]))) for name, label in names.items()]
    return table(HEADER, rows)


def open_fig4() -> str:
    """Figure 4 of Sopa et al., after all evaluations."""
    losses = load_result("sopa_fig4")["final"]
    last = list(losses[SEARCH])[-1]
    return _search_differences(
        {name: np.array(by_evaluations[last]) for name, by_evaluations in losses.items()},
        {
            "1": "DP-GIBO, mu = 1, step size and lengthscale tuned on other seeds",
            "inf": "the same without noise",
            "in box units, mu=1": "DP-GIBO, mu = 1, in box units, nothing tuned",
            "in box units, mu=inf": "the same without noise",
            "minimize, mu=1": "`minimize`, mu = 1: the start is chosen privately",
            "GP-UCB": "GP-UCB without privacy",
        },
    )


def open_fig3() -> str:
    """Figure 3 of Sopa et al."""
    runs = load_result("sopa_fig3")["runs"]
    return _search_differences(
        {name: np.array([curve[-1] for curve in curves.values()]) for name, curves in runs.items()},
        {
            GIBO: "DP-GIBO, mu = 1, step size and initial accumulator tuned on other seeds",
            FREE: "the same without noise",
            "in box units, mu=1": "DP-GIBO, mu = 1, in box units, nothing tuned",
            "in box units, mu=inf": "the same without noise",
            "minimize, mu=1": "`minimize`, mu = 1: the start is chosen privately",
        },
    )


def open_table2() -> str:
    """Table 2 of Avent et al."""
    names = ("LogReg+SGD", "LogReg+Adam", "SVM+SGD")
    ways = {"the paper's accountant": "the paper's", "our accountant": "ours"}
    first = load_result("avent_table2")["tasks"]
    printed = [first[f"{name}, the paper's"]["printed"] for name in names]
    rows = [("printed", *(f"{mean:.3f} ({low:.3f} to {high:.3f})" for mean, (low, high) in printed))]
    rows += [
        (f"one search, {label}", *(f"{first[f'{name}, {way}']['difference']:+.3f}" for name in names))
        for label, way in ways.items()
    ]
    searches = {
        "ten searches": ("avent_luck", "avent_table2"),
        "ten other searches": ("avent_luck_10-20", "avent_table2_10-20"),
        "ten searches by the gain in the logarithm of epsilon": ("avent_transformed", "avent_table2"),
    }
    for title, (luck, table2) in searches.items():
        volumes, random = load_result(luck)["hypervolumes"], load_result(table2)["tasks"]
        rows += [
            (f"{title}, {label}",)
            + tuple(str(rules.welch(volumes[f"{n}, {way}"], random[f"{n}, {way}"]["random"])) for n in names)
            for label, way in ways.items()
        ]
    return table(("choices", *names), rows)


def open_properties() -> str:
    """Tables 7 to 9 of Kharkovskii et al., without privacy, by set of seeds."""
    results = [load_result(name) for name in ("kharkovskii_table7", *other_seeds("kharkovskii_table7"))]
    printed = results[0]["settings"]["printed in the paper"]["regrets"]
    ours = ", ".join(f"{result['not_private'][0]:.2f} ({result['not_private'][1]:.2f})" for result in results)
    return (
        f"The paper prints {min(printed.values()):.3f} to {max(printed.values()):.3f} for private searches. Ours leave "
        f"without privacy, by set of 50 seeds (standard error): {ours}."
    )


BLOCKS: dict[str, Callable[[], str]] = {
    block.__name__: block for block in (open_fig4, open_fig3, open_table2, open_properties)
}
