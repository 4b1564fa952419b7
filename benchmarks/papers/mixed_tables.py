"""Tables of numbers and categories as data frames, with the public dimensions of their columns.

Ranges are round numbers that a codebook would give. Categories are those of the documentation; of countries and zones,
the most frequent ones that it lists, and the others share a feature.
"""

from typing import Any, NamedTuple

import numpy as np
import pandas

from benchmarks.papers import datasets
from jaxdpbo import space

ADULT = (
    "age", "workclass", "fnlwgt", "education", "education_num", "marital_status", "occupation", "relationship", "race",
    "sex", "capital_gain", "capital_loss", "hours_per_week", "native_country", "income",
)  # fmt: skip
ADULT_COLUMNS = {
    "age": space.integer(17, 90),
    "workclass": [
        "Private", "Self-emp-not-inc", "Self-emp-inc", "Federal-gov", "Local-gov", "State-gov", "Without-pay",
        "Never-worked",
    ],
    "fnlwgt": None,
    "education": None,
    "education_num": space.integer(1, 16),
    "marital_status": [
        "Married-civ-spouse", "Divorced", "Never-married", "Separated", "Widowed", "Married-spouse-absent",
        "Married-AF-spouse",
    ],
    "occupation": [
        "Tech-support", "Craft-repair", "Other-service", "Sales", "Exec-managerial", "Prof-specialty",
        "Handlers-cleaners", "Machine-op-inspct", "Adm-clerical", "Farming-fishing", "Transport-moving",
        "Priv-house-serv", "Protective-serv", "Armed-Forces",
    ],
    "relationship": ["Wife", "Own-child", "Husband", "Not-in-family", "Other-relative", "Unmarried"],
    "race": ["White", "Asian-Pac-Islander", "Amer-Indian-Eskimo", "Other", "Black"],
    "sex": ["Female", "Male"],
    "capital_gain": space.integer(1, 100_000, log=True),
    "capital_loss": space.integer(1, 5_000, log=True),
    "hours_per_week": space.integer(1, 99),
    "native_country": ["United-States", "Mexico", "Philippines", "Germany", "Canada", "India", "England", "China"],
}  # fmt: skip
LOANS = {
    "funded_amnt": space.real(0, 40_000),
    "int_rate": space.real(5, 31),
    "verification_status": ["Not_Verified", "Source_Verified", "Verified"],
    "annual_inc": space.real(1_000, 1e6, log=True),
    "delinq_2yrs": space.integer(0, 10),
    "inq_last_6mths": space.integer(0, 6),
    "revol_util": space.real(0, 120),
    "open_il_12m": space.integer(0, 10),
    "open_il_24m": space.integer(0, 15),
    "total_bal_il": space.real(1, 1e6, log=True),
    "all_util": space.real(0, 150),
    "inq_last_12m": space.integer(0, 20),
    "total_il_high_credit_limit": space.real(1, 1e6, log=True),
}
HOUSES = {
    "MS_Zoning": ["Residential_Low_Density", "Residential_Medium_Density", "Floating_Village_Residential"],
    "Lot_Area": space.real(1_000, 100_000, log=True),
    "Overall_Cond": ["Poor", "Fair", "Below_Average", "Average", "Above_Average", "Good", "Very_Good", "Excellent"],
    "Year_Built": space.integer(1870, 2010),
    "Year_Remod_Add": space.integer(1950, 2010),
    "Total_Bsmt_SF": space.real(0, 3_000),
    "Gr_Liv_Area": space.real(300, 5_000, log=True),
    "Full_Bath": space.integer(0, 4),
    "Fireplaces": space.integer(0, 3),
    "Garage_Cars": space.integer(0, 4),
    "Central_Air": ["Y", "N"],
    "Heating_QC": ["Poor", "Fair", "Typical", "Good", "Excellent"],
}


class Table(NamedTuple):
    """A frame, its labels, the dimensions of its columns, and its classes, or the range of its targets."""

    frame: Any
    labels: Any
    columns: Any
    classes: tuple[Any, ...] | None
    target_range: tuple[float, float] | None = None

    def part(self, rows: np.ndarray) -> tuple[Any, Any]:
        """The frame and the labels of these rows."""
        return self.frame.iloc[rows], self.labels[rows]


def load(name: str) -> Table:
    """One of "adult", "adult_test", "loans", "houses", "covertype", "ridership", "digits"."""
    return _LOADERS[name]()


def _adult(file: str) -> Table:
    rows = [row for row in datasets.table(file) if len(row) == len(ADULT)]  # the test file begins with a remark
    frame = _frame(ADULT, rows).replace("?", None)
    labels = frame.pop("income").str.rstrip(".").to_numpy()
    return Table(frame, labels, ADULT_COLUMNS, ("<=50K", ">50K"))


def _loans() -> Table:
    header, *rows = datasets.table("lending_club")
    frame = _frame(header, rows)
    return Table(frame[list(LOANS)], frame["term"].to_numpy(), LOANS, ("term_36", "term_60"))


def _houses() -> Table:
    header, *rows = datasets.table("ames")
    frame = _frame(header, rows)
    prices = np.log10(frame["Sale_Price"].to_numpy(float))
    return Table(frame[list(HOUSES)], prices, HOUSES, None, (4.0, 6.0))


def _covertype() -> Table:
    dataset = datasets.load("covtype")
    ends = {0: (1800, 3900), 1: (0, 360), 2: (0, 60), 3: (0, 1400), 4: (-200, 600), 5: (0, 7200), 9: (0, 7200)}
    columns = {
        f"x{number}": space.real(*ends.get(number, (0, 255) if number < 10 else (0, 1)))
        for number in range(dataset.features.shape[1])
    }
    frame = pandas.DataFrame(dataset.features, columns=list(columns))
    kinds = tuple(sorted(set(dataset.targets.astype(int).tolist())))
    return Table(frame, dataset.targets.astype(int), columns, kinds)


def _ridership() -> Table:
    dataset = datasets.load("chicago")
    columns = {f"x{number}": space.real(0, 30) for number in range(20)}  # riders a station, in thousands
    frame = pandas.DataFrame(dataset.features[:, :20], columns=list(columns))
    return Table(frame, dataset.targets, columns, None, (0.0, 30.0))


def _digits() -> Table:
    dataset = datasets.load("digits")
    frame = pandas.DataFrame(dataset.features, columns=[f"x{number}" for number in range(dataset.features.shape[1])])
    return Table(frame, dataset.targets.astype(int), space.real(0, 16), tuple(range(10)))


def _frame(header: Any, rows: Any) -> Any:
    """A frame of text and numbers: a column is numeric where all of its values are."""
    frame = pandas.DataFrame(rows, columns=list(header))
    for name in frame.columns:
        numbers = pandas.to_numeric(frame[name], errors="coerce")
        if numbers.notna().all():
            frame[name] = numbers
    return frame


_LOADERS = {
    "adult": lambda: _adult("adult"),
    "adult_test": lambda: _adult("adult_test"),
    "loans": _loans,
    "houses": _houses,
    "covertype": _covertype,
    "ridership": _ridership,
    "digits": _digits,
}
