"""The published transform beside sound ones, at the budgets the paper claims: what the paper lacks.

All meet the same functions. The published transform stands at the epsilon it claims; it has none. A guarantee is not
the same thing in each row: see ``NOTIONS``. Under "unit distance" a row is hidden among rows a unit away, where the
largest norm is 25; under "replace-one" among all rows of that ball.

Whether the sound transform is as good was asked with a margin fixed beforehand: the upper end of the paired 95 %
interval of its regret less the published one's must be at most 0.01. The side of the grid was chosen by the search
without privacy alone.
"""

import itertools
from types import SimpleNamespace

import numpy as np
from tqdm import tqdm

from benchmarks import report
from benchmarks.papers import theory
from benchmarks.reproductions import common
from benchmarks.reproductions.kharkovskii import searches, settings
from jaxdpbo import transforms

FREE, PAPER, RANDOM = "not private", "random projection, as published", "random rows"
LAPLACE, NAIVE, GAUSSIAN = "planar Laplace", "planar Laplace, kernel unaware of the noise", "Gaussian"
ANY_LAPLACE, ANY_GAUSSIAN, FLOOR = (
    "replace-one: planar Laplace",
    "replace-one: Gaussian",
    "replace-one: no method below",
)
NOTIONS = {
    FREE: "none",
    PAPER: "none: its theorem is false",
    LAPLACE: "metric epsilon-DP, unit distance",
    NAIVE: "metric epsilon-DP, unit distance",
    GAUSSIAN: "(epsilon, delta)-DP by GDP, unit distance",
    ANY_LAPLACE: "epsilon-DP, replace-one",
    ANY_GAUSSIAN: "(epsilon, delta)-DP by GDP, replace-one",
    "replace-one: randomised response": "epsilon-DP, replace-one",
    FLOOR: "a bound, for rows drawn independently and pure epsilon-DP",
    RANDOM: "asks for rows without reading them",
}


def main(seeds: range | None = None, quick: bool = False) -> None:
    out = common.Report(
        settings, "regret", "Simple regret by transform and budget", quick, "see each table", seeds=seeds
    )
    s = out.settings
    seeds = seeds or range(s.runs)
    vars(s).update(searches.seed_settings(seeds))
    cases = {f"grid of side {side:g}": {"side": side} for side in (s.side, *s.other_sides)}
    cases["loans"] = {"data": "loans"} | s.loans
    ends, paired, described, problems = {}, {}, {}, []
    for name, changes in cases.items():
        setup = SimpleNamespace(**vars(s) | changes)
        problem = searches.problem_of(setup)
        print(f"\n{name}: {problem.source}; {setup.runs} runs, {setup.steps} iterations, r={setup.projected}")
        regrets = final_regrets(setup, problem)
        ends[name] = {method: [searches.mean_and_error(v) for v in values] for method, values in regrets.items()}
        paired[name] = {
            f"{method} - {PAPER}": [
                common.paired_difference(a, b) for a, b in zip(regrets[method], regrets[PAPER], strict=True)
            ]
            for method in (LAPLACE, GAUSSIAN)
        }
        described[name] = {
            "data": problem.source,
            "epsilons": setup.epsilons,
            "largest_r": largest_ranks(setup, problem),
        }
        problems.append(problem)
        show(setup, ends[name], paired[name], main_case=name == next(iter(cases)))
    print("\nwhat each method guarantees:")
    report.print_table(("method", "guarantee"), NOTIONS.items())
    out.finish(
        picture(s, described, ends),
        seeds=common.ends(seeds),
        problems=described,
        notions=NOTIONS,
        mean={case: {m: [mean for mean, _ in v] for m, v in by_method.items()} for case, by_method in ends.items()},
        standard_error={
            case: {m: [error for _, error in v] for m, v in by_method.items()} for case, by_method in ends.items()
        },
        paired=paired,
        runs=s.runs,
        notes=searches.flags(problems),
    )


def largest_ranks(s, problem):
    """The curator's rule at each budget."""
    return [transforms.largest_rank(problem.smallest_singular_value, epsilon, s.delta) for epsilon in s.epsilons]


def final_regrets(s, problem) -> dict[str, list[np.ndarray]]:
    """Final regrets ``(runs,)`` of each method at each budget."""
    dimension = problem.inputs.shape[1]
    public = {"centre": np.zeros(dimension), "scale": 1.0}
    free, rows = searches.regrets(s, problem, None)[:, -1], searches.random_regrets(s, problem)[:, -1]
    regrets: dict[str, list[np.ndarray]] = {}
    with tqdm(total=len(s.epsilons) * (6 + len(s.cells)), unit="sweep") as bar:
        for epsilon in s.epsilons:
            near = {"epsilon": epsilon, "noise": "float", **public}
            anywhere = near | {"radius": s.largest_norm}
            plans = {
                PAPER: (searches.paper(problem, s.projected, epsilon, s.delta), False),
                LAPLACE: (transforms.planar_laplace(**near), True),
                NAIVE: (transforms.planar_laplace(**near), False),
                GAUSSIAN: (transforms.gaussian(**near, delta=s.delta), True),
                ANY_LAPLACE: (transforms.planar_laplace(**anywhere), True),
                ANY_GAUSSIAN: (transforms.gaussian(**anywhere, delta=s.delta), True),
            }
            for count in s.cells:
                places = cells(s.largest_norm, count, dimension)
                name = f"replace-one: randomised response, {len(places)} cells"
                plans[name] = transforms.randomised_response(**near, cells=places), True
            for method, (chosen, aware) in plans.items():
                regrets.setdefault(method, []).append(searches.regrets(s, problem, chosen, aware=aware)[:, -1])
                bar.update()
            floors = [floor(truth, s.steps, epsilon) for truth in np.asarray(problem.truth)]
            regrets.setdefault(FLOOR, []).append(np.array(floors))
    repeated = len(s.epsilons)
    return {FREE: [free] * repeated, **regrets, RANDOM: [rows] * repeated}


def floor(truth, steps, epsilon):
    return theory.replace_one_regret_floor(truth.max() - truth, steps, epsilon)


def cells(radius: float, count: int, dimension: int) -> np.ndarray:
    """The middles of ``count`` cells a coordinate of the cube in the ball."""
    half = radius / np.sqrt(dimension)
    middles = half * (2 * np.arange(count) + 1 - count) / count
    return np.array(list(itertools.product(middles, repeat=dimension)))


def show(s, ends, paired, main_case):
    heads = [f"epsilon={epsilon:.3g}" for epsilon in s.epsilons]
    report.print_table(
        ("simple regret, mean (standard error)", *heads),
        [(method, *(searches.format_mean(*pair) for pair in values)) for method, values in ends.items()],
    )
    for pair, comparisons in paired.items():
        for head, comparison in zip(heads, comparisons, strict=True):
            within = comparison["95%"][1] <= s.margin
            verdict = f"; {'' if within else 'NOT '}within the margin {s.margin:g}" if main_case else ""
            print(f"{pair}, {head}, paired: {common.sentence(comparison)}{verdict}")


STYLES = {FREE: ("k", "--"), RANDOM: ("0.5", "--"), FLOOR: ("0.5", ":")}


def picture(s, described, ends):
    figure, axes = common.panels(1, len(described) + 1)
    axes[-1].set_axis_off()  # it holds the legend
    for axis, (case, by_method) in zip(axes, ends.items(), strict=False):
        for number, (method, values) in enumerate(by_method.items()):
            means, errors = np.array(values).T
            colour, line = STYLES.get(method, (f"C{number - 1}", "-"))
            axis.errorbar(described[case]["epsilons"], means, errors, color=colour, linestyle=line)
            if axis is axes[0]:
                axes[-1].plot([], [], color=colour, linestyle=line, label=method)
        axis.set_title(case, fontsize=9)
        axis.set(xlabel="epsilon, as claimed", ylim=(0, None))
    axes[0].set_ylabel("simple regret: mean and standard error")
    return figure
