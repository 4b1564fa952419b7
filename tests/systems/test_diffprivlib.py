"""Trainings of diffprivlib, in an environment with the scikit-learn that it needs; and its own claim, attacked."""

import os
import subprocess
from pathlib import Path

import environments
from compilation import UNOPTIMISED

ROOT = Path(__file__).parent.parent.parent
ATTACK = """
import warnings
import numpy as np
from diffprivlib import models
from scipy import stats

warnings.simplefilter("ignore")
NORM, C, EPSILON, TRIALS, WIDTH = 100.0, 1e-3, 0.5, 4000, 0.02

def density(longest, seed):
    # Near zero, of two rows: one of zeros, and one of zeros or of the largest norm.
    features, rng, found = np.array([[0.0], [longest]]), np.random.RandomState(seed), 0
    for _ in range(TRIALS):
        made = models.LogisticRegression(
            epsilon=EPSILON, data_norm=NORM, C=C, fit_intercept=False, tol=1e-9, max_iter=1000, random_state=rng
        ).fit(features, np.array([0, 1]))
        found += abs(made.coef_[0, 0]) < WIDTH
    return found

often, seldom = density(NORM, 0), density(0.0, 1)
least = stats.beta.ppf(0.01, often, TRIALS - often + 1)
most = stats.beta.ppf(0.99, seldom + 1, TRIALS - seldom)
print(often, seldom, np.log(least / most))
assert np.log(least / most) > EPSILON, "the claim of diffprivlib held"
"""

TUNE = """
import numpy as np
from jaxdpbo import tuning
from jaxdpbo.tuning import diffprivlib

features = np.random.default_rng(0).normal(size=(2000, 3))
training = diffprivlib.LogisticRegression(classes=(0, 1), norm=3.0)
tuned = tuning.tune_and_train(training, (features, features[:, 0] > 0), [{"C": 1.0}], epsilon=4.0, delta=1e-5)
assert tuned.model is not None
assert tuned.error < 0.3, tuned.error
"""


def test_a_user_of_the_extra_trains_a_model_with_the_newest_of_all(tmp_path):
    """On the newest stated Python of this machine: older ones hold back what breaks."""
    newest = [python for python in map(environments.interpreter, environments.PYTHONS) if python][-1]
    dropped = "PYTHONPATH", "PYTHONHOME", "JAX_ENABLE_X64"
    variables = {name: value for name, value in os.environ.items() if name not in dropped}
    python = environments.create(tmp_path / "venv", f"{ROOT}[diffprivlib]", python=newest, variables=variables)
    done = subprocess.run([python, "-c", TUNE], cwd=tmp_path, capture_output=True, text=True, env=variables)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]


def test_its_trainings_pass_beside_its_own_scikit_learn(tmp_path):
    environment = os.environ | UNOPTIMISED
    python = environments.create(tmp_path / "venv", f"{ROOT}[test,diffprivlib]")
    tests = [
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "--tb=short",
        "tests/test_other_trainings.py",
        "-k",
        "diffprivlib",
    ]
    for command in ([python, *tests], [python, "-c", ATTACK]):
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
        assert "skipped" not in done.stdout, done.stdout
