"""The record of a release: what it says is what the guarantee says, and nothing of a row stands in it."""

import base64
import dataclasses
import getpass
import html
import html.parser
import json
import math
import re
import socket
import sys
from fractions import Fraction
from pathlib import Path

import jax
import jax.numpy as jnp
import jsonschema
import neighbour_cases
import numpy as np
import optuna
import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st
from oracles import odds
from sklearn.dummy import DummyClassifier

import jaxdpbo
from jaxdpbo import Recording, Search, dp_gibo, ledger, report, silos, space, tuning
from jaxdpbo.commands import main
from jaxdpbo.guarantee import assumptions as _assumptions
from jaxdpbo.guarantee import guarantees
from jaxdpbo.integrations.optuna import private_study
from jaxdpbo.integrations.sklearn import PrivateClassifier, PrivateRegressor, PrivateSearchCV
from jaxdpbo.report import checkers, drawings, ledger_records, page
from jaxdpbo.report import odds as _odds

RATES = np.linspace(0, 1, 11)
SCHEMA = Path(__file__).parent.parent.parent / "shared" / "data" / "registry" / "deployments-schema.yaml"
ENTRY = {
    "name": "Flu model", "data_curators": ["A hospital"], "intended_use": "research", "data_product_region": "EU",
    "publication_date": "2026-11-26", "registry_authors": ["A. Person"],
}  # fmt: skip
GDP = guarantees.guarantee(
    "gdp", 0.5, "replace_one", "voters; NOT the dead", assumptions=(_assumptions.SEPARABLE_LOSSES,)
)
PURE = guarantees.guarantee("dp", 1.0, "replace_one", "voters")
APPROXIMATE = guarantees.guarantee("dp", 1.0, "replace_one", "voters", delta=1e-3)
PAID = guarantees.guarantee("ex_post_dp", 0.5, "replace_one", "voters", delta=1e-6, largest=2.0)


def absolute(point, data):
    return jnp.abs(data - point[0])


# -- Numbers ----------------------------------------------------------------------------------------------------------


def test_detections_are_those_of_the_definition():
    np.testing.assert_allclose(_odds.detection_rates(GDP, RATES), odds.gaussian_detections(0.5, RATES), atol=1e-9)
    for stated, epsilon, delta in ((PURE, 1.0, 0.0), (APPROXIMATE, 1.0, 1e-3), (PAID, 2.0, 1e-6)):
        expected = [odds.region_detections(epsilon, delta, rate) for rate in RATES]
        np.testing.assert_allclose(_odds.detection_rates(stated, RATES), expected, atol=2e-4)


def test_detections_use_both_levels_and_the_total_variation():
    both = GDP.to_dp(1e-3)
    apart = [odds.region_detections(both.level, both.delta, rate) for rate in RATES]
    assert np.all(_odds.detection_rates(both, RATES) <= np.array(apart) + 2e-4)
    assert np.any(_odds.detection_rates(both, RATES) < np.array(apart) - 1e-3)
    moved = guarantees.guarantee("gdp", 0.5, "replace_one", "voters", total_variation=0.01)
    expected = np.minimum(odds.gaussian_detections(0.5, np.minimum(RATES + 0.01, 1)) + 0.01, 1)
    np.testing.assert_allclose(_odds.detection_rates(moved, RATES), expected, atol=1e-9)


@pytest.mark.parametrize("mu", [0.1, 0.5, 1.0])
@pytest.mark.parametrize("size", [2, 4])
def test_a_groups_bound_is_never_below_the_exact_one(mu, size):
    """Of the Gaussian mechanism stated in three ways: by its level, by its stages, and by one pair."""
    stated = guarantees.guarantee("gdp", mu, "replace_one", "voters")
    exact = odds.gaussian_group_epsilon(mu, size, 1e-5)
    assert _odds.group_bound(stated, size, 1e-5) == (pytest.approx(exact, rel=1e-6), 1e-5)
    in_stages = guarantees.guarantee("gdp", mu, "replace_one", "voters", stages=[("a", "gaussian", mu)]).to_dp(1e-5)
    epsilon, delta = _odds.group_bound(in_stages, size, 1e-5)
    assert (epsilon, delta) == (pytest.approx(exact, rel=1e-3), 1e-5)
    epsilon, delta = _odds.group_bound(stated.to_dp(1e-9), size, 1e-9)
    assert delta == 1.0 or epsilon >= odds.gaussian_group_epsilon(mu, size, delta)


def test_groups_of_pure_and_approximate_dp():
    assert _odds.group_bound(PURE, 4, 0.0) == (4.0, 0.0)
    assert _odds.group_bound(APPROXIMATE, 1, 1e-3) == (1.0, 1e-3)
    assert _odds.group_bound(APPROXIMATE, 2, 1e-3) == (2.0, pytest.approx(1e-3 * (1 + math.e)))
    assert _odds.group_bound(APPROXIMATE, 4, 0.5) == (math.inf, 1.0)
    assert _odds.group_bound(PAID, 2, 1e-6) == (4.0, pytest.approx(1e-6 * (1 + math.exp(2))))


def test_the_sentence_rounds_up():
    made = report.report("a search", (GDP,))
    assert [row[2] for row in made.to_dict()["guarantees"][0]["groups"]] == ["1e-05"] * 3
    (odd,) = report.report(
        "a search", (guarantees.guarantee("dp", 1.0, "replace_one", "voters", delta=1.234561e-3),)
    ).to_dict()["guarantees"]
    assert odd["groups"][0][2] == "0.00123457"
    (sentence,) = made.sentences
    times = float(sentence.split("at most ")[1].split()[0])
    exact = 20 * odds.gaussian_detections(0.5, 0.05)
    assert exact <= times < exact * 1.001
    assert "among voters at most" in sentence


def test_every_known_assumption_has_a_checker():
    assert set(checkers.CHECKERS) == set(_assumptions.SECTIONS.values())
    assert checkers.checker("my own assumption") == "the author of this assumption"


# -- The page ---------------------------------------------------------------------------------------------------------


class Page(html.parser.HTMLParser):
    """The text, the open tags, and the attributes that could load something."""

    def __init__(self):
        super().__init__()
        self.open, self.links, self.text = [], [], []

    def handle_starttag(self, tag, attrs):
        self.links += [name for name, _ in attrs if name in ("src", "href", "onload", "onclick")] + ["script"] * (
            tag == "script"
        )
        if tag not in ("meta", "line", "rect", "polyline"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def read(made):
    parsed = Page()
    parsed.feed(made.html())
    assert not parsed.open
    assert not parsed.links
    return " ".join(parsed.text)


def test_the_page_says_who_is_protected_and_who_is_not():
    made = report.report("a <script>alert(1)</script> search", (GDP, PURE), details={"<b>": "&"})
    text = read(made)
    assert "NOT protected: the dead." in text
    assert "epsilon = 2.255" not in text  # at the usual delta
    assert "epsilon = 1.000 at delta = 0" in text or "epsilon = 1 at delta = 0" in text
    assert _assumptions.SEPARABLE_LOSSES in text
    assert "the author of the loss" in text
    assert "4 users, such as a household" in text
    assert "a <script>alert(1)</script> search" in text
    assert "<b>" in text
    for sentence in made.sentences:
        assert sentence in text


def test_a_guarantee_without_an_epsilon_stands_in_words():
    text = read(report.report("a transform", (guarantees.no_guarantee("rows", "the theorem is false"),)))
    assert "no privacy guarantee for rows: the theorem is false" in text


def test_saving_writes_the_page_and_its_twin(tmp_path):
    made = report.report("a search", (GDP,), release={"x": np.ones(3)}).save(tmp_path / "record.html")
    assert (tmp_path / "record.html").read_text() == made.html()
    twin = json.loads((tmp_path / "record.json").read_text())
    assert {name: twin[name] for name in twin if name != page.DIGEST} == json.loads(json.dumps(made.to_dict()))
    made.save(tmp_path / "record.html")  # a record may take the place of a record
    with pytest.raises(ValueError, match=r"path must end in \.html"):
        made.save(tmp_path / "record.pdf")
    book = tmp_path / "budget.json"
    ledger.create(book, mu=2)
    for page_path, other in ((tmp_path / "budget.html", book), (tmp_path / "list.html", tmp_path / "list.json")):
        other.write_text("[]") if other != book else None
        before = other.read_bytes()
        with pytest.raises(FileExistsError, match="is no record"):
            made.save(page_path)
        assert other.read_bytes() == before
        assert not page_path.exists()
    with pytest.raises(TypeError, match="guarantees must be one or more"):
        report.report("a search", ())
    with pytest.raises(ValueError, match="title must be one printable line"):
        report.report("", (GDP,))


def test_each_sheet_bears_the_hash_of_the_record(tmp_path):
    made = report.report('a "search"; } body { display: none', (GDP,), details={"error": 0.123456789}).save(
        tmp_path / "record.html"
    )
    twin = json.loads((tmp_path / "record.json").read_text())
    assert twin[page.DIGEST] == made.digest == report.hash_record(twin)
    sheets = made.html().split("<style>")[1].split("</style>")[0]
    assert f'@bottom-left {{ content: "SHA\\2d 256 of this record\\3a  {made.digest}"' in sheets
    assert "display: none" not in sheets  # no sign of a title ends its string
    assert f"SHA-256 of this record: {made.digest}" in read(made).split("Approval")[1]
    assert "0.123457" in read(made)
    changed = json.loads(json.dumps(twin).replace("0.123457", "0.123458"))
    assert report.hash_record(changed) != made.digest


def test_the_page_draws_what_a_model_predicts():
    columns = {
        "<age>": ((18.0, 30.5, 90.0), {"probability of b": (0.25, 0.5, 1.0), "probability of c": (0.75, 0.5, 0.0)}),
        "region": (("north & south", "x" * 40, None), {"probability of b": (0.0, 0.5, 1.0)}),
    }
    drawn = tuple(drawings.Dependence(name, *each) for name, each in columns.items())
    made = dataclasses.replace(report.report("a fit", (GDP,)), dependences=drawn)
    text, shown = read(made), made.html().split('<div class="many">')[1]
    assert "What the model predicts along each column" in text
    assert "from no row" in text
    for words in ("<age>", "18", "30.5", "90", "north & south", "x" * 13 + "\u2026", "missing", "probability of c"):
        assert words in text
    lines = re.findall(r'<polyline points="([^"]*)"', shown)
    heights = [[float(pair.split(",")[1]) for pair in line.split()] for line in lines]
    top, bottom = 16, 16 + drawings.HEIGHT
    assert heights == [[bottom - 20, bottom - 40, top], [top + 20, top + 40, bottom]]
    across = [float(x) for x in re.findall(r'<circle cx="([\d.]*)"', shown)]
    assert across == [84, 128, 172]
    regression = drawings.Dependence("a", (0.0, 1.0), {"prediction": (-3.0, 7.123456)})
    assert "7.123" in read(dataclasses.replace(made, dependences=(regression,)))
    flat = drawings.Dependence("a", (0.0, 1.0), {"prediction": (2.0, 2.0)})
    assert "nan" not in dataclasses.replace(made, dependences=(flat,)).html().split('<div class="many">')[1]
    assert json.loads(json.dumps(made.to_dict()))["dependences"] == made.to_dict()["dependences"]
    assert "What the model predicts" not in read(report.report("a fit", (GDP,)))


def test_each_attribute_of_a_record_has_a_meaning_on_the_page():
    kinds = PrivateClassifier, PrivateRegressor, PrivateSearchCV
    named = {name for kind in kinds for name in kind._described}
    assert named | {"plan", "users", page.RELEASED} == page.MEANINGS.keys()
    assert page.MEANINGS["error_"] in read(report.report("a fit", (GDP,), details={"error_": 0.25}))


def test_a_record_cites_its_plan_and_says_where_it_differs(tmp_path):
    terms = {"users": 400, "range": (0.0, 1.0)}
    signed = report.plan("a search", (GDP,), details=terms).save(tmp_path / "plan.html")
    assert "A plan: nothing was charged yet" in read(signed)
    assert "Privacy plan: a search" in read(signed)
    as_planned = report.report("a search", (GDP,), details=terms | {"answer": 3})
    for plan in (signed, tmp_path / "plan.json", json.loads((tmp_path / "plan.json").read_text())):
        cited = as_planned.against(plan).details
        assert (cited["plan"], cited["differs from the plan"]) == (signed.digest, "in nothing")
    other = report.report("a search", (PURE,), details=terms | {"users": 300}).against(signed).details
    assert other["differs from the plan"].startswith("guarantee: planned ")
    assert other["differs from the plan"].endswith("users: planned 400, got 300")
    forbidding = report.plan("a fit", (GDP,), details=terms | {"weight": "none", "rows": 7})
    weighted = report.report("another fit", (GDP,), details=terms | {"weight": 2}).against(forbidding).details
    said = "title: planned a fit, got another fit; weight: planned none, got 2; rows: planned 7, got none"
    assert weighted["differs from the plan"] == said
    (tmp_path / "plan.json").write_text((tmp_path / "plan.json").read_text().replace("400", "300"))
    with pytest.raises(ValueError, match="its SHA-256 is not that of its content"):
        as_planned.against(tmp_path / "plan.json")
    for other in (as_planned, {"planned": True}):
        with pytest.raises(ValueError, match="signed must be a plan"):
            as_planned.against(other)


def test_a_bare_cell_of_a_notebook_shows_words():
    prediction = jaxdpbo.preview(users=500, space=[(0, 1)], epsilon=1.0, delta=1e-5, loss_range=(0, 1))
    for shown in (GDP, prediction):
        text = shown._repr_html_()
        assert text.startswith("<pre ")
        assert html.unescape(re.sub("<[^>]*>", "", text)) == str(shown)
    odd = dataclasses.replace(GDP, protects="<script>")
    assert "<script>" not in odd._repr_html_()


def test_the_fingerprint_follows_the_release_alone():
    def of(release):
        return report.report("a search", (GDP,), release=release).fingerprint

    assert of({"x": np.ones(3)}) == of({"x": jnp.ones(3, float)}) != of({"x": np.ones(4)})
    assert of({"x": 1.0}) != of({"y": 1.0})
    assert of(("a", "bc")) != of(("ab", "c"))
    assert of(object()) == "" == of(None)


# -- Whole runs -------------------------------------------------------------------------------------------------------

SECRET = 31_415.9265
DIFFERS = "differs from the plan"


def losses(point, data):
    return jnp.abs(data / SECRET - point[0])


def test_a_runs_record_holds_nothing_raw(tmp_path):
    run = jaxdpbo.minimize(losses, np.full(400, SECRET), space=[(0, 2)], mu=1, search=Search(steps=2), diagnostics=True)
    assert run.diagnostics is not None
    made = run.report(tmp_path / "record.html")
    for text in (made.html(), json.dumps(made.to_dict()), run._repr_html_(), (tmp_path / "record.json").read_text()):
        assert "31415" not in text
        assert "diagnostics" not in text
    assert made.guarantees == (run.guarantee,)
    assert made.details["method"] == run.method
    assert len(made.fingerprint) == 64


def studied():
    return jaxdpbo.minimize(losses, np.full(400, SECRET), space=[(0, 2)], epsilon=1, delta=1e-5, search=Search(steps=2))


def searched():
    X, y = np.linspace(0, 1, 60).reshape(-1, 1), np.arange(60) % 2
    found = PrivateSearchCV(
        DummyClassifier(), {"strategy": ["prior", "most_frequent"]}, epsilon=1, delta=1e-5, n_iter=2,
        search=Search(method="in_order"),
    )  # fmt: skip
    return found.fit(X, y).report_


SETTING = {"learning_rate": 1.0, "batch": 32, "epochs": 1, "clip_norm": 1.0}
TRAINED = {"epsilon": 5.0, "delta": 1e-3}


def modelled():
    model = PrivateClassifier(space.real(0, 1), classes=(0, 1), settings=[SETTING | {"hidden": ()}], **TRAINED)
    return model.fit(np.linspace(0, 1, 40).reshape(-1, 1), np.arange(40) % 2).report_


def tuned():
    training = tuning.DPSGD(jaxdpbo.training.logistic_regression(1), classes=(0, 1))
    rows = np.linspace(0, 1, 40).reshape(-1, 1), np.arange(40) % 2
    return tuning.tune_and_train(training, rows, [SETTING], **TRAINED).report()


def noised():
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    private = private_study(
        optuna.create_study(),
        lambda trial: {"x": trial.suggest_float("x", 0, 1)},
        lambda params, ages: np.abs(ages - params["x"]),
        np.linspace(0, 1, 40),
        users=40,
        evaluations=2,
        loss_range=(0, 1),
        epsilon=5.0,
        delta=1e-3,
    )
    private.optimize()
    return private.report()


def among_silos(names="ABC"):
    cards = [silos.Member(name, 100, base64.b64encode(name.encode() * 32).decode()) for name in names]
    config = dp_gibo.config(users=100 * len(names), steps=5, mu=1.0, bounds=[(0, 6)] * 3, clip_norm=1.0, memory="none")
    agreement = silos.agree("march", dp_gibo.algorithm, config, silos.make_roster(cards))
    return silos.SiloRun(np.zeros(3), agreement.guarantees, 5, agreement).report()


def among_two():
    """Against the other silo the masks protect nobody, so the guarantee does not assume them."""
    return among_silos("AB")


@pytest.mark.parametrize(
    "make", [lambda: studied().report(), searched, modelled, tuned, noised, among_silos, among_two]
)
def test_entries_of_a_registry_fit_its_schema(make):
    if not SCHEMA.exists():
        pytest.skip("needs the schema of the registry")
    made = make()
    entry = yaml.safe_load(made.registry(**ENTRY))
    jsonschema.validate(entry, yaml.safe_load(SCHEMA.read_text()))
    assert entry["deployment"]["deployment_model"]["model_name"] == (
        "Federated" if make in (among_silos, among_two) else "Central"
    )
    parameters = entry["deployment"]["privacy_loss"]["privacy_parameters"]
    assert isinstance(parameters["delta"], float)
    assert parameters["epsilon"] >= max(stated.epsilon(parameters["delta"]) for stated in made.guarantees)
    read(made)


def test_an_entry_lacks_and_adds_nothing():
    made = report.report("a search", (GDP,))
    with pytest.raises(ValueError, match="registry_authors must be given"):
        made.registry(**{name: value for name, value in ENTRY.items() if name != "registry_authors"})
    with pytest.raises(ValueError, match="colour must be among"):
        made.registry(**ENTRY, colour="red")
    entry = yaml.safe_load(made.registry(**ENTRY, release_type="Many releases", data_product_type="Statistics"))
    assert entry["deployment"]["deployment_model"]["release_type"] == "Many releases"
    assert entry["deployment"]["basic"]["data_product_type"] == "Statistics"
    with pytest.raises(TypeError, match="data_curators must be a list of text"):
        made.registry(**ENTRY | {"data_curators": "a hospital"})
    with pytest.raises(ValueError, match="guarantees must include one with an epsilon"):
        report.report("a transform", (guarantees.no_guarantee("rows", "none"),)).registry(**ENTRY)


ODD = st.sampled_from(
    ["\x7f", "\x85", "\x9f", "\u2028", "\ufeff", "\ufffe", "\U0001f600", "\n", "\t", "\0", "'", '"', ":", "#", " "]
)
WORDS = st.sampled_from(["yes", "1e5", "0o7", "~", "null", "2026-11-26", "<<", "1:30", ""])


@given(st.one_of(WORDS, st.text(st.one_of(ODD, st.characters(codec="utf-8")))))
@example("a: b # c\n'd' \"e\" \u00e9\U0001f600 - [f] {g} yes 1e5")
def test_text_of_an_entry_is_read_as_it_was(odd):
    written = report.report("a search", (PURE,)).registry(**ENTRY | {"intended_use": odd, "registry_authors": [odd]})
    assert written.isascii()
    entry = yaml.safe_load(written)["deployment"]
    assert entry["basic"]["intended_use"] == odd
    assert entry["administrative"]["registry_authors"] == [odd]
    assert entry["dp_variant"]["variant_name"] == "Pure DP"
    quoted = [line for line in written.splitlines() if '"intended_use": ' in line]
    assert len(quoted) == 1
    assert quoted[0].split(": ", 1)[1].startswith('"')  # text for readers of every version


def test_an_entry_states_the_reservation_of_an_ex_post_release():
    cheap = guarantees.guarantee("ex_post_dp", 0.5, "replace_one", "voters", delta=1e-6, largest=8.0)
    dearer = guarantees.guarantee("dp", 1.0, "replace_one", "others", delta=1e-6)
    made = report.report("a model", (cheap, dearer))
    loss = yaml.safe_load(made.registry(**ENTRY))["deployment"]["privacy_loss"]
    assert loss["privacy_unit"] == "voters"
    assert loss["privacy_parameters"] == {"epsilon": 8.0, "delta": 1e-6}
    assert loss["privacy_parameters_details"].startswith("The epsilon is the most that a release could cost")
    assert "Before the release was known: 8.000." in read(made)


def test_an_entry_says_that_other_records_proposed_the_candidates():
    for assumptions, proposed in (((), False), ((_assumptions.PUBLIC_RECORDS,), True)):
        stated = guarantees.guarantee("gdp", 0.5, "replace_one", "voters", assumptions=assumptions)
        entry = yaml.safe_load(report.report("a search", (stated,)).registry(**ENTRY))["deployment"]
        tuning_before = entry["implementation"]["preprocessing_and_hyperparameter_tuning"]
        assert ("proposed with other records, which are not protected" in tuning_before) == proposed


def released_again(path):
    """The release of a run that the ledger paid for before."""
    options = {"space": [(0, 1)], "users": 300, "mu": 0.5, "loss_range": (0, 1), "ledger": Recording(path, "march")}
    jaxdpbo.minimize(absolute, np.linspace(0, 1, 300), **options)
    return jaxdpbo.minimize(absolute, np.linspace(0, 1, 300), **options).report()


def searched_again(path):
    X, y = np.linspace(0, 1, 60).reshape(-1, 1), np.arange(60) % 2
    found = PrivateSearchCV(
        DummyClassifier(), {"strategy": ["prior", "most_frequent"]}, mu=0.5, n_iter=2,
        search=Search(method="in_order"), ledger=Recording(path, "april"),
    )  # fmt: skip
    return found.fit(X, y).fit(X, y).report_


def adopted(path):
    """A copy of a ledger that is older than its mark."""
    ledger.charge(path, "may", "a mean", ledger.Spend((ledger.Event("gdp", 0.1),), "replace_one", guarantees.USERS))
    copy = path.with_name("copy.jsonl")
    copy.write_bytes(path.read_bytes())
    ledger.adopt(copy)
    early = copy.read_bytes()
    ledger.charge(copy, "june", "a mean", ledger.Spend((ledger.Event("gdp", 0.1),), "replace_one", guarantees.USERS))
    copy.write_bytes(early)
    return report.ledger_report(copy)


def of_two_ledgers(path):
    """Each detail has the name of its ledger before it."""
    other = path.with_name("wards.jsonl")
    ledger.create(other, mu=2)
    adopted(path)
    return report.ledger_report([path, other])


@pytest.mark.parametrize("make", [released_again, searched_again, adopted, of_two_ledgers])
def test_the_page_names_the_account_that_charged_and_an_entry_does_not(make, tmp_path, monkeypatch):
    account = "alice, which bob charged on 2026-01-01"
    monkeypatch.setattr(getpass, "getuser", lambda: account)
    (tmp_path / "home of alice").mkdir()
    path = tmp_path / "home of alice" / "budget.jsonl"
    ledger.create(path, mu=2)
    made = make(path)
    text = str(yaml.safe_load(made.registry(**ENTRY)))
    assert "alice" in read(made)
    for word in ("alice", "bob", socket.gethostname()):
        assert word not in text
    said = {adopted: "copy.jsonl is older than its mark", of_two_ledgers: "wards.jsonl: "}
    assert said.get(make, "nothing was charged") in text


def test_without_pyyaml_an_entry_names_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(ImportError, match=r"an entry of a registry needs yaml: .*\[registry\]"):
        report.report("a search", (PURE,)).registry(**ENTRY)


@pytest.mark.parametrize(
    "result",
    [
        tuning.TuningResult((1.0,), {"epochs": 2}, 3.0, (PURE,), 0.25, 0.125),
        tuning.LeastEpsilonResult(True, 2.0, (1.0,), {"epochs": 2}, 3.0, 0.25, (0.125, 0.5), (PAID,)),
        tuning.Front(({"epochs": 2},), np.ones(1), np.ones(1), np.ones(1), np.ones(1, bool), (1.0,), (PURE,)),
    ],
    ids=lambda result: type(result).__name__,
)
def test_the_hash_of_a_training_covers_all_that_it_released(result):
    before = result.report().fingerprint
    for name in set(result._fields) - {"guarantees"}:
        other = jax.tree.map(lambda leaf: 1 - leaf, getattr(result, name))
        assert result._replace(**{name: other}).report().fingerprint != before, name


def test_the_hash_tells_nothing_from_none_and_from_empty_parts():
    parts = [{"a": 1}, *({"a": 1, "hidden": part} for part in (None, (), [], {}))]
    parts += [(1.0,), (1.0, None), (1.0, []), (1.0, ()), [(), 1], [[], 1], (), [], {}, [[]], [()]]
    hashes = [report.report("t", (PURE,), release=part).fingerprint for part in parts]
    assert len(set(hashes)) == len(parts)


@pytest.mark.parametrize("train", [neighbour_cases.tuned, neighbour_cases.reached, neighbour_cases.fronted])
def test_the_guarantee_of_a_training_says_what_it_assumes_of_rows(train):
    for stated in train(list(neighbour_cases.USUAL) * 2)[-1]:
        assert {_assumptions.OWN_ROWS, _assumptions.ONE_ROW} < set(stated.assumptions)


def test_the_record_of_a_search_says_where_it_left_its_plan():
    asked = {"space": [(0, 1)], "epsilon": 1.0, "delta": 1e-5, "loss_range": (0, 1), "search": Search(steps=5)}
    signed = jaxdpbo.preview(users=500, loss=absolute, **asked).report()
    data = np.linspace(0, 1, 500)
    run = jaxdpbo.minimize(absolute, data, **asked)
    assert run.report().against(signed).details["differs from the plan"] == "in nothing"
    changed = {
        "evaluations: planned 10, got 12": asked | {"search": Search(steps=6)},
        "loss range: planned (0, 1), got (0, 2)": asked | {"loss_range": (0, 2)},
        "space: planned [0, 1], got [0, 2]": asked | {"space": [(0, 2)]},
        "guarantee: planned ": asked | {"epsilon": 2.0},
    }
    for said, options in changed.items():
        assert said in jaxdpbo.minimize(absolute, data, **options).report().against(signed).details[DIFFERS]
    other = jaxdpbo.minimize(lambda point, data: absolute(point, data) / 2, data, **asked)
    assert "SHA-256 of the loss's code: planned " in other.report().against(signed).details[DIFFERS]


# -- Ledgers ----------------------------------------------------------------------------------------------------------


def test_the_record_of_a_ledger_adds_up_its_spends(tmp_path, capsys):
    path = tmp_path / "budget.jsonl"
    ledger.create(path, mu=2, protects="the people")
    assert "Nothing was released." in read(report.ledger_report(path))
    for run, mu in (("march", "0.3"), ("april", "0.4")):
        ledger.charge(path, run, "a mean", ledger.Spend((ledger.Event("gdp", mu),), "replace_one", "the people"))
    made = report.ledger_report(path)
    (stated,) = made.guarantees
    assert 0.5 <= stated.level <= 0.5 * (1 + 1e-9)
    text = read(made)
    for part in ("march", "april", "budget, in mu^2", "left, in mu^2", ledger.head(path)):
        assert part in text
    whole = guarantees.guarantee("gdp", 2.0, "replace_one", "the people").epsilon(1e-5)
    odd_budgets = ("gdp", "1e400", "no bound"), ("dp", "1e400", "no bound"), ("gdp", "1e-400", "epsilon = 0 at ")
    for notion, level, said in odd_budgets:
        odd = tmp_path / f"{notion}{level}.jsonl"
        ledger.create(odd, notion=notion, level=level)
        assert report.ledger_report(odd).details[ledger_records.WHOLE].startswith(said)
    promised = re.search(r"epsilon = ([\d.]+) at delta = 1e-05$", made.details[ledger_records.WHOLE])
    assert whole <= float(promised[1]) < whole * 1.001
    main(["ledger", "report", str(path), "--out", str(tmp_path / "record.html")])
    assert "wrote" in capsys.readouterr().out
    assert json.loads((tmp_path / "record.json").read_text())["spends"] == [list(row) for row in made.spends]
    path.write_text("damaged\n")
    with pytest.raises(SystemExit, match="jaxdpbo ledger: "):
        main(["ledger", "report", str(path)])


@pytest.mark.parametrize(
    ("notion", "terms", "words"),
    [
        ("zcdp", {}, "zcdp 0.5 (replace_one) for the people"),
        ("zcdp", {"delta": 1e-6}, "zcdp 0.5 at delta=1e-06 (replace_one) for the people"),
        ("metric_dp", {"relation": "unit_distance", "unit": 2}, "metric_dp 0.5 (unit_distance 2) for the people"),
    ],
)
def test_the_record_of_a_ledger_without_an_epsilon_says_what_was_spent(tmp_path, notion, terms, words):
    path, rest = tmp_path / "book", {name: terms[name] for name in terms if name != "delta"}
    ledger.create(path, notion=notion, level=2, protects="the people", **terms)
    event = ledger.Event(notion, 0.5, terms.get("delta", 0))
    spend = ledger.Spend((event,), rest.get("relation", "replace_one"), "the people", rest.get("unit"), ("mine",))
    ledger.charge(path, "march", "a mean", spend)
    made = report.ledger_report(path)
    text = read(made)
    assert "Nothing was released" not in text
    assert words in text
    assert "mine the author of this assumption" in re.sub(r"\s+", " ", text)
    main(["ledger", "describe", str(path)])
    assert guarantees.guarantee_from_dict(made.to_dict()["guarantees"][0]["guarantee"]).notion == notion


def test_a_sum_beyond_the_floats_is_no_guarantee(tmp_path):
    path = tmp_path / "book"
    ledger.create(path, notion="dp", level="1e400", protects="the people")
    ledger.charge(path, "march", "a mean", ledger.Spend((ledger.Event("dp", "1e399"),), "replace_one", "the people"))
    assert "no privacy guarantee for the people" in read(report.ledger_report(path))


def test_the_record_tells_of_an_adopted_copy_and_of_a_file_older_than_its_mark(tmp_path):
    path = tmp_path / "book"
    ledger.create(path, mu=2, protects="the people")
    assert "copies" not in report.ledger_report(path).details
    ledger.adopt(path, by="the auditor")
    older = path.read_bytes()
    assert "by the auditor" in read(report.ledger_report(path))
    ledger.charge(path, "march", "a mean", ledger.Spend((ledger.Event("gdp", 1),), "replace_one", "the people"))
    path.write_bytes(older)
    assert "WARNING" in read(report.ledger_report(path))
    assert re.search(r"is older than its mark ledger-[0-9a-f]{32}\.head", report.ledger_report(path).details["WARNING"])


def test_a_record_has_an_epsilon_at_the_delta_that_was_asked_for_or_none(tmp_path):
    path = tmp_path / "book"
    ledger.create(path, notion="dp", level=2, delta=1e-6, protects="the people")
    for spent in range(2):
        with pytest.raises(ValueError, match=r"delta must leave an epsilon .* such as 1\.\d+e-06, got 1e-09"):
            report.ledger_report(path, delta=1e-9)
        spend = ledger.Spend((ledger.Event("dp", 1, 1e-7),), "replace_one", "the people")
        ledger.charge(path, f"run {spent}", "a mean", spend)
    made = report.ledger_report(path, delta=2e-6)
    assert made.to_dict()["guarantees"][0]["delta"] == 2e-6
    assert made.details[ledger_records.WHOLE].endswith("at delta = 2e-06")
    with pytest.raises(SystemExit, match="delta must leave an epsilon"):
        main(["ledger", "report", str(path), "--delta", "1e-9"])


def test_a_refund_in_a_ledger_is_no_promise_in_advance(tmp_path):
    path = tmp_path / "budget.jsonl"
    ledger.create(path, notion="dp", level=4, delta=1e-3, total_variation=1e-6, protects="the people")
    spend = ledger.Spend((ledger.Event("dp", 3, "1/2000"),), "replace_one", "the people", ex_post=True)
    ledger.charge(path, "march", "a search", spend)
    ledger.store_release(path, "march", {"found": 1}, paid=1)
    (stated,) = report.ledger_report(path).guarantees
    assert (stated.notion, stated.largest) == ("ex_post_dp", pytest.approx(4.0))
    assert stated.level == pytest.approx(1.0)
    assert _odds.detection_rates(stated, np.array([0.05]))[0] > 0.9  # by the budget, not by what was paid


def test_a_recorded_run_is_in_the_record_of_its_ledger(tmp_path):
    path = tmp_path / "budget.jsonl"
    ledger.create(path, mu=2)
    run = jaxdpbo.minimize(
        losses, np.full(400, SECRET), space=[(0, 2)], mu=1, search=Search(steps=2), ledger=Recording(path, "march")
    )
    (stated,) = report.ledger_report(path).guarantees
    assert stated.level == pytest.approx(run.guarantee.level, rel=1e-6)
    assert set(stated.assumptions) == set(run.guarantee.assumptions)


def test_a_record_states_epsilon_at_the_delta_that_was_typed(tmp_path):
    path = tmp_path / "book"
    ledger.create(path, epsilon=1.0, delta=1e-7)
    run = jaxdpbo.minimize(
        absolute, np.linspace(0, 1, 5000), [(0, 1)], epsilon=0.5, delta=1e-7, ledger=Recording(path, "a")
    )
    assert run.guarantee.summary_delta == 1e-7
    assert "at delta = 1e-07" in str(run.guarantee)
    for record in (run.report(), report.ledger_report(path)):
        (stated,) = record.to_dict()["guarantees"]
        assert stated["delta"] == 1e-7
        assert float(stated["epsilon"]) <= 0.5
    assert "epsilon = 1.0000 at delta = 1e-07" in report.ledger_report(path).details[ledger_records.WHOLE]
    (stated,) = report.ledger_report(path, delta=1e-9).to_dict()["guarantees"]
    assert stated["delta"] == 1e-9
    with pytest.raises(ValueError, match="delta"):
        report.ledger_report(path, delta=2.0)


def test_without_a_typed_delta_it_is_below_one_over_the_users():
    options = {"space": [(0, 1)], "mu": 1, "loss_range": (0, 1), "search": jaxdpbo.Search(method="in_order", steps=2)}
    runs = [jaxdpbo.minimize(absolute, np.linspace(0, 1, users), **options) for users in (500, 200_000)]
    assert [run.guarantee.display_delta for run in runs] == [1e-5, 1e-6]


def test_a_budget_is_stated_as_typed(tmp_path):
    ledger.create(tmp_path / "book", notion="dp", level=2, delta=1e-6)
    whole = report.ledger_report(tmp_path / "book").details[ledger_records.WHOLE]
    assert whole == "epsilon = 2.000 at delta = 1.00052e-06"
    assert ledger.account(tmp_path / "book").budget.total_variation == Fraction(1e-6) / 2**14


@pytest.mark.parametrize(
    "stated",
    [
        guarantees.guarantee("ex_post_dp", 0.5, "replace_one", "v", delta=1e-4, total_variation=1e-9, largest=2.0),
        guarantees.guarantee("dp", 0.5, "replace_one", "v", delta=1e-4, total_variation=1e-9),
        guarantees.guarantee("gdp", 0.5, "replace_one", "v", delta=1e-4),
    ],
)
def test_an_epsilon_that_exists_is_stated(stated):
    assert math.isfinite(stated.epsilon(stated.display_delta))
    assert "inf" not in str(stated).splitlines()[0]


@pytest.mark.parametrize("level", [0.5, 4, 20, 800, "1e400"])
def test_the_default_variation_of_a_budget_takes_little_of_its_delta(level, tmp_path):
    ledger.create(tmp_path / "book", notion="dp", level=level, delta=1e-5)
    variation = float(ledger.account(tmp_path / "book").budget.total_variation)
    assert (1 + math.exp(min(float(level), 700))) * variation <= 1e-5 * 2**-7 * (1 + 1e-9)
