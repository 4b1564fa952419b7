"""What a curator holds in the experiments of Kharkovskii et al. (2020): rows, and an output for each.

A point of the search is a row number, and the output there is read from a table: ``output(point, outputs)``.

The paper prints the synthetic problem (``jaxdpbo.problems.gp_draws``), which columns the loans have, and that
property prices are dollars per square metre, all outputs logarithms. Its loans have no stated return, its properties
are in Singapore, and its appendix on Branin-Hoo is not in the text at hand: ``Table.source`` says what is here instead.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.papers import datasets
from jaxdpbo import checks

BRANIN_BOX = np.array([[-5.0, 0.0], [10.0, 15.0]])
MONTHS = {"term_36": 36, "term_60": 60}
DEFAULTED = 0.5  # of its instalments are taken to have been paid where a loan went bad


class Table(NamedTuple):
    """``inputs (n, d)``, private, with ``outputs (n,)`` to be maximised, and where they are from."""

    inputs: np.ndarray
    outputs: np.ndarray
    source: str


def output(point: jax.Array, outputs: jax.Array) -> jax.Array:
    """The output at row ``point (1,)``."""
    return outputs[jnp.asarray(point[0], int)]


def branin_hoo(points: int) -> Table:
    """The negative Branin-Hoo function on a grid of ``points^2`` over its usual box."""
    points = checks.size("points", points)
    axes = [np.linspace(low, high, points) for low, high in BRANIN_BOX.T]
    inputs = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, 2)
    x, y = inputs.T
    valley = y - 5.1 / (4 * math.pi**2) * x**2 + 5 / math.pi * x - 6
    value = valley**2 + 10 * (1 - 1 / (8 * math.pi)) * np.cos(x) + 10
    return Table(inputs, -value, f"the Branin-Hoo function on a {points} x {points} grid")


def loans() -> Table:
    """Loans: amount funded, interest rate and annual income, and the logarithm of one plus the return.

    The data at hand say whether a loan went bad, not what it returned. Here every instalment of an annuity at the
    loan's rate was paid where it did not, and half of them where it did; the return is their sum over the amount.

    Raises:
      FileNotFoundError: the table is not there (``datasets.table``).
    """
    rows = datasets.table("lending_club")
    names = ("funded_amnt", "int_rate", "annual_inc", "term", "Class")
    amount, rate, income, term, grade = zip(
        *([row[rows[0].index(name)] for name in names] for row in rows[1:]), strict=True
    )
    inputs = np.stack([np.asarray(column, float) for column in (amount, rate, income)], axis=1)
    months = np.array([MONTHS[label] for label in term])
    monthly = inputs[:, 1] / 1200.0
    instalment = monthly / (1.0 - (1.0 + monthly) ** -months)
    paid = months * instalment * np.where(np.array(grade) == "bad", DEFAULTED, 1.0)
    source = (
        "LendingClub loans, Q1 2016: real, fewer rows than the paper's 36,000; the return is derived from rate and term"
    )
    return Table(inputs, np.log(paid), source)


def properties() -> Table:
    """House sales: longitude and latitude, and minus the logarithm of the price per square foot.

    Sales between relatives, of foreclosed or of unfinished houses are left out: their prices are no evaluation.

    Raises:
      FileNotFoundError: the table is not there (``datasets.table``).
    """
    rows = datasets.table("ames")
    names = ("Longitude", "Latitude", "Sale_Price", "Gr_Liv_Area")
    sold = [row for row in rows[1:] if row[rows[0].index("Sale_Condition")] == "Normal"]
    table = np.array([[float(row[rows[0].index(name)]) for name in names] for row in sold])
    return Table(
        table[:, :2], -np.log(table[:, 2] / table[:, 3]), "house sales in Ames, Iowa: a STAND-IN for Singapore's"
    )
