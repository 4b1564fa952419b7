"""Optuna's dashboard, in a browser, shows the noised values of a private study and no others."""

import importlib.util
from pathlib import Path

import numpy as np
import optuna
import pytest

from jaxdpbo.integrations.optuna import private_study

SOURCE = Path(__file__).parent.parent / "docs" / "screenshots.py"


@pytest.fixture(scope="module")
def screenshots():
    pytest.importorskip("optuna_dashboard")
    spec = importlib.util.spec_from_file_location("screenshots", SOURCE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if module.browser() is None:
        pytest.skip("no Chromium")
    return module


def test_the_dashboard_shows_noised_values_alone(screenshots):
    storage = optuna.storages.InMemoryStorage()
    study = optuna.create_study(storage=storage, study_name="private", sampler=optuna.samplers.RandomSampler(0))
    records = np.linspace(0.2, 0.4, 500)
    private_study(
        study,
        lambda trial: {"x": trial.suggest_float("x", 0, 1)},
        lambda params, data: np.square(data - params["x"]),
        records,
        users=500,
        evaluations=3,
        loss_range=(0, 1),
        mu=1.0,
    ).optimize()
    with screenshots.dashboard(storage) as address:
        page = screenshots.shown(f"{address}/dashboard/studies/0/trials?numbers=0,1,2", "--dump-dom")
        stored = screenshots.shown(f"{address}/api/studies/0", "--dump-dom")
    for trial in study.trials:
        truth = float(np.mean(np.square(records - trial.params["x"])))
        assert repr(trial.value)[:6] in page
        assert repr(trial.value) in stored
        for shown in (page, stored):
            assert repr(truth)[:8] not in shown
