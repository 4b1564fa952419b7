"""Small tables in the files' own columns, for tests that need some records and no file."""

import numpy as np


def loans(count=60):
    rng = np.random.default_rng(0)
    header = ["annual_inc", "term", "int_rate", "funded_amnt", "Class"]
    rows = [
        [f"{rng.uniform(3e4, 9e4):.0f}", str(rng.choice(["term_36", "term_60"])), f"{rng.uniform(5, 25):.2f}"]
        + [f"{rng.uniform(1e3, 3e4):.0f}", str(rng.choice(["good", "bad"]))]
        for _ in range(count)
    ]
    return [header, *rows]


def properties(count=60):
    rng = np.random.default_rng(0)
    header = ["Sale_Price", "Gr_Liv_Area", "Latitude", "Longitude", "Sale_Condition"]
    rows = [
        [f"{rng.uniform(1e5, 4e5):.0f}", f"{rng.uniform(800, 3000):.0f}", f"{rng.uniform(42, 42.1):.4f}"]
        + [f"{rng.uniform(-93.7, -93.6):.4f}", "Normal"]
        for _ in range(count)
    ]
    return [header, *rows]


def adult(count=400):
    rng = np.random.default_rng(0)
    words = [["Private", "State-gov"], ["HS-grad", "Bachelors"], ["Divorced", "Widowed"], ["Sales", "Tech-support"]]
    words += [["Wife", "Husband"], ["White", "Black"], ["Male", "Female"], ["Cuba", "Peru"]]
    rows = []
    for _ in range(count):
        work, school, marital, job, family, race, sex, country = (str(rng.choice(some)) for some in words)
        age, weight, years, hours = rng.integers(20, 60), rng.integers(1e4, 9e4), rng.integers(5, 16), rng.integers(60)
        gain, loss = rng.choice([0, 2174]), rng.choice([0, 5])
        rich = ">50K" if years + rng.normal() > 10 else "<=50K"
        numbers = [str(each) for each in (age, weight, years, gain, loss, hours)]
        rows.append(
            [numbers[0], work, numbers[1], school, numbers[2], marital, job, family, race, sex, *numbers[3:], country]
            + [rich]
        )
    return rows


def table(name):
    """In place of ``datasets.table``."""
    return {"lending_club": loans, "ames": properties, "adult": adult}[name]()
