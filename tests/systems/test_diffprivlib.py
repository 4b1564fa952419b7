"""Trainings of diffprivlib, in an environment with the scikit-learn that it needs; and its own claim, attacked."""

import environments

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


def test_its_trainings_pass_beside_its_own_scikit_learn(tmp_path):
    python = environments.create(tmp_path / "venv", f"{environments.ROOT}[diffprivlib,test]")
    printed = environments.run_tests(
        python, "tests/test_other_trainings.py", "-kdiffprivlib", **environments.unoptimised(python), JAX_ENABLE_X64="1"
    )
    assert "skipped" not in printed, printed
    environments.run(python, "-c", ATTACK, cwd=tmp_path)
