"""Measurements against peers; run by ``scripts/bench NAME``."""

from typing import NamedTuple


class About(NamedTuple):
    """What a measurement is of: the noise drawn for privacy, the dtypes, the module of its settings, and its seeds.

    A measurement with its seeds as constants states them itself, and has None here.
    """

    noise: str
    dtype: str
    problem: str
    seeds: str | None


ABOUT = {
    "dp_gibo": About("float", "float64; rows of the gradient step say which", "gibo_problem", "from 0; warming 1000"),
    "dp_gp_ucb": About("float", "float64", "ucb_problem", "0 to 99; warming from 10000"),
    "po_gp_ucb": About("none", "float64", "outsourced_problem", "from 0"),
    "dpareto": About("none", "float64", "pareto_problem", "0 to 4; warming 100"),
    "gp_ucb": About("none", "float64", "gp_ucb_problem", None),
    "log_ei": About("none", "float64", "log_ei_problem", None),
    "dp_sgd": About("float", "float32", "sgd_problem", "0 to 4; warming 100"),
    "problems": About("none", "float64", "problems", "0"),
    "first_answer": About("exact", "float32", "first_answer", "from the operating system"),
    "users": About("exact", "float32", "users_problem", "0"),
    "streamed": About("exact", "float32", "streamed_problem", "0; the noise from the operating system"),
    "tables": About("exact", "float32", "table_problem", "0; the noise from the operating system"),
    "people": About("exact", "float32", "people_problem", "0; the noise from the operating system"),
    "engines": About("exact", "float32", "table_problem", "0; the noise from the operating system"),
    "silos": About("exact", "float32", "silos_problem", "from 0; the noise from the operating system"),
    "scaling": About("both", "float32", "scaling_problem", "0"),
    "secure": About("both", "float64", "gibo_problem", "0 to 39; warming from 10000"),
}
NAMES = (*ABOUT, "demo", "gpu")
