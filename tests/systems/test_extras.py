"""Each extra alone, newest of all, as a user installs it, and what its page shows first."""

import shutil
from pathlib import Path

import environments
import page_blocks
import pytest

ROOT = Path(__file__).parent.parent.parent
ENGINES, SKLEARN = "tutorials/engines", ("tutorials/sklearn", "PrivateSearchCV")
PAGES = {  # extra -> its page, and a word of the first block about it
    "beam": (ENGINES, "tables.beam"), "dask": (ENGINES, "tables.dask"), "demo": SKLEARN,
    "diffprivlib": ("tutorials/libraries", "diffprivlib"), "jax-privacy": ("tutorials/libraries", "jax_privacy"),
    "optuna": ("tutorials/optuna", "private_study"), "plotting": ("start", "plotting"), "ray": (ENGINES, "tables.ray"),
    "registry": ("budget", "registry("), "silos": ("tutorials/silos", "silos."), "sklearn": SKLEARN,
    "spark": (ENGINES, "tables.spark"), "table": ("tutorials/tables", "parquet"),
}  # fmt: skip
EXAMPLES = {extra: page_blocks.first_block(*place) for extra, place in PAGES.items()} | {
    "accounting": "from jaxdpbo import accounting; print(accounting.dp_event(0.5, steps=4))",
    "docs": page_blocks.all_imports(),
    "flower": "from jaxdpbo.integrations import flower; print(flower.client_app, flower.run_on_grid)",
    "sql": """
import tempfile, psycopg
from jaxdpbo import ledger
path = f"sqlite:///{tempfile.mkdtemp()}/budget.db"
ledger.create(path, mu=2)
assert ledger.account(path).left.cost == 4
try:
    ledger.account("postgresql://nobody@127.0.0.1:1/nowhere?connect_timeout=1")
except ledger.LedgerError as error:
    assert "the server cannot be reached" in str(error), error
""",
    "progress": """
import jax.numpy as jnp
from jaxdpbo import Search, minimize
loss = lambda point, rows: jnp.abs(rows - point[0])
minimize(loss, jnp.ones(100), space=[(0, 1)], mu=1.0, loss_range=(0, 1), search=Search(steps=2), progress=True)
""",
}
EXAMPLES["diffprivlib"] += """
features = np.random.default_rng(0).normal(size=(2000, 3))
training = diffprivlib.LogisticRegression(classes=(0, 1), norm=3.0)
tuned = tuning.tune_and_train(training, (features, features[:, 0] > 0), [{"C": 1.0}], epsilon=4.0, delta=1e-5)
assert tuned.model is not None
assert tuned.error < 0.3, tuned.error
"""
ELSEWHERE = {
    "bench": "peers of hundreds of megabytes, which `scripts/bench` installs",
    "dev": "`scripts/test` installs it",
    "opacus": "tests/systems/test_opacus.py installs it: PyTorch once",
    "test": "tests/systems/test_versions.py installs it",
}


def test_every_extra_has_an_example():
    assert environments.EXTRAS.keys() == EXAMPLES.keys() | ELSEWHERE.keys()


@pytest.mark.parametrize("extra", sorted(EXAMPLES))
def test_a_user_of_an_extra_runs_what_its_page_shows(extra, tmp_path):
    if extra == "spark" and shutil.which("java") is None:
        pytest.skip("Spark needs Java")
    newest = environments.newest_interpreter()
    python = environments.create(tmp_path / "venv", f"{ROOT}[{extra}]", python=newest)
    environments.run(python, "-c", EXAMPLES[extra], cwd=tmp_path, **environments.unoptimised(python))
    shutil.rmtree(tmp_path / "venv")  # some take gigabytes
