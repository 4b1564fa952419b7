"""Which choices that the papers leave open were tried, and how near each came: for docs/open_choices.md."""

from collections.abc import Callable, Mapping

import numpy as np

from benchmarks.papers import rules
from benchmarks.papers.claims import FREE, GIBO, SEARCH
from benchmarks.report import other_seeds
from benchmarks.tables.markdown import load_result, table

HEADER = ("choices", "minus random search, mean (95 %; seeds)")


def _over_all_sets(item: str, ends: Callable[[dict], dict[str, list[float]]]) -> dict[str, np.ndarray]:
    """Losses at the end by method, of the runs of all sets of seeds; ``ends`` reads those of one result."""
    sets = [ends(load_result(name)) for name in (item, *other_seeds(item))]
    return {method: np.concatenate([one[method] for one in sets]) for method in sets[0]}


def _search_differences(ends: Mapping[str, np.ndarray], names: Mapping[str, str]) -> str:
    rows = [(label, str(rules.interval(ends[name] - ends[SEARCH]))) for name, label in names.items()]
    return table(HEADER, rows)


def open_fig4() -> str:
    """Figure 4 of Sopa et al., after all evaluations."""

    def ends(result: dict) -> dict[str, list[float]]:
        return {name: list(by_evaluations.values())[-1] for name, by_evaluations in result["final"].items()}

    return _search_differences(
        _over_all_sets("sopa_fig4", ends),
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

    def ends(result: dict) -> dict[str, list[float]]:
        return {name: [curve[-1] for curve in curves.values()] for name, curves in result["runs"].items()}

    return _search_differences(
        _over_all_sets("sopa_fig3", ends),
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
    suffixes = [name.removeprefix("avent_luck") for name in ("avent_luck", *other_seeds("avent_luck"))]
    searches = {
        f"ten searches, seeds {suffix.lstrip('_').replace('-', ':') or '0:10'}": (
            f"avent_luck{suffix}", f"avent_table2{suffix}",
        )
        for suffix in suffixes
    } | {"ten searches by the gain in the logarithm of epsilon": ("avent_transformed", "avent_table2")}  # fmt: skip
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
