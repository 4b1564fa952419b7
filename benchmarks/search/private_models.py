"""``scripts/bench private_models``: test errors of ``PrivateClassifier`` on Adult, beside other libraries, in minutes.

Every library has the same features and the same (epsilon, delta). "Tuned" settings of another library are the best of a
list by the errors on the test rows. This search costs no budget here; no guarantee covers the search.
``JAXDPBO_OTHERS=JSON`` takes all errors but ours from an earlier result.
"""

import itertools
import json
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

os.environ.setdefault("JAX_ENABLE_X64", "0")  # as users run

import jax
import numpy as np
import torch
from opacus import PrivacyEngine
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from tqdm import tqdm

from benchmarks import report
from benchmarks.papers import mixed_tables
from benchmarks.search import earlier
from jaxdpbo.integrations.sklearn import PrivateClassifier, columns

FIRST_SEED, SEEDS = 9800, 10
EPSILON, DELTA = 2.0, 1e-5
USUAL = {"learning_rate": 0.1, "batch": 256, "epochs": 10, "clip_norm": 1.0}
TUNED = [
    USUAL | {"learning_rate": rate, "batch": batch} for rate, batch in itertools.product((0.1, 0.5, 2.0), (256, 1024))
]
CS = (1.0, 0.001, 0.01, 0.1, 10.0)  # the default of diffprivlib is the first
OURS, LINEAR, BOOSTING = "PrivateClassifier", "scikit-learn, logistic regression", "scikit-learn, boosting"
OPACUS, DIFFPRIVLIB = "Opacus", "diffprivlib"
WORKER = """
import json, sys, warnings
import numpy as np
from diffprivlib import models
warnings.simplefilter("ignore")
data = np.load(sys.argv[1])
epsilon, norm, cs, seeds = json.loads(sys.argv[2])
errors_by_c = {}
for C in cs:
    errors_by_c[C] = []
    for seed in range(*seeds):
        model = models.LogisticRegression(epsilon=epsilon, data_norm=norm, C=C, max_iter=1000, random_state=seed)
        model.fit(data["train"], data["train_labels"])
        errors_by_c[C].append(float(np.mean(model.predict(data["test"]) != data["test_labels"])))
print(json.dumps([[C, errors] for C, errors in errors_by_c.items()]))
"""


def main(quick: bool, *, seeds: int | None = None) -> None:
    most = seeds or (1 if quick else SEEDS)
    numbers = range(FIRST_SEED, FIRST_SEED + most)
    before = earlier.load(numbers)
    train, test = mixed_tables.load("adult"), mixed_tables.load("adult_test")
    ours = [_our_error(train, test, seed) for seed in tqdm(numbers, desc=OURS)]
    if before is None:
        errors, chosen = _others(train, test, numbers, quick)
    else:
        errors, chosen = before.found["errors"], before.found["settings"]["chosen here"]
    errors |= {OURS: ours}
    means = {name: float(np.mean(values)) for name, values in errors.items()}
    report.print_table(("model", "mean test error"), [(name, f"{mean:.4f}") for name, mean in means.items()])
    results = {"errors": errors, "mean": means, "rows": len(train.labels)}
    report.write_bench(
        "private_models",
        results | {"others": None if before is None else before.origin},
        quick=quick,
        seeds=[numbers.start, numbers.stop],
        noise="exact",
        dtype="float32",
        chosen=chosen,
    )


def _others(
    train: mixed_tables.Table, test: mixed_tables.Table, numbers: range, quick: bool
) -> tuple[dict[str, list[float]], dict[str, Any]]:
    """Errors of the other libraries, and all settings."""
    data, norm = _features(train, test)
    errors = {LINEAR: [_linear_error(train, test)], BOOSTING: [_boosting_error(data)]}
    tuned = TUNED[:2] if quick else TUNED
    by_setting = [[_opacus(data, setting, seed) for seed in numbers] for setting in tqdm([USUAL, *tuned], desc=OPACUS)]
    errors[f"{OPACUS}, default"], (errors[f"{OPACUS}, tuned"], best) = by_setting[0], _pick_best(by_setting[1:], tuned)
    by_c = _diffprivlib(data, norm, (numbers.start, numbers.stop), CS[:2] if quick else CS)
    errors[f"{DIFFPRIVLIB}, default"] = by_c[0]
    errors[f"{DIFFPRIVLIB}, tuned"], best_c = _pick_best(by_c, CS)
    return errors, {
        "epsilon": EPSILON, "delta": DELTA, f"{OPACUS}, default": USUAL, f"{OPACUS}, tuned": best,
        f"{DIFFPRIVLIB}, tuned": {"C": best_c},
    }  # fmt: skip


def _pick_best(errors: list[list[float]], settings: Any) -> tuple[list[float], Any]:
    number = min(range(len(errors)), key=lambda number: float(np.mean(errors[number])))
    return errors[number], settings[number]


def _features(train: mixed_tables.Table, test: mixed_tables.Table) -> tuple[dict[str, np.ndarray], float]:
    """The features of ``PrivateClassifier`` for every library, and the largest norm of a row, which is public."""
    arrays = {}
    encoding = columns.make_encoding(train.columns, list(train.frame.columns))
    for name, table in (("train", train), ("test", test)):
        arrays[name] = columns.encode(encoding, [np.asarray(table.frame[column]) for column in train.frame])
        arrays[f"{name}_labels"] = (table.labels == table.classes[1]).astype(int)
    return arrays, math.sqrt(encoding.squared_norm - 1)  # less the constant, which is no feature


def _our_error(train: mixed_tables.Table, test: mixed_tables.Table, seed: int) -> float:
    execution = {"key": jax.random.key(seed), "insecure_key": True}
    model = PrivateClassifier(train.columns, classes=train.classes, epsilon=EPSILON, delta=DELTA, **execution)
    model.fit(train.frame, train.labels)
    return 1 - model.score(test.frame, test.labels)


def _linear_error(train: mixed_tables.Table, test: mixed_tables.Table) -> float:
    """Without privacy, by the usual pipeline."""
    numbers = list(train.frame.select_dtypes("number"))
    text = [name for name in train.frame if name not in numbers]
    encoder = make_column_transformer(
        (make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore")), text),
        (StandardScaler(), numbers),
    )
    model = make_pipeline(encoder, LogisticRegression(max_iter=1000)).fit(train.frame, train.labels)
    return 1 - float(model.score(test.frame, test.labels))


def _boosting_error(data: dict[str, np.ndarray]) -> float:
    """Without privacy."""
    model = HistGradientBoostingClassifier(random_state=0).fit(data["train"], data["train_labels"])
    return 1 - float(model.score(data["test"], data["test_labels"]))


def _opacus(data: dict[str, np.ndarray], setting: dict[str, float], seed: int) -> float:
    """Logistic regression by DP-SGD, noise for (epsilon, delta) by adding or removing a row, as Opacus counts."""
    torch.manual_seed(seed)
    features, labels = torch.tensor(data["train"]), torch.tensor(data["train_labels"])
    model = torch.nn.Linear(features.shape[1], 2)
    optimiser = torch.optim.SGD(model.parameters(), lr=setting["learning_rate"])
    loader = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(features, labels), batch_size=int(setting["batch"]), shuffle=True
    )
    epochs = int(setting["epochs"])
    model, optimiser, loader = PrivacyEngine().make_private_with_epsilon(
        module=model, optimizer=optimiser, data_loader=loader, target_epsilon=EPSILON, target_delta=DELTA,
        epochs=epochs, max_grad_norm=setting["clip_norm"],
    )  # fmt: skip
    for _ in range(epochs):
        for inputs, targets in loader:
            optimiser.zero_grad()
            torch.nn.functional.cross_entropy(model(inputs), targets).backward()
            optimiser.step()
    with torch.no_grad():
        predicted = model(torch.tensor(data["test"])).argmax(dim=1).numpy()
    return float(np.mean(predicted != data["test_labels"]))


def _diffprivlib(data: dict[str, np.ndarray], norm: float, seeds: Any, cs: Any) -> list[list[float]]:
    """In an environment of its own: it needs an older scikit-learn."""
    venv = report.ROOT / ".cache" / "diffprivlib"
    python = str(venv / "bin" / "python")
    if not Path(python).exists():
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
        install = [python, "-m", "pip", "install", "--quiet", "diffprivlib>=0.6.6", "scikit-learn>=1.6,<1.8"]
        subprocess.run(install, check=True)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npz"
        np.savez(path, **data)
        arguments = json.dumps([EPSILON, norm, list(cs), seeds])
        done = subprocess.run([python, "-c", WORKER, str(path), arguments], capture_output=True, text=True, check=True)
    return [errors for _, errors in json.loads(done.stdout)]
