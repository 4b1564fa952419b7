"""``scripts/bench private_tables``: private models of many tables beside those of others and models without privacy.

Every model has the same rows, ranges and categories, and nobody tunes any of them. A fifth of the rows is for tests,
and the score is the accuracy, or R2. ``JAXDPBO_BEFORE=CHECKOUT`` adds the estimators of an older checkout of the
library. ``JAXDPBO_OTHERS=JSON`` takes all scores but ours from an earlier result on the same splits and features. A
file in results/bench/private_tables keeps each table for the same commit: a run that was stopped goes on.
"""

import importlib.util
import json
import math
import os
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

os.environ.setdefault("JAX_ENABLE_X64", "0")  # as users run

import jax
import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from tqdm import tqdm

from benchmarks import report
from benchmarks.papers import mixed_tables, package_tables
from benchmarks.search import earlier
from jaxdpbo.integrations.sklearn import PrivateClassifier, PrivateRegressor, columns
from jaxdpbo.space import Categorical

FIRST_SEED, SEEDS = 9900, 10
EPSILONS = (0.5, 1.0, 2.0, 4.0)
BESIDE = 1.0  # the epsilon of the others
QUANTILE = 1.96  # of an interval of 95 %
MIXED = "adult", "loans", "houses", "covertype", "ridership", "digits"
TABLES = *MIXED, *package_tables.NAMES
OURS, BEFORE, EBM, DIFFPRIVLIB = "ours", "before", "DP-EBM", "diffprivlib"
OPACUS, OPACUS_TUNED = "Opacus", "Opacus, best rate"  # the best on the test rows, of which no choice is charged
REPLACED, REPLACED_TUNED = "Opacus, rows replaced", "Opacus, rows replaced, best rate"  # with the relation of ours
LINEAR, BOOSTING = "scikit-learn, linear", "scikit-learn, boosting"
FEW_ROWS = 10_000  # for a second budget of Opacus: of all tables it takes an hour
OTHERS = BEFORE, EBM, DIFFPRIVLIB, OPACUS, OPACUS_TUNED, REPLACED, REPLACED_TUNED, LINEAR, BOOSTING
BEFORE_WORKER = """
import json, pickle, sys
import jax
import jaxdpbo
from jaxdpbo import space
from jaxdpbo.integrations.sklearn import PrivateClassifier, PrivateRegressor
task = pickle.load(open(sys.argv[1], "rb"))
columns = {
    name: of if isinstance(of, list) else space.real(*of[:2], log=of[2]) for name, of in task["columns"].items()
}
scores = []
for seed, train, test in task["splits"]:
    options = {"epsilon": task["epsilon"], "delta": task["delta"]}
    key = {"key": jax.random.key(seed), "insecure_key": True}
    options |= {"run": jaxdpbo.Execution(**key)} if hasattr(jaxdpbo, "Execution") else key
    if task["classes"]:
        model = PrivateClassifier(columns, classes=task["classes"], **options)
    else:
        model = PrivateRegressor(columns, target_range=task["range"], **options)
    model.fit(task["frame"].iloc[train], task["labels"][train])
    scores.append([float(model.score(task["frame"].iloc[test], task["labels"][test])), float(model.error_)])
print(json.dumps(scores))
"""
EBM_WORKER = """
import json, pickle, sys, warnings
import numpy as np
from interpret.privacy import DPExplainableBoostingClassifier, DPExplainableBoostingRegressor
warnings.simplefilter("ignore")
task = pickle.load(open(sys.argv[1], "rb"))
frame, scores = task["frame"].copy(), []
types = ["nominal" if isinstance(of, list) else "continuous" for of in task["columns"].values()]
bounds = {}
for place, (name, of) in enumerate(task["columns"].items()):
    if isinstance(of, list):
        frame[name] = ["missing" if value is None or value != value else str(value) for value in frame[name]]
    else:
        bounds[place] = tuple(of[:2])
        frame[name] = frame[name].astype(float).clip(*of[:2]).fillna(sum(of[:2]) / 2)
options = {"epsilon": task["epsilon"], "delta": task["delta"], "feature_types": types, "privacy_bounds": bounds}
for seed, train, test in task["splits"]:
    if task["classes"]:
        model = DPExplainableBoostingClassifier(random_state=seed, n_jobs=1, **options)
    else:
        low, high = task["range"]
        model = DPExplainableBoostingRegressor(
            random_state=seed, n_jobs=1, privacy_target_min=low, privacy_target_max=high, **options
        )
    labels = task["labels"] if task["classes"] else np.clip(task["labels"], *task["range"])
    model.fit(frame.iloc[train].to_numpy(object), labels[train])
    scores.append([float(model.score(frame.iloc[test].to_numpy(object), labels[test])), None])
print(json.dumps(scores))
"""
DIFFPRIVLIB_WORKER = """
import json, pickle, sys, warnings
from diffprivlib import models
warnings.simplefilter("ignore")
task, scores = pickle.load(open(sys.argv[1], "rb")), []
rows, labels = task["features"], task["labels"]
for seed, train, test in task["splits"]:
    if task["classes"]:
        model = models.LogisticRegression(
            epsilon=task["epsilon"], data_norm=1.0, max_iter=1000, random_state=seed
        )
    else:
        model = models.LinearRegression(
            epsilon=task["epsilon"], bounds_X=(-1.0, 1.0), bounds_y=task["range"], random_state=seed
        )
    model.fit(rows[train], labels[train])
    scores.append([float(model.score(rows[test], labels[test])), None])
print(json.dumps(scores))
"""
OPACUS_WORKER = """
import json, pickle, sys, warnings
import numpy as np, torch
from opacus import PrivacyEngine
warnings.simplefilter("ignore")
torch.set_num_threads(1)
task = pickle.load(open(sys.argv[1], "rb"))
features, classes = torch.tensor(np.asarray(task["features"], np.float32)), task["classes"]
if classes:
    targets, loss = torch.tensor([list(classes).index(label) for label in task["labels"]]), torch.nn.CrossEntropyLoss()
else:
    low, high = task["range"]
    scaled = (np.clip(task["labels"], low, high) - low) / (high - low) * 2 - 1
    targets, loss = torch.tensor(np.asarray(scaled[:, None], np.float32)), torch.nn.MSELoss()
scores = []
for seed, train, test in task["splits"]:
    of_rates = []
    for rate in (0.5, 2.0, 8.0) if classes else (0.1, 0.02, 0.5):  # the first is the usual one
        torch.manual_seed(seed)
        model = torch.nn.Linear(features.shape[1], len(classes) if classes else 1)
        rows = torch.utils.data.TensorDataset(features[train], targets[train])
        private, optimizer, loader = PrivacyEngine(accountant="prv").make_private_with_epsilon(
            module=model, optimizer=torch.optim.SGD(model.parameters(), lr=rate),
            data_loader=torch.utils.data.DataLoader(rows, batch_size=min(256, max(len(train) // 8, 1))),
            target_epsilon=task["epsilon"], target_delta=task["delta"], epochs=20, max_grad_norm=1.0,
        )
        for _ in range(20):
            for inputs, wanted in loader:
                optimizer.zero_grad()
                loss(private(inputs), wanted).backward()
                optimizer.step()
        with torch.no_grad():
            predicted = model(features[test])
        if classes:
            score = float((predicted.argmax(1) == targets[test]).float().mean())
        else:
            truth = np.asarray(task["labels"])[test]
            found = (predicted[:, 0].numpy() + 1) / 2 * (high - low) + low
            score = float(1 - np.mean((found - truth) ** 2) / np.var(truth))
        of_rates.append(score)
    scores.append(of_rates)
print(json.dumps(scores))
"""
PEERS = {
    OPACUS: ("opacus>=1.5", "pandas", "pyarrow"),
    EBM: ("interpret-core>=0.7", "pandas", "pyarrow"),
    DIFFPRIVLIB: ("diffprivlib>=0.6.6", "scikit-learn>=1.6,<1.8", "pandas", "pyarrow"),
}


def main(quick: bool, *, seeds: int | None = None) -> None:
    most = seeds or (1 if quick else SEEDS)
    numbers = range(FIRST_SEED, FIRST_SEED + most)
    before = earlier.load(numbers)
    names = ("OJ", "diabetes") if quick else TABLES
    results = {name: _kept(name, numbers, before) for name in tqdm(names, desc="tables")}
    rows = []
    for name, found in results.items():
        means = {model: f"{np.mean(scores):.3f}" for model, scores in found["scores"].items()}
        rows.append(
            (
                name,
                *(means.get(model, "") for model in (*map(_ours, EPSILONS), *OTHERS)),
            )
        )
    report.print_table(("table", *(f"at {epsilon:g}" for epsilon in EPSILONS), *OTHERS), rows)
    held = [inside for found in results.values() for inside in found["held"]]
    print(f"error_interval_ held the error on new rows in {np.mean(held):.1%} of {len(held)} fits")
    report.write_bench(
        "private_tables",
        {
            "tables": results,
            "held": float(np.mean(held)),
            "fits": len(held),
            "others": None if before is None else before.origin,
        },
        quick=quick,
        seeds=[numbers.start, numbers.stop],
        noise="exact",
        dtype="float32",
        chosen={"epsilons": EPSILONS, "delta": "rows^-1.1", "epsilon of the others": BESIDE},
    )


def _ours(epsilon: float) -> str:
    return f"{OURS}, {epsilon:g}"


def _kept(name: str, seeds: range, before: earlier.Earlier | None) -> dict[str, Any]:
    """What an earlier process measured of this table, or measure it."""
    others = Path(os.environ.get("JAXDPBO_BEFORE", "none")).name if before is None else before.origin["commit"][:8]
    path = report.folder("bench", "private_tables") / f"{name}-{seeds.start}-{seeds.stop}-{others}.json"
    scores = None if before is None else before.found["tables"][name]["scores"]
    return report.keep(path, lambda: _of_table(name, seeds, scores))


def _of_table(name: str, seeds: Iterable[int], others: dict[str, list[float]] | None) -> dict[str, Any]:
    table = (mixed_tables if name in MIXED else package_tables).load(name)
    rows = len(table.labels)
    delta = rows**-1.1
    splits = [(seed, *_split(rows, seed)) for seed in seeds]
    scores: dict[str, list[float]] = {}
    held, seconds, offsets = [], [], []
    for epsilon in EPSILONS:
        for seed, train, test in splits:
            score, model, took = _fit(table, epsilon, delta, seed, train, test)
            scores.setdefault(_ours(epsilon), []).append(score)
            holds, offset = compare_error(model, _losses(table, model, test), len(train) // 5)
            held.append(holds)
            offsets.append(offset)
            seconds.append(took)
    scores |= _of_others(table, splits, delta) if others is None else {k: v for k, v in others.items() if OURS not in k}
    return {
        "rows": rows, "classes": len(table.classes or ()), "scores": scores, "held": held, "offsets": offsets,
        "seconds": {"first": seconds[0], "later, median": float(np.median(seconds[1:]))},
    }  # fmt: skip


def _of_others(table: Any, splits: Any, delta: float) -> dict[str, list[float]]:
    task, scores = _task(table, splits, delta), {}
    for peer, worker in ((EBM, EBM_WORKER), (DIFFPRIVLIB, DIFFPRIVLIB_WORKER)):
        if peer == EBM and len(table.classes or ()) > 2:  # it has no private form for more classes
            continue
        scores[peer] = [score for score, _ in ask(_python(peer), worker, task)]
    scores |= of_opacus(task, OPACUS, OPACUS_TUNED)
    if len(table.labels) < FEW_ROWS:
        scores |= of_opacus(count_replaced(task), REPLACED, REPLACED_TUNED)
    if before := os.environ.get("JAXDPBO_BEFORE"):
        found = ask(sys.executable, BEFORE_WORKER, task, PYTHONPATH=before)
        scores[BEFORE] = [score for score, _ in found]
    for linear, model in ((LINEAR, True), (BOOSTING, False)):
        scores[linear] = [_without_privacy(table, task["features"], train, test, model) for _, train, test in splits]
    return scores


def of_opacus(task: dict[str, Any], usual: str, tuned: str) -> dict[str, list[float]]:
    """Scores at the usual learning rate, and at the best."""
    of_rates = np.array(ask(_python(OPACUS), OPACUS_WORKER, task))  # a row a split, a column a rate
    return {usual: of_rates[:, 0].tolist(), tuned: of_rates[:, np.argmax(of_rates.mean(axis=0))].tolist()}


def count_replaced(task: dict[str, Any]) -> dict[str, Any]:
    """The same task at the budget for added or removed rows that is the task's for replaced ones, as ours are counted.

    To replace a row is to remove one and to add one: twice ``(e, d)`` is ``(2 e, (1 + exp(e)) d)``.
    """
    epsilon = task["epsilon"] / 2
    return task | {"epsilon": epsilon, "delta": task["delta"] / (1 + math.exp(epsilon))}


def _split(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    order = np.random.default_rng(seed).permutation(rows)
    cut = rows // 5
    return order[cut:], order[:cut]


def _fit(table: Any, epsilon: float, delta: float, seed: int, train: np.ndarray, test: np.ndarray) -> Any:
    options: Any = {"epsilon": epsilon, "delta": delta, "key": jax.random.key(seed), "insecure_key": True}
    if table.classes:
        model: Any = PrivateClassifier(table.columns, classes=table.classes, **options)
    else:
        model = PrivateRegressor(table.columns, target_range=table.target_range, **options)
    began = time.perf_counter()
    model.fit(*table.part(train))
    took = time.perf_counter() - began
    return model.score(*table.part(test)), model, took


def _losses(table: Any, model: Any, test: np.ndarray) -> np.ndarray:
    """Of each test row, in the units of ``error_``."""
    frame, labels = table.part(test)
    predicted = np.asarray(model.predict(frame))
    if table.classes:
        return (predicted != np.asarray(labels)).astype(float)
    low, high = table.target_range
    return np.square((predicted - np.clip(labels, low, high)) / (high - low))


def compare_error(model: Any, losses: np.ndarray, held_out: int) -> tuple[bool, float]:
    """Whether ``error_interval_`` holds the error on new rows, and the offset of ``error_`` in standard deviations.

    The test rows are a draw too: each end of the interval moves outwards as their deviation adds to its own, and the
    offset is one in deviations of the noise, of the rows held out and of the test rows together.
    """
    true, of_test = float(np.mean(losses)), float(np.var(losses)) / len(losses)
    low, high = (end - model.error_ for end in model.error_interval_)
    offset, reach = model.error_ - true, QUANTILE * math.sqrt(of_test)
    deviation = math.sqrt(model.error_deviation_**2 + of_test * (1 + len(losses) / held_out))
    return -math.hypot(high, reach) <= offset <= math.hypot(low, reach), offset / deviation


def _task(table: Any, splits: Any, delta: float) -> dict[str, Any]:
    """What a worker needs, without this library's types."""
    names = list(table.frame.columns)
    encoding = columns.make_encoding(table.columns, names)
    encoded = columns.encode(encoding, [np.asarray(table.frame[name]) for name in names])
    kept = [names[position] for position in encoding.positions]
    plain = {
        name: list(of.choices) if isinstance(of, Categorical) else (float(of.low), float(of.high), of.log)
        for name, of in zip(kept, encoding.dimensions, strict=True)
    }
    return {
        "frame": table.frame[kept], "labels": np.asarray(table.labels), "columns": plain, "classes": table.classes,
        "range": table.target_range, "splits": splits, "epsilon": BESIDE, "delta": delta,
        "features": columns.unit_features(encoding, encoded),
    }  # fmt: skip


def _without_privacy(table: Any, features: np.ndarray, train: np.ndarray, test: np.ndarray, linear: bool) -> float:
    if table.classes:
        solver = "newton-cholesky" if len(table.classes) == 2 else "lbfgs"  # the second takes minutes of two classes
        model: Any = HistGradientBoostingClassifier()
        if linear:
            model = LogisticRegression(C=100.0, max_iter=200, solver=solver)
    else:
        model = Ridge(1e-3) if linear else HistGradientBoostingRegressor()
    return float(model.fit(features[train], table.labels[train]).score(features[test], table.labels[test]))


def _python(peer: str) -> str:
    """In an environment of its own: each needs releases of its own. Opacus, which needs a large torch, may be here."""
    if peer == OPACUS and importlib.util.find_spec("opacus"):
        return sys.executable
    venv = report.ROOT / ".cache" / f"{peer.lower()} of tables"
    python = str(venv / "bin" / "python")
    if not Path(python).exists():
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *PEERS[peer]], check=True)
    return python


def ask(python: str, worker: str, task: dict[str, Any], **environment: str) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "task.pickle"
        path.write_bytes(pickle.dumps(task, protocol=4))
        given = os.environ | environment
        # -P: a package of the current folder, such as this checkout's jaxdpbo, comes before PYTHONPATH otherwise.
        command = [python, "-P", "-c", worker, str(path)]
        done = subprocess.run(command, capture_output=True, text=True, env=given, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return json.loads(done.stdout.splitlines()[-1])
