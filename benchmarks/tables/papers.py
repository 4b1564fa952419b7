"""The papers' figures, the demo and the audit."""

import math

import numpy as np

from benchmarks.papers import rules
from benchmarks.report import other_seeds
from benchmarks.tables.markdown import load_result, table
from jaxdpbo import rounding

REGRET_ROWS = {
    "all candidates, Algorithm 3": "all 64, 256, 100 candidates in order (Algorithm 3)",
    "private evaluations": "GP-UCB, private evaluations",
    "DP-GIBO": "DP-GIBO",
    "DP-GP-UCB": "DP-GP-UCB (Algorithm 2)",
    "random choice": "random choice",
    "GP-UCB": "GP-UCB, not private",
}
GRID = "grid of side 7.5"
TRANSFORMS = {
    "not private": ("none", "none"),
    "random projection, as published": ("random projection, as published", "none"),
    "planar Laplace": ("planar Laplace, kernel aware of it", "metric, for one unit of a ball 50 across"),
    "Gaussian": ("Gaussian, kernel aware of it", "the same, by GDP"),
    "replace-one: planar Laplace": ("planar Laplace, replace-one", "for any two places"),
    "replace-one: randomised response, 4 cells": ("randomised response of 4 cells, replace-one", "for any two places"),
    "replace-one: no method below": ("lower bound for pure epsilon-DP transforms, replace-one", "proved"),
    "random rows": ("random rows", "reads no row"),
}
TASKS = {
    "LogReg+SGD": "logistic regression, SGD",
    "LogReg+Adam": "logistic regression, Adam",
    "SVM+SGD": "linear SVM, SGD",
    "MLP2+SGD": "perceptron 128-64 on 4,500 digits, 20 epochs at most, 3 parts",
}


def demo() -> str:
    result = load_result("bench_demo")
    rows = [
        (
            name,
            f"{np.mean(method['losses']):.3f}",
            f"{min(method['losses']):.3f} to {max(method['losses']):.3f}",
            method["evaluations"],
            method["privacy"],
        )
        for name, method in result["methods"].items()
    ]
    took = f"{result['seconds']:.0f} s, compilation included; noise: {result['noise'].partition(':')[0]}."
    return (
        table(("method", "mean validation loss", "range", "evaluations", "guarantee for users"), rows) + f"\n\n{took}"
    )


def sopa_fig1() -> str:
    result = load_result("sopa_fig1")
    rows = []
    for mu, curves in result["median"].items():
        low, middle, high = result["final_gap_quartiles"][mu]
        places = 3 if middle > 0.05 else 4
        rows.append(
            (mu, f"{curves['distance'][0]:.3f}", f"{curves['distance'][-1]:.3f}")
            + (f"{middle:.{places}f} ({low:.{places}f} to {high:.{places}f})",)
            + (f"{curves['surrogate_bias'][-1]:.1e}".replace("e-0", "e-"), f"{curves['noise'][-1]:.2f}")
        )
    start = "distance to the maximum likelihood estimate: start"
    return table(("mu", start, "end", "excess loss at the end (quartiles)", "surrogate bias", "noise"), rows)


def sopa_figures() -> str:
    second, third, fourth, fifth = (load_result(f"sopa_fig{number}") for number in (2, 3, 4, 5))
    gibo, descent = (second["median"][name]["distance"][-1] for name in ("DP-GIBO", "DP-GD"))
    ratio = second["DP-GIBO / DP-GD, median final distance"]
    lag = next(iter(second["lag"].values()))
    ends = {name: [run[-1] for run in runs.values()] for name, runs in third["runs"].items()}

    def spread(name: str) -> str:
        return f"{np.mean(ends[name]):.3f} ({min(ends[name]):.3f} to {max(ends[name]):.3f})"

    def loss(name: str, evaluations: int = 265) -> str:
        return f"{np.mean(fourth['final'][name][str(evaluations)]):.3f}"

    def difference(other: str) -> str:
        over = rules.interval(np.subtract(*(fourth["final"][name]["265"] for name in ("1", other))))
        return f"{over.mean:+.3f}, 95 % {over.low:+.3f} to {over.high:+.3f}"

    shared = {
        name.rpartition("=")[2]: np.mean(values)
        for name, values in fifth["final"].items()
        if name.startswith("one Z for all users: sigma=")
    }
    random = np.mean(fifth["final"]["one Z for all users: random search"])
    rows = [
        (
            "[2](results/sopa_fig2.png)",
            "Huber regression, d = 4, mu = 1, 100 seeds: median distance of DP-GIBO and DP-GD to the minimiser",
            f"{gibo:.3f} against {descent:.3f}, ratio {ratio['ratio']:.3f} "
            f"(95 % {ratio['95%'][0]:.3f} to {ratio['95%'][1]:.3f}); DP-GIBO halves the distance {lag:.1f} steps later",
        ),
        (
            "[3](results/sopa_fig3.png)",
            f"kernel SVR, d = 33, {third['problem']['users']:,} users (Chicago ridership, a STAND-IN for the paper's "
            f"data), 340 evaluations, {third['seeds'][1]} seeds: mean loss",
            f"DP-GIBO, mu = 1, {spread('DP-GIBO, mu=1')}; mu = inf {np.mean(ends['DP-GIBO, mu=inf']):.3f}; random "
            f"search {spread('random search')}. The paper found both below random search. In box units from the same "
            f"starts, nothing tuned: mu = 1 {spread('in box units, mu=1')}, mu = inf {spread('in box units, mu=inf')}; "
            f"`minimize`, mu = 1, {spread('minimize, mu=1')}",
        ),
        (
            "[4](results/sopa_fig4.png)",
            f"lengthscales of a GP regression, d = 10, 4,500 users, "
            f"{fourth['settings']['chosen here']['train']} training records (ours; the paper does not say), "
            f"265 evaluations, {fourth['seeds'][1]} seeds: mean loss",
            f"DP-GIBO, mu = 1, {loss('1')}; random search {loss('random search')} (paired "
            f"{difference('random search')}); GP-UCB {loss('GP-UCB')} ({difference('GP-UCB')}); mu = inf "
            f"{loss('inf')}. The paper found DP-GIBO better. In box units from the same starts, nothing tuned: mu = 1 "
            f"{loss('in box units, mu=1')}, mu = inf {loss('in box units, mu=inf')}; `minimize`, mu = 1, after 275 "
            f"evaluations {loss('minimize, mu=1', 275)}",
        ),
        (
            "[5](results/sopa_fig5.png)",
            f"the same, all users with one noise of deviation 0.01, {fifth['seeds'][1]} seeds: mean loss by the "
            "deviation assumed",
            f"right {shared['0.01']:.3f}, too large (1) {shared['1']:.3f}, too small (0.0001) {shared['0.0001']:.3f}; "
            f"random search {random:.3f}",
        ),
    ]
    return table(("figure", "problem", "measured"), rows)


def sopa_clip_norms() -> str:
    result = load_result("sopa_clip_norms")
    rows = [
        (name, f"{result['chosen'][name]:g}")
        + tuple(f"{cell['regret']:.2g} ({cell['95%'][0]:.2g} to {cell['95%'][1]:.2g})" for cell in row.values())
        for name, row in result["mean"].items()
    ]
    names = list(next(iter(result["mean"].values())))
    return table(("problem", "a good clip norm", *names), rows)


def kusner_fig1() -> str:
    result = load_result("kusner_fig1")
    sizes = list(result["likeliest"])
    grid = {f"{likeliest['to 0.95']:g}" for likeliest in result["likeliest"].values()}
    least = 1 - min(likeliest["extended"] for likeliest in result["likeliest"].values())
    return (
        f"For validation sets of {int(sizes[0]):,} to {int(sizes[-1]):,} records (kernel SVM on covertype, "
        f"{result['settings']['chosen here']['train']:,} training records), the likeliest correlation of neighbouring "
        f"sets is {' or '.join(grid)} on the paper's grid, the largest there, and at least 1 - {least:.0e} on an "
        "extended grid. ".replace("e-0", "e-")
        + "One record moves the accuracy on n records by at most 1 / n, so neighbours are this close: "
        "[figure](results/kusner_fig1.png). The paper's own sizes and counts are from memory, because the text at hand "
        "lacks them."
    )


def kusner_regret() -> str:
    result = load_result("kusner_regret")
    epsilons = result["settings"]["chosen here"]["epsilons"]
    columns = [epsilons.index(1.0), epsilons.index(5.0)]
    rows = [
        (label, *(f"{regrets[method][column]:.3f}" for regrets in result["regret"].values() for column in columns))
        for method, label in REGRET_ROWS.items()
    ]
    titles = (
        "logistic regression, d = 1, 369 users: 1",
        "GP lengthscales, d = 10, 300 users: 1",
        "kernel SVM on covertype, d = 2, 4,000 users: 1",
    )
    return table(("epsilon", *(cell for title in titles for cell in (title, "5"))), rows)


def kharkovskii_table1() -> str:
    result = load_result("kharkovskii_table1")
    printed = result["settings"]["printed in the paper"]["regrets"]
    largest = result["largest_r"]
    allowed = max(int(r) for r in printed if int(r) <= largest)
    header = [f"{r} (the largest printed within the rule, {largest})" if int(r) == allowed else r for r in printed]
    ours = [
        f"{mean:.3f} ({error:.3f})"
        for mean, error in zip(result["mean"].values(), result["standard_error"].values(), strict=True)
    ]
    rows = [(f"ours, {result['runs']} draws (standard error)", *ours)]
    rows.append(("printed: 50 runs on one function", *(f"{value:.3f}" for value in printed.values())))
    return table(("epsilon = e^1.1: r", *header), rows)


def kharkovskii_regret() -> str:
    means = load_result("kharkovskii_regret")["mean"][GRID]
    rows = []
    for start, (label, notion) in TRANSFORMS.items():
        rows.append((label, notion, *(f"{value:.3f}" for value in means[start])))
    return table(("transform", "guarantee", "epsilon = e^0", "e^0.9", "e^1.1"), rows)


def kharkovskii_loans() -> str:
    means = load_result("kharkovskii_regret")["mean"]["loans"]
    header = ("the loans, one data set", "epsilon = e^1", "e^2", "e^2.9")
    return table(header, [(name, *(f"{value:.3f}" for value in values)) for name, values in means.items()])


def kharkovskii_paired() -> str:
    paired = load_result("kharkovskii_regret")["paired"][GRID]["planar Laplace - random projection, as published"]
    ends = ", ".join(f"{difference['95%'][1]:+.3f}" for difference in paired)
    margin = load_result("kharkovskii_regret")["settings"]["chosen here"]["margin"]
    means = load_result("kharkovskii_regret")["mean"]
    wide, loans = means["grid of side 10"], means["loans"]
    published, sound = "random projection, as published", "planar Laplace"
    return (
        "For a unit of distance, the sound planar Laplace transform is not inferior to the published transform: the "
        f"paired 95 % intervals of the difference end at {ends}, and the margin of {margin:+.2f} was fixed before the "
        "runs. On a grid of side 10 the sound transform is worse at e^1.1 "
        f"({wide[sound][2]:.3f} against {wide[published][2]:.3f}). On the loans, one data set, the sound transform is "
        f"worse at every budget ({min(loans[sound]):.2f} to {max(loans[sound]):.2f} against "
        f"{np.mean(loans[published]):.2f})."
    )


def kharkovskii_replace_one() -> str:
    loans = load_result("kharkovskii_regret")["mean"]["loans"]
    hidden, chance = loans["replace-one: planar Laplace"], loans["random rows"][0]
    return (
        "Under replace-one, a row is hidden among all places. On the grids, a search then does about as well as random "
        f"rows. On the loans, planar Laplace leaves {hidden[0]:.3f}, {hidden[1]:.3f} and {hidden[2]:.3f}, and random "
        f"rows leave {chance:.3f}: only the smallest budget does about as well as random rows. The loans are one data "
        "set, and at their budgets of e^1 to e^2.9 a released row says much more about its place."
    )


def avent_table2() -> str:
    tasks = load_result("avent_table2")["tasks"]
    rows = []
    for name, label in TASKS.items():
        ours, theirs = tasks[f"{name}, ours"], tasks[f"{name}, the paper's"]

        def difference(value: float, interval: list[float]) -> str:
            return f"{value:.3f} ({interval[0]:.3f} to {interval[1]:.3f})"

        rows.append(
            (label, f"{ours['search']:.3f}", f"{np.mean(ours['random']):.3f}")
            + (difference(ours["difference"], ours["95%"]), difference(theirs["difference"], theirs["95%"]))
            + (difference(*theirs["printed"]) if theirs["printed"] else "-",)
        )
    header = ("", "DPareto, ours", "random", "difference, ours", "difference, the paper's accountant", "printed")
    return table(header, rows)


def _sets(item: str) -> dict[str, str]:
    """The names of an item's results on all sets of seeds, by the suffix that names the seeds."""
    return {name.removeprefix(item): name for name in (item, *other_seeds(item))}


def avent_luck() -> str:
    rows = []
    for suffix, name in _sets("avent_luck").items():
        searches, random = load_result(name)["hypervolumes"], load_result(f"avent_table2{suffix}")["tasks"]
        for task, label in TASKS.items():
            ways = [f"{task}, {way}" for way in ("ours", "the paper's")]
            if not all(way in searches for way in ways):
                continue
            volumes = searches[ways[0]]
            differences = [rules.welch(searches[way], random[way]["random"]) for way in ways]
            rows.append(
                (label, suffix.lstrip("_").replace("-", ":") or f"0:{len(volumes)}", f"{np.mean(volumes):.3f}")
                + (f"{min(volumes):.3f} to {max(volumes):.3f}",)
                + tuple(f"{gap.mean:.3f} ({gap.low:.3f} to {gap.high:.3f})" for gap in differences)
            )
    header = ("", "seeds", "mean, ours", "range", "minus random, ours", "minus random, the paper's accountant")
    return table(header, sorted(rows, key=lambda row: list(TASKS.values()).index(row[0])))


def avent_least() -> str:
    least = load_result("avent_fig5")["least_error"]
    within = ("0.01", "0.03", "0.1", "0.3", "1", "10")
    rows = [
        (label, *(f"{least[f'{name}, DPareto'][e]:.3f}, {least[f'{name}, random'][e]:.3f}" for e in within))
        for name, label in (("LogReg+Adam", TASKS["LogReg+Adam"]), ("MLP2+SGD", "perceptron 128-64"))
    ]
    return table(("", *within), rows)


def avent_fig6() -> str:
    sets = {suffix: load_result(name)["hypervolumes"] for suffix, name in _sets("avent_fig6").items()}
    first = sets[""]
    ways = list(next(iter(first.values())))
    rows = [
        (TASKS[task], suffix.lstrip("_").partition("-")[0] or "0", *(f"{by_task[task][way]:.3f}" for way in ways))
        for task in first
        for suffix, by_task in sets.items()
    ]
    return table(("", "seed", *ways), rows)


def avent_fig7() -> str:
    result = load_result("avent_fig7")
    rows = [
        (
            TASKS[name],
            *(f"{volume:.3f}" for volume in volumes.values()),
            *(f"{v:.3f}" for v in result["spread"][name].values()),
        )
        for name, volumes in result["hypervolumes"].items()
    ]
    where = next(iter(result["spread"].values()))
    return table(
        ("", "as searched", "the same front, trained again", "mean", "best", "worst",
         *(f"worst minus best error, {label}" for label in where)),
        rows,
    )  # fmt: skip


def avent_accountants() -> str:
    tasks = load_result("avent_accountants")["tasks"]
    middles, ends = ([task["paper's epsilon over ours"][i] for task in tasks.values()] for i in (1, 2))
    fronts = ", ".join(f"{task['front']} trainings: {task['publishing the front']:.1f}" for task in tasks.values())
    searches = ", ".join(f"{task['publishing the search']:,.0f}" for task in tasks.values())
    return (
        f"The paper's accountant gives the same settings {min(middles):.1f} to {max(middles):.1f} times the `epsilon` "
        f"of ours (median; {min(ends):.0f} to {max(ends):.0f} times at the upper 5 %), "
        "[figure](results/avent_accountants.png). The 272 trainings of one search would compose to an `epsilon` of "
        f"{searches} ({', '.join(tasks)}) if their settings had been fixed in advance, and a search's settings are "
        f"not. The trainings of a front alone compose to less ({fronts}); this is no guarantee, because all errors "
        "chose these settings. Show a front only to those who hold the records."
    )


def audit_one_run() -> str:
    rows = []
    for row in load_result("audit_one_run")["rows"]:
        attack = row["audit"]
        claimed = rounding.shorten_up(row["claimed"], 3)
        if not row["must hold"]:
            claimed += " (claimed by the planted program)"
        rows.append(
            (row["name"], claimed, f"{attack['correct']} of {attack['trials']}", _round_down(row["measured"], 2))
        )
    return table(("", "guaranteed epsilon", "coins guessed correctly", "lower bound on epsilon"), rows)


def _round_down(bound: float, digits: int) -> str:
    """A lower bound with so many digits after the point."""
    return f"{math.floor(bound * 10**digits) / 10**digits:.{digits}f}"


def audit() -> str:
    rows = {row["name"]: row for row in load_result("audit")["rows"]}

    def measured_levels(*names: str, digits: int = 3) -> str:
        return ", ".join(_round_down(rows[name]["measured"], digits) for name in names)

    ordered = [f"dp_gp_ucb, Algorithm 3 in order: {which}" for which in ("point", "value", "both")]
    steps = [f"dp_optim, DP-SGD, {which} of 2 of 4" for which in ("1 step", "3 steps")]
    recorded = ("run_loop on record, interrupted", "run_scan on record, copied", "PrivateObjective on record, copied")
    recorded = [f"{name} and repeated" for name in recorded]
    private = [f"{name}, exact" for name in ("dp_gibo", "dp_gd", "private_evaluations")]
    curators = [f"{name}, exact" for name in ("product_laplace", "planar_laplace", "randomised_response")]
    sweeps = [f"sweep, two configs, {which}" for which in ("together", "their difference")]
    common = "sweep, common random numbers, their difference"
    last, tried = "laplace, float, read to the last bit", "dp_optim, float, every draw tried"
    searched, hidden = "least_epsilon, all that is released", "least_epsilon, its least epsilon for all releases"
    projection = "random_projection (paper: theorem 1)"
    claimed = {name: rounding.shorten_up(rows[name]["claimed"], 4) for name in rows}
    return table(
        ("", "guaranteed", "measured"),
        [
            ("DP-GIBO, DP-GD, private evaluations, exact", f"mu = {claimed[private[0]]}", measured_levels(*private)),
            ("DP-GP-UCB in order: point, value, both", f"epsilon = {claimed[ordered[0]]}", measured_levels(*ordered)),
            (
                "curator: product Laplace, planar Laplace, randomised response",
                f"epsilon = {claimed[curators[0]]}",
                measured_levels(*curators, digits=2),
            ),
            (
                "DP-SGD: one step, three steps, at delta = 0.05",
                f"epsilon = {claimed[steps[0]]}, {claimed[steps[1]]}",
                measured_levels(*steps, digits=2),
            ),
            (
                "two configs of a sweep: together, their difference",
                f"mu = {claimed[sweeps[0]]}",
                measured_levels(*sweeps),
            ),
            (
                "runs on record (2,500 trials): interrupted and repeated; copied and repeated; a `PrivateObjective` "
                "copied",
                f"mu = {claimed[recorded[0]]}",
                measured_levels(*recorded),
            ),
            (
                "`least_epsilon`: releases of any level (4,000 trials)",
                f"epsilon = {claimed[searched]} before the release",
                measured_levels(searched, digits=2),
            ),
            (
                f"`least_epsilon` without the epsilon of the release (claims epsilon = {claimed[hidden]})",
                "none",
                measured_levels(hidden, digits=2),
            ),
            ("two configs of a sweep under common random numbers", "none", measured_levels(common, digits=1)),
            ("random projection, as published (claims epsilon = 1)", "none", measured_levels(projection, digits=1)),
            (
                "float Laplace noise, read to its last bit (claims epsilon = 1)",
                '"ideal noise"',
                measured_levels(last, digits=1),
            ),
            (
                f"a step of DP-SGD in float32, every draw tried (claims epsilon = {claimed[tried]})",
                '"ideal noise"',
                measured_levels(tried, digits=1),
            ),
        ],
    )


BLOCKS = {
    block.__name__: block
    for block in (
        demo, sopa_fig1, sopa_figures, sopa_clip_norms, kusner_fig1, kusner_regret, kharkovskii_table1,
        kharkovskii_regret, kharkovskii_loans, kharkovskii_paired, kharkovskii_replace_one, avent_table2, avent_luck,
        avent_least, avent_fig6, avent_fig7, avent_accountants, audit, audit_one_run,
    )
}  # fmt: skip
