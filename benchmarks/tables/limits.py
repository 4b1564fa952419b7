"""What the library takes, out of a stored result."""

from benchmarks.tables.markdown import figures, stored, table


def largest_users() -> str:
    """The most users that a budget takes, in millions, by method, dimension and epsilon."""
    found = stored("bench_largest_users")
    rows = [
        (
            row["method"],
            row["d"] or "any",
            *(figures(users / 1e6) if users else "none" for users in row["users"].values()),
        )
        for row in found["rows"]
    ]
    return table(("method", "d", *(f"epsilon {epsilon}" for epsilon in found["rows"][0]["users"])), rows)


BLOCKS = {"bench_largest_users": largest_users}
