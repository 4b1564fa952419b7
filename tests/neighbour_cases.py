"""Every public entry point for users' values, with records of any kind: ``POINTS``, and the functions without a case.

An entry point gets records, ``n`` objects, and gives what is released. ``test_neighbours`` compares two data sets.
"""

import base64
import contextlib
import functools
import importlib
import inspect
import logging
import pkgutil
import shutil
import sys
import tempfile
import zlib
from argparse import Namespace
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import optuna
import pandas
from option_groups import group_options
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import PredefinedSplit
from training_cases import Trivial

import jaxdpbo
from jaxdpbo import (
    Search,
    blocks,
    by_person,
    dp_gibo,
    drivers,
    notes,
    per_user,
    silos,
    space,
    terminal,
    transforms,
    tuning,
)  # fmt: skip
from jaxdpbo.accounting import stage
from jaxdpbo.commands import curator, tune
from jaxdpbo.drivers import recorded_run
from jaxdpbo.integrations.optuna import private_study
from jaxdpbo.integrations.sklearn import PrivateClassifier, PrivateRegressor, PrivateSearchCV
from jaxdpbo.ledger import ledger_file
from jaxdpbo.noise import keys
from jaxdpbo.silos import masks, messages, sockets
from jaxdpbo.silos import roster as _roster
from jaxdpbo.silos import silo as _silo

SEEDED = {"key": jax.random.key(7), "insecure_key": True}
ONE_BOX = [(0.0, 1.0)]
USUAL = (0.25, 0.5, 0.375, 0.125, 0.0625, 0.625)  # ordinary records


class Point(NamedTuple):
    """An entry point.

    Attributes:
      enter: ``(records) -> released``, of any pytree and what is pickled with it.
      names: public functions that it enters with users' values.
      counts: how many records it takes.
      numbers: a record counts as its number: the release is that of the number, to the last bit.
      dates: a date or a time has a number; False where it is missing, as its text would be.
    """

    enter: Callable[[list[Any]], Any]
    names: tuple[str, ...]
    counts: tuple[int, ...] = (1, 6)
    numbers: bool = True
    dates: bool = True


def objects(records: Sequence[Any]) -> np.ndarray:
    """An array of them as they are."""
    found = np.empty(len(records), object)
    for place, record in enumerate(records):
        found[place] = record
    return found


def given_back(point, data):
    """The losses are the records themselves."""
    del point
    return list(data)


def given_back_as_objects(point, data):
    del point
    return objects(data)


def squares(point, data):
    return jnp.square(data - point[0])


def in_numpy(point, data):
    return np.square(np.asarray(data) - point[0])  # a tracer is refused


def of_one(point, record):
    return jnp.square(record - point[0])


def spread(point, train, held_out):
    return float(np.abs(np.mean(train) - np.mean(held_out) - point[0]))


def published(run: drivers.Run) -> Any:
    """All that leaves."""
    return run.release, run.guarantee, run.method, told(run.notes)


def told(said: notes.Notes) -> tuple[list[notes.Note], float]:
    """Notes that are the same beside any records, and those that follow from a release as a number, like a release."""
    of_release = [note for note in said if notes.SOURCES.get(note.id) == notes.RELEASE]
    return [note for note in said if note not in of_release], float(zlib.crc32(str(of_release).encode()))


def descent(users: int) -> Any:
    return dp_gibo.config(
        users=users, steps=2, batch=2, mu=1.0, bounds=np.array([[0.0], [1.0]]), clip_norm=1.0, polish_steps=2
    )


def looped(objective):
    return lambda records: published(
        drivers.run_loop(dp_gibo.algorithm, objective, records, descent(len(records)), **group_options(**SEEDED))
    )


def identified(records):
    """The public identities of data, and of losses that hold records."""

    def holding(point, data, default=records[0], first=records[-1]):
        return point, data, default, first, records

    class Callable:
        def __init__(self):
            self.held, self.first = records, records[0]

        def __call__(self, point, data):
            return data

    losses = holding, Callable(), functools.partial(given_back, data=records[0])
    data = records, objects(records), (objects(records), records), {"x": objects(records)}
    return [recorded_run.make_subject(loss, leaf, len(records)) for loss in losses for leaf in data]


def in_table(records):
    def first_column(point, batch):
        return squares(point, batch["x"])

    config = dp_gibo.config(
        users=len(records), steps=2, batch=2, mu=1.0, bounds=np.array([[0.0], [1.0]]), clip_norm=1.0, memory="none"
    )
    table = jaxdpbo.tables.arrays({"x": objects(records)})
    return published(drivers.run_loop(dp_gibo.algorithm, first_column, table, config, **group_options(**SEEDED)))


class FakeBar:
    """A bar that writes all that it is told."""

    def __init__(self, **options):
        print(f"bar {sorted(options.items())}", file=sys.stderr)
        self.n = 0

    def update(self, users):
        self.n += users
        print(f"update {users}", file=sys.stderr)

    def close(self):
        print("close", file=sys.stderr)


def tqdm_of_counts(steps, **options):
    """A bar of steps, without times."""
    for step in steps:
        print(f"step {step} {sorted(options.items())}", file=sys.stderr)
        yield step


def on_a_terminal(tqdm, enter):
    """The entry point on a terminal, where it shows its progress and its notes."""

    def shown(records):
        module = None if tqdm is None else SimpleNamespace(tqdm=tqdm)
        with (
            mock.patch.object(terminal, "is_there", return_value=True),
            mock.patch.object(terminal, "width", return_value=80),
            mock.patch.dict(sys.modules, {"tqdm": module}),
            mock.patch.object(notes, "_shown", set(notes.path_like_noise())),  # shown or not by the release
        ):
            return enter(records)

    return shown


def evaluated_in_table(records):
    table = jaxdpbo.tables.arrays({"x": objects(records)})
    private = drivers.PrivateObjective(
        first_of, table, users=len(records), mu=1.0, evaluations=2, loss_range=(0.0, 1.0), **SEEDED
    )
    return [private(0.5), private(0.25)], private.guarantee


def first_of(point, batch):
    return np.square(np.asarray(batch["x"]) - point)


def scanned(objective):
    def enter(records):
        return published(
            drivers.run_scan(
                dp_gibo.algorithm, objective, objects(records), descent(len(records)), **group_options(**SEEDED)
            )
        )

    return enter


def with_checkpoint(records):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.npz"
        run = drivers.run_scan(
            dp_gibo.algorithm,
            squares,
            objects(records),
            descent(len(records)),
            **group_options(checkpoint=path, **SEEDED),
        )
        return published(run)


def minimized(objective, make=objects, **options):
    def enter(records):
        chosen = {"mu": 1.0, "steps": 2, "batch": 2, "users": len(records)} | SEEDED | options
        return published(drivers.minimize(objective, make(records), ONE_BOX, **group_options(**chosen)))

    return enter


def swept(records):
    configs = [descent(len(records))]
    found = drivers.sweep(dp_gibo.algorithm, squares, objects(records), configs, seeds=2, key=SEEDED["key"])
    return jax.tree.map(np.asarray, found.release), found.guarantees


def evaluated(objective, make, **options):
    def enter(records):
        chosen = {"users": len(records), "mu": 1.0, "evaluations": 2, "loss_range": (0.0, 1.0)} | SEEDED | options
        private = drivers.PrivateObjective(objective, make(records), **chosen)
        return [private(np.array([0.5])), private(np.array([0.25]))], private.guarantee, told(private.notes)

    return enter


@functools.cache
def silo_cards():
    """Two silos, with identities in a folder: their signatures are the same each time."""
    folder = Path(tempfile.mkdtemp())
    return folder, [silos.create_identity(folder, name, users=2) for name in "AB"]


def first_column(point, batch):
    return squares(point, batch["x"])


def failing_once_open(opened):
    def fail(point, batch):
        if opened:
            raise ValueError(f"the rows {np.asarray(batch['x'])}")
        return np.asarray(batch["x"])

    return fail


def in_silo(make):
    """All that leaves a silo: its key, replies to a request that is new, repeated and another's, and its ledger."""

    def enter(records):
        (identities, cards), key, opened = silo_cards(), b"k" * 32, []
        with (
            tempfile.TemporaryDirectory() as name,
            mock.patch.object(masks, "generate_key", return_value=key),
            mock.patch.object(_silo.keys, "secret_key", return_value=keys.key_from_bytes(key)),
        ):
            folder = Path(shutil.copytree(identities, name, dirs_exist_ok=True))
            roster = silos.make_roster([cards[0]._replace(users=len(records)), cards[1]])
            config = dp_gibo.config(
                users=roster.users, steps=2, batch=2, mu=1.0, bounds=[(0.0, 1.0)], clip_norm=1.0, memory="none"
            )
            agreement = silos.agree("march", dp_gibo.algorithm, config, roster)
            jaxdpbo.ledger.create(folder / "book", mu=9)
            silo = silos.Silo(
                agreement, make(opened), {"x": objects(records)}, name="A", folder=folder, ledger=folder / "book"
            )
            opened.append(silo)
            public = masks.public_key(b"o" * 32)
            signature = _roster.sign(folder, "B", _silo._key_message(agreement, "B", public))
            other = silos.Credential(*(base64.b64encode(part).decode() for part in (public, signature)))
            leaves = [np.asarray(leaf)[None] for leaf in jax.tree.leaves(agreement.template)]
            request = messages.Request(
                "march", 0, 0, {"A": silo.credential(), "B": other}, messages.write_leaves(leaves)
            )
            asked = [request, request, request._replace(step=1), request._replace(run="april")]
            with recorded() as records:
                replies = [sockets._reply(silo, content.to_bytes()) for content in asked]
            lines = ledger_file.read(folder / "book").lines
            steps = [line["content"] for line in lines if line.get("kind") == "step"]
            numbers = [np.frombuffer(reply[1:], "<u8") for reply, _ in replies if reply[:1] == b"A"]
            texts = [reply if reply[:1] != b"A" else len(reply) for reply, _ in replies]
            said = [record.getMessage().replace(str(folder), "") for record in records]
            return silo.credential(), texts, numbers, steps, silo.guarantee, repr(agreement), said

    return enter


@contextlib.contextmanager
def recorded():
    """All log records."""
    records, logger = [], logging.getLogger("jaxdpbo")
    handler, level = logging.Handler(), logger.level
    handler.emit = records.append
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        yield records
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def studied(records):
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    private = private_study(
        optuna.create_study(study_name="study", sampler=optuna.samplers.RandomSampler(0)),
        lambda trial: {"x": trial.suggest_float("x", 0, 1)},
        given_back,
        records,
        **group_options(users=len(records), mu=1.0, evaluations=2, loss_range=(0.0, 1.0), **SEEDED),
    )
    private.optimize()
    return [trial.value for trial in private.study.trials], private.guarantee, told(private.notes)


def of_persons(records):
    persons = np.arange(len(records)) // 2
    objective = by_person(given_back, persons)
    config = descent(int(persons.max()) + 1)
    return published(drivers.run_loop(dp_gibo.algorithm, objective, records, config, **group_options(**SEEDED)))


def in_blocks(records):
    objective = blocks(spread, len(records), len(records) // 2)
    return published(
        drivers.minimize(
            objective, objects(records), ONE_BOX, **group_options(mu=1.0, steps=2, batch=2, loss_range=(0, 1), **SEEDED)
        )
    )


CURATED = {
    name: getattr(transforms, name)(centre=[0.0, 0.0], scale=1.0, epsilon=2.0)
    for name in ("product_laplace", "planar_laplace")
}


def curated(name, rows):
    def enter(records):
        found = transforms.curate(SEEDED["key"], CURATED[name], rows(records), insecure_key=True)
        return np.asarray(found.z), found.guarantee, told(found.notes)

    return enter


def with_halves(records):
    found = np.full((len(records), 2), 0.5, object)
    found[:, 0] = objects(records)
    return found


TRAINING_X = np.random.default_rng(0).normal(size=(12, 2))
TRAINING_Y = np.arange(12) % 2


def searched(of_labels: bool, estimator=None, **options):
    """A search whose validation rows have the records as a feature, or as a label."""

    def enter(records):
        count = len(records)
        fold = PredefinedSplit(np.repeat([-1, 0], [len(TRAINING_X), count]))
        features = np.concatenate([TRAINING_X, np.full((count, 2), 0.5)]).astype(object)
        labels = [*TRAINING_Y.tolist(), *[0] * count]
        if of_labels:
            labels[len(TRAINING_Y) :] = records
        else:
            features[len(TRAINING_X) :, 0] = objects(records)
        rows = features.astype(float) if of_labels else features
        chosen = {"mu": 1.0, "n_iter": 2, "method": "in_order", "cv": fold, **SEEDED, "refit": "train"}
        name = "C" if estimator is None else "alpha"
        model = LogisticRegression(max_iter=200) if estimator is None else estimator
        found = PrivateSearchCV(model, {name: space.real(0.1, 1.0)}, **group_options(**(chosen | options))).fit(
            rows, labels
        )
        classes = getattr(found.best_estimator_, "classes_", None)
        return found.best_params_, found.guarantee_, classes, told(found.notes_)

    return enter


def searched_in_blocks(records):
    features = np.full((len(records), 2), 0.5, object)
    features[:, 0] = objects(records)
    search = PrivateSearchCV(
        Ridge(),
        {"alpha": space.real(0.1, 1.0)},
        mu=1.0,
        n_iter=2,
        protect="all",
        n_blocks=3,
        loss_range=(0, 1),
        search=Search(method="in_order"),
        **SEEDED,
    )
    found = search.fit(features, np.linspace(0, 1, len(records)))
    return found.best_params_, found.guarantee_, told(found.notes_)


ONE_SETTING = [{"hidden": (), "learning_rate": 1.0, "batch": 32, "epochs": 1, "clip_norm": 1.0}]
MODEL = {"epsilon": 5.0, "delta": 1e-3, **SEEDED, "largest_weight": 2.0}


def as_read(records: list[Any]) -> pandas.Series:
    """A column with a dtype that a reader chose by the records."""
    try:
        return pandas.Series(records)
    except Exception:  # of the records
        return pandas.Series(objects(records), dtype=object)


def modelled(where: str, regression: bool = False, **options: Any):
    """A private model of the records as numbers, as categories, where other text is no missing value, or as labels."""

    def enter(records):
        features, labels, weights = np.full((len(records), 2), 0.5, object), [0.0] * len(records), None
        if where == "labels":
            labels = records
        elif where == "weights":
            weights = list(records)
        elif where == "a frame":
            features = pandas.DataFrame({0: as_read(records), 1: 0.5})
        else:
            features[:, int(where == "categories")] = objects(records)
        columns, targets = {0: space.real(0, 1), 1: [0.25, 0.5]}, (0, 1)
        if "private_range" in options:
            columns[0] = targets = "private"
        if regression:
            model = PrivateRegressor(columns, target_range=targets, **MODEL, **options).fit(features, labels, weights)
        else:
            model = PrivateClassifier(columns, classes=(0, 0.25, 0.5), **MODEL, **options)
            model.fit(features, labels, weights)
        measured = [getattr(model, name, None) for name in ("error_", "error_interval_", "confusion_", "target_range_")]
        return [layer._asdict() for layer in model.model_], measured, _seen_of(model, PUBLIC_ROWS)

    return enter


PUBLIC_ROWS = np.array([[0.25, 0.5], [0.5, 0.25]])


def _seen_of(model: Any, public_rows: np.ndarray) -> tuple[Any, ...]:
    """All that a fitted private model shows: itself as pickled, its texts, its record, and answers for public rows."""
    record = model.report_.to_dict()
    for changing in ("created", "fingerprint of the release", "notes"):  # a time, and what follows from the release
        record.pop(changing)
    found = ("encoding_", "target_range_") if model.private_range is not None else ()
    for released in ("error_", "error_interval_", "constant_error_", "constant_deviation_", "confusion_", *found):
        record["details"].pop(released, None)
    answers = [getattr(model, name)(public_rows) for name in ("predict", "predict_proba") if hasattr(model, name)]
    if not hasattr(model, "classes_"):  # accuracies take no fractions as labels
        answers.append(model.score(public_rows, [0.25, 0.5]))
    said = told(model.notes_)
    model.notes_ = tuple(said[0])
    return Pickled(model), repr(model), said, str(model.guarantee_), record, answers


class Pickled:
    """Reaches the pickle alone: not a number, and always of one text."""

    def __init__(self, value: Any):
        self.value = value

    def __repr__(self) -> str:
        return f"{type(self.value).__name__}({sorted(vars(self.value))})"


class OfLabels(Trivial):
    """A row's loss is its label."""

    def losses(self, model, rows):
        return np.asarray(rows[1]) * model


def _labels(records):
    return np.zeros((len(records), 1)), objects(records)


TUNED = {"epsilon": 3.0, "delta": 1e-3}


def tuned(records):
    given = tuning.tune_and_train(OfLabels(), _labels(records), [0.25, 0.5], mean=2.0, **TUNED, **SEEDED)
    return given.setting, given.guarantees


def reached(records):
    options = {"error": 0.3, "epsilons": (1.0, 3.0), "delta": 1e-3, "mean": 2.0}
    found = tuning.least_epsilon(OfLabels(), _labels(records), [0.25, 0.5], **options, **SEEDED)
    return found.setting, told(found.notes), found.guarantees


def fronted(records):
    found = tuning.private_front(OfLabels(), _labels(records), [0.25, 0.5, 0.75], count=3, **TUNED, **SEEDED)
    return found.settings, found.errors, found.guarantees


def selected(records):
    def run(setting, key):  # the last setting always gives a model: a release without one is an exception
        return setting, 1e9 if setting == 3 else records[setting % len(records)]

    found = tuning.private_selection(
        run, [0, 1, 2, 3], mean=20.0, eta=3.0, costs={"them": stage.gaussian_stage(0.5)}, delta=1e-3, **SEEDED
    )
    return found.setting, found.guarantees


def write_csv(folder, header, rows):
    """A CSV file; a record that is no bytes is written as a number."""
    path = Path(folder) / "table.csv"
    lines = [b",".join(cell if isinstance(cell, bytes) else repr(cell).encode() for cell in row) for row in rows]
    path.write_bytes(b"\n".join([header, *lines]) + b"\n")
    return path


def curated_csv(records):
    with tempfile.TemporaryDirectory() as folder:
        path = write_csv(folder, b"a,b", [(record, 0.5) for record in records])
        arguments = Namespace(table=path, inputs="a,b", output="b", lengthscales=None, function=None)
        with contextlib.redirect_stdout(None):  # curator.log, which is as secret as the data
            held = curator.read_table(arguments)
    found = transforms.curate(SEEDED["key"], CURATED["product_laplace"], held.inputs, insecure_key=True)
    return np.asarray(found.z), found.guarantee


def tuned_csv(of_labels: bool):
    """The records are cells of protected rows."""

    def enter(records):
        train, protected = tune.halves(24)
        rows = [[float(value), value > 0] for value in np.random.default_rng(0).normal(size=24)]
        for place, record in zip(protected, records, strict=False):
            rows[place][of_labels] = record
        with tempfile.TemporaryDirectory() as folder:
            inputs, targets = tune.read(write_csv(folder, b"a,b", rows), "b")
        pipeline, targets = tune.prepare(LogisticRegression(), inputs, targets, train)
        found = PrivateSearchCV(
            pipeline, {"model__C": space.real(0.1, 1.0)}, cv=[(train, protected)],
            **group_options(mu=1.0, n_iter=2, method="in_order", **SEEDED),
        ).fit(inputs, targets)  # fmt: skip
        return found.best_params_, found.guarantee_

    return enter


LOOP = "drivers.loop.run_loop", "drivers.loop.loop_prepared"
SCAN = "drivers.scan.run_scan", "drivers.scan.scan_prepared", "drivers.result.to_arrays"
OBJECTIVE = ("drivers.private_objective.PrivateObjective",)
CLASSIFIER = ("integrations.sklearn.private_models.PrivateClassifier.fit",)
REGRESSOR = ("integrations.sklearn.private_models.PrivateRegressor.fit",)
POINTS: dict[str, Point] = {
    "run_loop, losses in a list": Point(looped(given_back), LOOP),
    "run_loop, losses in an array of objects": Point(looped(given_back_as_objects), LOOP),
    "run_loop, a table": Point(in_table, LOOP),
    "run_loop, a table with a bar": Point(on_a_terminal(FakeBar, in_table), LOOP, counts=(6,)),
    "run_loop, a table with lines": Point(on_a_terminal(None, in_table), LOOP, counts=(6,)),
    "minimize, Python, with a bar": Point(
        on_a_terminal(tqdm_of_counts, minimized(in_numpy)), ("drivers.minimization.minimize",), counts=(6,)
    ),
    "PrivateObjective, a table with a bar": Point(on_a_terminal(FakeBar, evaluated_in_table), OBJECTIVE, counts=(6,)),
    "a run's identity": Point(identified, ("drivers.recorded_run.make_subject",)),
    "run_scan, data": Point(scanned(squares), SCAN),
    "run_scan, a checkpoint": Point(with_checkpoint, (
        "drivers.checkpoint.begin_checkpoint", "drivers.checkpoint.finish",
    )),
    "run_scan, per_user": Point(scanned(per_user(of_one)), ("separable.objectives.PerUser",)),
    "minimize, traced": Point(minimized(squares), ("drivers.minimization.minimize",)),
    "minimize, user_axes": Point(
        minimized(squares, user_axes=0),
        ("drivers.separability.prepare_objective", "separable.objectives.CheckedObjective")
    ),
    "minimize, Python": Point(minimized(in_numpy), ("drivers.minimization.minimize",)),
    "minimize, untouched": Point(minimized(given_back, list, traceable=False), ("drivers.minimization.minimize",)),
    "sweep": Point(swept, ("drivers.seed_sweep.sweep",)),
    "PrivateObjective, losses in a list": Point(evaluated(given_back, list), OBJECTIVE),
    "PrivateObjective, user_axes": Point(
        evaluated(squares, objects, user_axes=0), (*OBJECTIVE, "drivers.separability.expect_separable")
    ),
    "Silo": Point(in_silo(lambda opened: first_column), ("silos.silo.Silo",)),
    "Silo, a loss that fails": Point(in_silo(failing_once_open), ("silos.silo.Silo",)),
    "private_study": Point(
        studied, ("integrations.optuna.study.private_study", "integrations.optuna.study.PrivateStudy")
    ),
    "by_person": Point(of_persons, ("separable.by_person.ByPerson",)),
    "blocks": Point(in_blocks, ("separable.blocks.Blocks",), counts=(6,)),
    "curate, a list of rows": Point(
        curated("product_laplace", lambda records: [[record, 0.5] for record in records]),
        ("transforms.curation.curate",),
    ),
    "curate, an array of objects": Point(
        curated("planar_laplace", with_halves), ("transforms.curation.curate",)
    ),
    "curate, a record as a row": Point(
        curated("product_laplace", lambda records: [[0.5, 0.5], *records]),
        ("transforms.curation.curate",), numbers=False,
    ),
    "PrivateSearchCV, features": Point(
        searched(False), ("integrations.sklearn.search.PrivateSearchCV.fit",), numbers=False
    ),
    "PrivateSearchCV, labels": Point(
        searched(True), ("integrations.sklearn.search.PrivateSearchCV.fit",), numbers=False
    ),
    "PrivateSearchCV, targets": Point(
        searched(True, Ridge(), loss_range=(0, 1)), ("integrations.sklearn.search.PrivateSearchCV.fit",), numbers=False
    ),
    "PrivateSearchCV, all rows": Point(
        searched_in_blocks, ("integrations.sklearn.search.PrivateSearchCV.fit",), counts=(9,), numbers=False
    ),
    "PrivateClassifier, features": Point(modelled("features"), CLASSIFIER, counts=(10,), dates=False),
    "PrivateClassifier, categories": Point(modelled("categories"), CLASSIFIER, counts=(10,), numbers=False),
    "PrivateClassifier, a frame with dtypes by its cells": Point(
        modelled("a frame"), CLASSIFIER, counts=(10,), dates=False
    ),
    "PrivateClassifier, labels": Point(modelled("labels"), CLASSIFIER, counts=(10,), dates=False),
    "PrivateClassifier, weights": Point(modelled("weights"), CLASSIFIER, counts=(10,), dates=False),
    "PrivateClassifier, ranges of features": Point(
        modelled("features", private_range=0.1), CLASSIFIER, counts=(10,), dates=False
    ),
    "PrivateRegressor, ranges of targets": Point(
        modelled("labels", True, private_range=0.1), REGRESSOR, counts=(10,), dates=False
    ),
    "PrivateClassifier, settings": Point(
        modelled("features", settings=ONE_SETTING), CLASSIFIER, counts=(10,), dates=False
    ),
    "PrivateRegressor, features": Point(modelled("features", True), REGRESSOR, counts=(10,), dates=False),
    "PrivateRegressor, targets": Point(modelled("labels", True), REGRESSOR, counts=(10,), dates=False),
    "tune_and_train": Point(tuned, ("tuning.joint_tuning.tune_and_train",), counts=(10,)),
    "least_epsilon": Point(reached, ("tuning.least_epsilon_search.least_epsilon",), counts=(10,)),
    "private_front": Point(fronted, ("tuning.front.private_front",), counts=(10,)),
    "private_selection": Point(selected, ("tuning.selection.private_selection",), numbers=False),
}  # fmt: skip

# The records are cells of a CSV file
CSV_POINTS: dict[str, Point] = {
    "curator": Point(curated_csv, ()),
    "tune, inputs": Point(tuned_csv(False), (), counts=(6,), numbers=False),
    "tune, targets": Point(tuned_csv(True), (), counts=(6,), numbers=False),
}

# Parameters that hold users' values, in whatever form.
PRIVATE = {"data", "losses", "inputs", "X", "y", "targets", "rows", "validation", "run", "numbers", "features"}
# Why a public function with such a parameter has no case, by module.
WITHOUT: dict[str, dict[str, str]] = {
    "inside of a run that has a case": {
        "commands.tune": "halves prepare",
        "drivers.sharding": "share_keys expect_one_process find_mesh place_users",
        "drivers.compiled_run": "pure_run run_steps map_points",
        "drivers.evaluation": "ArrayUsers",
        "drivers.users": "make_users",
        "noise.wide_integers": "from_int64",
        "drivers.seed_sweep": "distribute",
        "integrations.sklearn.fitting": "blocks_objective expect_one_kind take_rows validation_task",
        "integrations.sklearn.losses": "to_column elements expect record_losses beside",
        "integrations.sklearn.layered_training": (
            "LayeredDPSGD LayeredDPSGD.expect LayeredDPSGD.fit LayeredDPSGD.losses"
        ),
        "tuning.joint_tuning": "tune_table",
        "tuning.private_steps": "train train_by_steps",
        "tuning.private_ranges": "count find",
        "separable.blocks": "blocks cut number_owners usual_count",
        "separable.by_person": "ByPerson.replace_objective",
        "separable.separability_check": "Separable",
        "separable.data_axes": "find_axes expect_one_role expect_apart",
        "transforms.curation": "project",
        "tuning.training": "DPSGD.expect DPSGD.fit DPSGD.losses Training.expect Training.fit Training.losses",
        "tuning.other_trainings": "finite_examples expect_rows try_one_step",
        "tuning.opacus": "DPSGD.expect DPSGD.fit DPSGD.losses",
        "tuning.jax_privacy": "DPSGD.expect DPSGD.fit DPSGD.losses",
        "tuning.diffprivlib": "LogisticRegression.expect LogisticRegression.fit LogisticRegression.losses",
    },
    "pure functions of JAX arrays, whose dtypes and shapes are public": {
        "noise.choice": "relative_losses choose_row sum_losses",
        "noise.clipping": "weighted_clipped_sum",
        "noise.private_mean": "clip_losses noisy_mean_loss sum_clipped_losses",
        "noise.private_scale": "count_differences largest_differences median",
        "surrogate.preprocessing": "finite_mean_loss",
        "training.models": "accuracy examples losses passes model_scores",
        "training.permutation_sgd": "train_by_permutation",
        "problems._kernel_svr": "kernel_svr_loss",
    },
    "odd values are in tests/test_people.py": {"tables.people": "to_persons"},
    "no users' values: shapes, counts, names, public rows, or released numbers": {
        "tables.table": "notes",
        "integrations.optuna.rehearsal": "rehearse",
        "algorithms.dp_gp_ucb.previews": "preview_release",
        "algorithms.private_linear": "Config config total_variation",
        "tuning.measured_error": "interval",
        "tuning.private_steps": "make_plan plan_rows",
        "commands.tables": "print_table",
        "drivers.execution": "is_set refuse_options",
        "drivers.loop": "refuse_on_table",
        "separable.replaced_rows": "mixes_rows",
        "logs": "charged waits",
        "notes": "few_public_rows few_rows from_ledger resumed",
        "accounting.noise_shares": "share_total_variation",
        "silos.agreement": "Agreement agree",
        "report.ledger_records": "charge_rows",
        "integrations.sklearn.splits": "single_split",
        "outsourcing.protocol": "parse_answer",
        "accounting.stage": "selection_stage",
        "ledger.fingerprints": "checksum",
        "noise.keys": "key_from_bytes",
        "ledger.ledger_file": "charge expect_charge find_charge note store_release",
        "problems._kernel_svr": "kernel_svr_bounds",
        "surrogate.gp": "extend jitter mask_rows stage_index write",
        "surrogate.kernels": "constant matern32 matern52 polynomial rbf",
        "surrogate.noisy_inputs": "make_kernel named_cells number_rows product_rbf noisy_rbf",
        "training.models": "linear_svm logistic_regression mlp regression",
    },
    "for whoever holds the records: what they say is not released": {
        "audit": "replay",
        "testing.algorithm_check": "check_algorithm",
        "testing.protocol_checks": "make_subject",
        "drivers.owner_check": "check",
        "not_private": "make_check count_losses count_narrowed",
        "tables.people": "count_left_out",
        "transforms.curation": "check",
        "separable.separability_check": "check_separable",
        "separable.separability_audit": "audit_separable",
        "integrations.sklearn.private_models": (
            "PrivateClassifier.predict PrivateClassifier.predict_proba PrivateClassifier.decision_function "
            "PrivateClassifier.score "
            "PrivateRegressor.predict PrivateRegressor.score PrivateClassifier.check PrivateRegressor.check"
        ),
        "commands.demo": "run_evaluations run_gibo run_seed describe_privacy publication run_random_search",
    },
}


HELPERS = {
    "checks",
    "files",
    "namespace",
    "silence",
    "user_values",
    "accounting.grid",
    "tuning.fitting",
}


def entry_points() -> set[str]:
    """All public functions and methods that take users' values, by the names of their parameters."""
    found = set()
    for info in pkgutil.walk_packages(jaxdpbo.__path__, "jaxdpbo."):
        if info.name.removeprefix("jaxdpbo.") in HELPERS:
            continue
        module = importlib.import_module(info.name)
        for name, value in vars(module).items():
            if name.startswith("_") or not callable(value) or getattr(value, "__module__", None) != module.__name__:
                continue
            for label, function in _functions_of(name, value):
                if PRIVATE & set(_parameters_of(function)):
                    found.add(f"{module.__name__.removeprefix('jaxdpbo.')}.{label}")
    return found


def _functions_of(name: str, value: Any) -> list[tuple[str, Any]]:
    if not inspect.isclass(value):
        return [(name, value)]
    if issubclass(value, tuple):
        return []
    methods = [(f"{name}.{label}", method) for label, method in vars(value).items() if callable(method)]
    own = [(name, value.__init__)] if "__init__" in vars(value) else []
    return own + [(label, method) for label, method in methods if not label.split(".")[1].startswith("_")]


def _parameters_of(function: Any) -> list[str]:
    try:
        return list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return []
