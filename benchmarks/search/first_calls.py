"""Files as people have them, and the first call on each; ``real_files`` runs this, also on another checkout.

``python -P first_calls.py FOLDER NAME`` prints what came of one file as JSON. Imports ``jaxdpbo`` from the path alone.
"""

import inspect
import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas
import pyarrow.compute
from scipy.io import arff

import jaxdpbo
from benchmarks.papers import mixed_tables
from jaxdpbo import Search, minimize, space, tables, transforms
from jaxdpbo.integrations.sklearn import PrivateClassifier

SEED = 9900
BUDGET = {"epsilon": 2.0, "delta": 1e-6}
KEY = {"key": jax.random.key(SEED), "insecure_key": True}
RUN = {"run": jaxdpbo.Execution(**KEY)} if hasattr(jaxdpbo, "Execution") else KEY  # the first is of older checkouts
COMMAS = "decimal" in inspect.signature(space.real).parameters  # text spells numbers by a public format
COMPUTED = hasattr(tables, "sources")  # columns of a table may be computed
LOANS = {"default": ["No", "Yes"], "balance": space.real(0, 3000), "income": space.real(0, 80_000), "student": None}
GERMAN = {"decimal": ",", "thousands": "."} if COMMAS else {}
FLCHAIN = {
    "age": space.real(50, 110),
    "sex": ["F", "M"],
    "kappa": space.real(0.01, 25, log=True),
    "lambda": space.real(0.01, 30, log=True),
    "flc.grp": [*"123456789", "10"],
    "creatinine": space.real(0.3, 12, log=True),
    "mgus": ["no", "yes"],
}
SPECIES = (
    "Adelie Penguin (Pygoscelis adeliae)",
    "Chinstrap penguin (Pygoscelis antarctica)",
    "Gentoo penguin (Pygoscelis papua)",
)
PENGUINS = {
    "Island": ["Biscoe", "Dream", "Torgersen"],
    "Culmen Length (mm)": space.real(30, 60),
    "Culmen Depth (mm)": space.real(12, 22),
    "Flipper Length (mm)": space.real(170, 235),
    "Body Mass (g)": space.real(2500, 6500),
    "Sex": ["FEMALE", "MALE"],
}


def classify(rows: pandas.DataFrame, label: str, classes: tuple[str, ...], columns: dict[str, Any]) -> dict[str, Any]:
    """A private classifier on four fifths of the rows, and its accuracy on the last fifth."""
    rows = rows.sample(frac=1, random_state=0).reset_index(drop=True)
    inputs = rows.drop(columns=label)
    model = PrivateClassifier(
        {name: columns.get(name) for name in inputs}, classes=classes, **BUDGET, **RUN
    )  # fmt: skip
    cut = 4 * len(rows) // 5
    model.fit(inputs[:cut], rows[label][:cut])
    truth = rows[label][cut:].map(lambda each: (each.decode() if isinstance(each, bytes) else each).strip())
    found: dict[str, Any] = {"rows": len(rows)}
    try:
        found["result"] = float(model.score(inputs[cut:], rows[label][cut:]))
    except Exception as error:  # after the budget is spent
        found |= {"result": float(np.mean(model.predict(inputs[cut:]) == truth)), "score": type(error).__name__}
    found["constant"] = max(float(np.mean(truth == each)) for each in classes)  # spelled here, not by the library
    return found | said(getattr(model, "notes_", ())) | looked(getattr(model, "check", None), inputs, rows[label])


def said(notes: Iterable[Any]) -> dict[str, Any]:
    """The ids of the notes; an older checkout has none."""
    return {"notes": [note.id for note in notes]}


def looked(check: Callable[..., Any] | None, *arguments: Any) -> dict[str, Any]:
    """What the owner's own look found. The rows are public, so are the counts."""
    if check is None:
        return {"check": None}
    found = check(*arguments).findings
    return {"check": [f"{each.where}: {each.found} {each.what.partition(' (')[0]}" for each in found]}


def adult(folder: Path) -> dict[str, Any]:
    rows = pandas.read_csv(folder / "adult.data.gz", header=None, names=mixed_tables.ADULT)  # a space begins each cell
    return classify(rows, "income", ("<=50K", ">50K"), mixed_tables.ADULT_COLUMNS)


def flchain(folder: Path) -> dict[str, Any]:
    rows = pandas.DataFrame(arff.loadarff(folder / "flchain.arff")[0])  # text as bytes
    return classify(rows, "death", ("alive", "dead"), FLCHAIN)


def default(folder: Path) -> dict[str, Any]:
    return classify(pandas.read_csv(folder / "Default.csv"), "student", ("No", "Yes"), LOANS)


def default_resaved(folder: Path) -> dict[str, Any]:
    """As a spreadsheet in German saves it."""
    rows = pandas.read_csv(folder / "Default.csv")
    for name in ("balance", "income"):
        rows[name] = [f"{value:,.2f}".translate(str.maketrans(",.", ".,")) for value in rows[name]]
    rows.to_csv(folder / "Default_resaved.csv", sep=";", index=False)
    spelled = {"balance": space.real(0, 3000, **GERMAN), "income": space.real(0, 80_000, **GERMAN)}
    read = pandas.read_csv(folder / "Default_resaved.csv", sep=";", dtype={"balance": str, "income": str})
    return classify(read, "student", ("No", "Yes"), LOANS | spelled)


def penguins(folder: Path) -> dict[str, Any]:
    return classify(pandas.read_csv(folder / "penguins-raw.csv"), "Species", SPECIES, PENGUINS)


def wage(folder: Path) -> dict[str, Any]:
    """A curator's noised rows of age and wage: how their wages go with the true ones."""
    rows = pandas.read_csv(folder / "Wage.csv")[["age", "wage"]].to_numpy()
    config = transforms.gaussian(centre=[45.0, 110.0], scale=40.0, epsilon=10.0, delta=1e-6)
    released = transforms.curate(KEY["key"], config, rows, insecure_key=True)
    agreement = float(np.corrcoef(np.asarray(released.z)[:, 1], rows[:, 1])[0, 1])
    look = looked(getattr(transforms, "check", None), config, rows)
    return {"rows": len(rows), "result": agreement, "constant": 0.0, "notes": []} | look


def flights(folder: Path) -> dict[str, Any]:
    """The median delay at departure in minutes, from two columns of times in a file of Parquet."""
    rows = pandas.read_csv(folder / "flights.csv").dropna(subset=["dep_delay"])
    scheduled = pandas.to_datetime(rows["time_hour"]) + pandas.to_timedelta(rows["minute"], unit="min")
    left = scheduled + pandas.to_timedelta(rows["dep_delay"], unit="min")
    pandas.DataFrame({"scheduled": scheduled, "left": left}).to_parquet(folder / "flights.parquet", index=False)
    columns: Any = {"delay": pyarrow.compute.field("left") - pyarrow.compute.field("scheduled")}
    table = tables.parquet(folder / "flights.parquet", columns if COMPUTED else ["left", "scheduled"])

    def loss(point: Any, batch: Any) -> Any:
        delay = batch["delay"] if COMPUTED else batch["left"] - batch["scheduled"]
        return jnp.minimum(jnp.abs(delay / 60 - point[0]), 60)

    search = Search(method="in_order", steps=41)
    run = minimize(loss, table, [(-10, 10)], loss_range=(0, 60), **BUDGET, search=search, **RUN)
    found = {"rows": len(rows), "result": float(run.release.point[0]), "constant": float(rows["dep_delay"].median())}
    return found | said(getattr(run, "notes", ())) | looked(getattr(table, "check", None))


CALLS = {
    "adult.data": adult,
    "flchain.arff": flchain,
    "Default.csv": default,
    "Default.csv, resaved": default_resaved,
    "Wage.csv": wage,
    "penguins-raw.csv": penguins,
    "flights.csv": flights,
}


if __name__ == "__main__":
    try:
        came = CALLS[sys.argv[2]](Path(sys.argv[1]))
    except Exception as error:
        came = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps(came))
