"""Measured facts for the front page, and the origin of every stored result."""

import json
from collections import Counter

import numpy as np

from benchmarks import report
from benchmarks.tables.markdown import figures, load_result, noise_of, row_of, table, time_of
from benchmarks.tables.papers import GRID


def facts() -> str:
    """Lines of a list."""
    methods = load_result("bench_demo")["methods"]
    gibo, random = (np.mean(methods[name]["losses"]) for name in ("DP-GIBO, mu=1", "random search"))
    regret = load_result("kusner_regret")
    at_one = regret["settings"]["chosen here"]["epsilons"].index(1.0)
    ordered, chance = (
        regret["regret"]["logistic"][name][at_one] for name in ("all candidates, Algorithm 3", "random choice")
    )
    sweep, cold = row_of("bench_dp_gibo", "one run of a sweep"), row_of("bench_dp_gibo", "one cold run")
    candidates, front = row_of("bench_dp_gp_ucb", "one run"), row_of("bench_dpareto", "16 seeds and 64")
    volumes = front["more"]["hypervolume"]
    less = sum(ours < peer for ours, peer in zip(volumes["ours"], volumes["peer"], strict=True))
    batches = row_of("bench_dp_sgd", "64 settings")
    audits = load_result("audit")
    verdicts = Counter(row["verdict"] for row in audits["rows"])
    claims = sum(row["must hold"] for row in audits["rows"])
    broken = verdicts["broken, as it must be"]
    sound = load_result("kharkovskii_regret")["mean"][GRID]
    planar, published = (sound[name][2] for name in ("planar Laplace", "random projection, as published"))
    forest = load_result("bench_sklearn")["data"]["adult"]["losses"]
    private, default = (float(np.mean(forest[which])) for which in ("private", "default"))
    lines = [
        f"Tune 13 hyper-parameters on 300 patients at mu = 1 (`scripts/demo`): mean loss {gibo:.3f}, and "
        f"{random:.3f} by random search without privacy.",
        f"Tune a random forest by `PrivateSearchCV` at epsilon = 1: log loss {private:.3f} on held-out rows of Adult, "
        f"and {default:.3f} with the default parameters.",
        f"Choose among all candidates in order (logistic regression, epsilon = 1, {noise_of('kusner_regret')} noise): "
        f"regret {ordered:.3f}, and {chance:.3f} of a random choice.",
        f"Publish noised rows for another party to search, each row hidden among all places within a unit of "
        f"distance (planar Laplace): regret {planar:.3f}, and {published:.3f} by the published transform, which "
        "protects nobody.",
        f"Compare times with peers (noise in floats): BoTorch takes {sweep['ratio']:.0f} times ours in a run of a "
        f"sweep of 100 seeds (ours: {time_of(sweep['ours_s'], 2)}), and {figures(cold['ratio'], 2)} times ours in one "
        f"run in a new process. Scikit-learn takes {figures(candidates['ratio'], 2)} times ours in DP-GP-UCB over "
        f"1,000 candidates. BoTorch takes {figures(front['ratio'], 2)} times ours in a front by DPareto, but refits "
        f"at every step and finds the larger hypervolume on {less} of {len(volumes['ours'])} seeds. Padding each "
        f"batch to 512 rows takes {figures(batches['ratio'], 2)} times ours in DP-SGD over a search's settings.",
        f"{claims} guarantees attacked with up to {audits['trials']:,} trials each: {verdicts['EXCEEDED']} exceeded. "
        f"{broken} of {len(audits['rows']) - claims} attacks on releases without a privacy guarantee succeed.",
    ]
    return "\n".join(f"- {line}" for line in lines)


def results() -> str:
    """Every stored result: its date, commit, dtype, noise and time."""
    rows = []
    for path in sorted(report.STORED.glob("*.json")):
        result = json.loads(path.read_text())
        rows.append(
            (f"[{path.stem}](results/{path.name})", result["date"], (result["commit"] or "-")[:8], result["dtype"])
            + (result["noise"].partition(":")[0], report.last_time(result), result["machine"]["cores"])
        )
    return table(("result", "date", "commit", "dtype", "noise", "took", "cores"), rows)


BLOCKS = {block.__name__: block for block in (facts, results)}
