"""Figures within sentences of the documents, read from stored results."""

from benchmarks.tables.markdown import row_of, stored


def sgd_accuracy() -> str:
    """Of DP-SGD and of Opacus, at a batch of 128."""
    accuracy = row_of("bench_dp_sgd", "1000 steps of batch 128, one training")["more"]["accuracy"]
    return f"{accuracy['ours']:.2f} and {accuracy['peer']:.2f}"


def sgd_small_batch() -> str:
    """A step at a batch of 32, as a share of a step at 512."""
    small, large = (row_of("bench_dp_sgd", f"1000 steps of batch {size}, one training")["ours_s"] for size in (32, 512))
    return f"{small / large:.2f}"


def ucb_same_picks() -> str:
    return row_of("bench_dp_gp_ucb", "one run of a sweep")["more"]["same_picks"].partition(",")[0]


def outsourced_same_picks() -> str:
    rows = [row for row in stored("bench_po_gp_ucb")["rows"] if "same_picks" in row["more"]]
    (picks,) = {row["more"]["same_picks"].partition(",")[0] for row in rows}
    return picks


def outsourced_traffic() -> str:
    """Bytes that a sweep must read or write."""
    row = next(row for row in stored("bench_po_gp_ucb")["rows"] if row["name"].startswith("the same, "))
    return row["name"].removeprefix("the same, ").partition(" read")[0]


def grid_regret() -> str:
    """Of the search without privacy on the grid of table 1."""
    return f"{stored('kharkovskii_table1')['not_private'][0]:.4f}"


def random_settings_share() -> str:
    """The most by which random settings fall below the search's hypervolume, for logistic regression by SGD."""
    task = stored("avent_table2")["tasks"]["LogReg+SGD, ours"]
    return f"{100 * max(0.0, 1 - min(task['random']) / task['search']):.1g} %"


def few_users_lost() -> str:
    """The number of problems with under 400 users, among those that the default search loses at mu = 1."""
    problems = [
        one
        for one in stored("bench_search")["problems"].values()
        if one["paired"]["minimize - random search"].get("1", {}).get("verdict") == "worse"
    ]
    return f"{sum(one['users'] < 400 for one in problems)} of the {len(problems)}"


SENTENCES = {
    one.__name__: one
    for one in (
        sgd_accuracy, sgd_small_batch, ucb_same_picks, outsourced_same_picks, outsourced_traffic, grid_regret,
        random_settings_share, few_users_lost,
    )
}  # fmt: skip
