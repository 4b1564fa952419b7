"""The page "Enough users?": its table is what ``preview`` says, and a browser shows the table's numbers."""

import html
import importlib.util
import itertools
import json
import re

import numpy as np
import pytest

from benchmarks import report
from benchmarks.search import enough_users

DOCS = report.ROOT / "docs"
TABLE = json.loads((DOCS / "results" / "bench_enough_users.json").read_text())
SETTINGS = [*itertools.product(*TABLE["axes"].values())]
SAMPLE = np.random.default_rng(0).choice(len(SETTINGS), 12, replace=False).tolist()
AXES = {
    "space": list(enough_users.SPACES),
    "epsilon": list(enough_users.EPSILONS),
    "delta": list(enough_users.DELTAS),
    "evaluations": list(enough_users.EVALUATIONS),
    "users": list(enough_users.USERS),
}


def load(name):
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def cell_of(**values):
    """The cell of a setting by the names of its fields."""
    at = SETTINGS.index(tuple(values[name] for name in TABLE["axes"]))
    return dict(zip(TABLE["fields"], TABLE["cells"][at].split(enough_users.SEPARATOR), strict=True))


def test_every_setting_of_the_form_has_a_cell():
    assert TABLE["axes"] == AXES
    assert TABLE["fields"] == list(enough_users.FIELDS)
    assert len(TABLE["cells"]) == len(SETTINGS)
    for cell, (_, _, delta, _, users) in zip(TABLE["cells"], SETTINGS, strict=True):
        assert bool(cell) == (delta * users < 1)


@pytest.mark.parametrize("number", SAMPLE)
def test_the_table_is_what_preview_says(number, float32):
    assert TABLE["cells"][number] == enough_users.cell(*SETTINGS[number])


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """What a browser shows of the form at a setting, as text."""
    screenshots = load("screenshots")
    if screenshots.browser() is None:
        pytest.skip("no Chromium")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", "")
        form = load("conf").enough_users()
    script = f'<script src="{(DOCS / "_static" / "enough_users.js").as_uri()}">'
    page = tmp_path_factory.mktemp("site") / "page.html"
    form = form.replace('<script src="_static/enough_users.js">', script)
    page.write_text(f'<section id="enough-users">{form}</section>')  # Sphinx names the section by its title

    def dump(**values):
        address = "&".join(f"{name}={value}" for name, value in values.items()).replace(" ", "%20")
        found = screenshots.shown(f"{page.as_uri()}#{address}", "--dump-dom")
        (answer,) = re.findall(r'<ul class="answer".*?</ul>', found, re.DOTALL)
        return html.unescape(re.sub(r"<[^>]*>", " ", answer))

    return dump


@pytest.mark.parametrize(
    ("space", "epsilon", "delta", "evaluations", "users", "verdict"),
    [
        ("5 numbers", 1, 1e-5, 100, 5000, "Enough users"),
        ("20 numbers", 0.1, 1e-7, 500, 1000, "Too few users"),
        ("integers or categories among them", 0.25, 1e-5, 50, 500, "Borderline"),
        ("1 or 2 numbers", 0.1, 1e-5, 50, 200, "Too few users.*Few users"),
    ],
)
def test_a_browser_shows_the_numbers_of_preview(shown, space, epsilon, delta, evaluations, users, verdict):
    values = {"space": space, "epsilon": float(epsilon), "delta": delta, "evaluations": evaluations, "users": users}
    cell = cell_of(**values)
    text = shown(space=space, epsilon=epsilon, delta=delta, evaluations=evaluations, users=users)
    assert re.search(verdict, text)
    assert f'minimize runs "{cell["method"]}" with {cell["evaluations"]} evaluations.' in text
    assert f"below {cell['limit, %']} % of the loss range" in text
    assert f"at most {cell['detections in 20']} times in 20" in text
    noise = [cell["loss noise, %"]] + [cell["step noise"]] * bool(cell["step noise"])
    assert all(f" {number} " in text for number in noise)


def test_an_address_with_odd_values_shows_the_usual_setting(shown):
    assert shown(users=4000, epsilon="1.0", delta="1e-05", colour="red") == shown()
    assert "at most 2.719 times" in shown(epsilon="1.00", space="1 or 2 numbers")


def test_a_delta_too_large_for_the_users_is_refused(shown):
    assert "delta must be below one over the number of users" in shown(delta=1e-5, users=1_000_000)
