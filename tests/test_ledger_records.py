"""The record of several ledgers: a year of three teams, added up by the people they protect."""

import itertools
import json
import math
import re
from datetime import date, timedelta
from fractions import Fraction

import pytest

from jaxdpbo import accounting, ledger, report
from jaxdpbo.commands import main
from jaxdpbo.guarantee import guarantees
from jaxdpbo.ledger import ledger_file
from jaxdpbo.report import ledger_records

PATIENTS, STAFF = "the patients", "the staff"
RUNS = 40
# A team: its people, the notion of its ledger, and the level of each of its runs.
TEAMS = {
    "wards": (PATIENTS, "gdp", "1/10"),
    "laboratory": (PATIENTS, "dp", "1/20"),
    "planning": (STAFF, "gdp", "1/5"),
}
START = date(2026, 1, 1)


@pytest.fixture
def year(tmp_path, monkeypatch):
    """Three ledgers with forty runs, one every nine days; the teams take turns."""
    clock = {"day": START}
    monkeypatch.setattr(ledger_file, "_now", lambda: f"{clock['day']}T12:00:00.000+00:00")
    for name, (people, notion, _) in TEAMS.items():
        ledger.create(tmp_path / name, notion=notion, level=2, protects=people, by=f"head of {name}")
    for number, name in zip(range(RUNS), itertools.cycle(TEAMS), strict=False):
        clock["day"] = START + timedelta(days=9 * number)
        people, notion, level = TEAMS[name]
        spend = ledger.Spend((ledger.Event(notion, level),), "replace_one", people)
        ledger.charge(tmp_path / name, f"run {number}", "a mean", spend)
    with pytest.raises(ledger.BudgetExceeded):
        ledger.charge(
            tmp_path / "planning",
            "too much",
            "a model",
            spend._replace(protects=STAFF, events=(ledger.Event("gdp", 9),)),
        )
    return [tmp_path / name for name in TEAMS]


def runs_of(team, until=RUNS):
    return len(range(list(TEAMS).index(team), until, len(TEAMS)))


def gdp_of_dp(epsilon):
    """The GDP level of a pure DP release with this epsilon: log-ratios in a range of two epsilon (docs/theorems.md)."""
    from scipy.stats import norm

    # Of randomised response with the range 2 epsilon the largest total variation is that of N(0, 1), N(mu, 1).
    return -2 * norm.ppf(1 / (1 + math.exp(epsilon)))


def test_a_year_of_three_teams_is_added_up_by_the_people(year):
    made = report.ledger_report(year)
    assert made.title == "3 ledgers"
    patients, staff = made.guarantees
    assert (patients.protects, staff.protects) == (PATIENTS, STAFF)
    assert staff.level == pytest.approx(0.2 * runs_of("planning") ** 0.5)
    expected = runs_of("wards") / 100 + runs_of("laboratory") * accounting.bounded_range_mu(0.1) ** 2
    assert patients.level == pytest.approx(expected**0.5)
    assert gdp_of_dp(0.05) <= accounting.bounded_range_mu(0.1) * (1 + 1e-9)
    assert "NOT added up" not in made.details
    heads, *rows = made.spends
    assert heads[:4] == ("ledger", "when", "run", "what")
    runs = [row[2] for row in rows if re.fullmatch(r"run \d+", row[2])]
    assert runs == [f"run {number}" for number in range(RUNS)]  # in order of time, across the ledgers
    assert [row[1] for row in made.events[1:]] == ["planning"]
    assert "refused" in made.events[1][2]
    assert [book["name"] for book in made.to_dict()["ledgers"]] == list(TEAMS)


def test_a_first_day_hides_rows_and_no_cost(year):
    whole, half = report.ledger_report(year), report.ledger_report(year, since="2026-07-01")
    assert [found.level for found in half.guarantees] == [found.level for found in whole.guarantees]
    assert 0 < len(half.spends) < len(whole.spends)
    within = [name for name in half.details if name.startswith("runs since 2026-07-01 alone")]
    assert len(within) == 2
    assert half.title == "3 ledgers since 2026-07-01"


def test_a_last_day_leaves_out_later_charges(year):
    made = report.ledger_report(year, until=START + timedelta(days=9 * 20 - 1))
    _, staff = made.guarantees
    assert staff.level == pytest.approx(0.2 * runs_of("planning", 20) ** 0.5)
    assert made.events == ()  # the refusal was later
    for book in made.to_dict()["ledgers"]:
        budget, spent, left = (Fraction(book["sums"][name][0][0]) for name in ("budget", "spent", "left"))
        assert budget == spent + left
    with pytest.raises(ValueError, match="until must be a day"):
        report.ledger_report(year, until="yesterday")


def test_a_charge_under_a_clock_that_was_ahead_is_counted(tmp_path, monkeypatch):
    for day, level in (("2031-01-01", "4"), ("2027-03-01", "1/10")):
        monkeypatch.setattr(ledger_file, "_now", lambda day=day: f"{day}T12:00:00.000+00:00")
        if level == "4":
            ledger.create(tmp_path / "book", mu=5, protects=STAFF)
        ledger.charge(
            tmp_path / "book", day, "a mean", ledger.Spend((ledger.Event("gdp", level),), "replace_one", STAFF)
        )
    (stated,) = report.ledger_report(tmp_path / "book", until="2027-12-31").guarantees
    assert stated.level > 4


def test_groups_of_the_same_people_have_a_whole_budget_each(tmp_path):
    ledger.create(tmp_path / "a", mu=5, protects=STAFF)
    ledger.create(tmp_path / "b", mu=1, protects=STAFF, relation="unit_distance", unit=2)
    whole = {name: text for name, text in report.ledger_report([tmp_path / "a", tmp_path / "b"]).details.items()}
    assert sum(name.startswith(ledger_records.WHOLE) for name in whole) == 2


def test_what_cannot_be_added_up_is_said(year, tmp_path):
    ledger.create(tmp_path / "another", notion="zcdp", level=2, protects=PATIENTS)
    spend = ledger.Spend((ledger.Event("zcdp", 1),), "replace_one", PATIENTS)
    ledger.charge(tmp_path / "another", "a run", "a mean", spend)
    made = report.ledger_report([*year, tmp_path / "another"])
    assert made.details["NOT added up"] == f"for {PATIENTS}: gdp (replace_one) and zcdp (replace_one)"
    assert [found.notion for found in made.guarantees] == ["gdp", "zcdp", "gdp"]


def test_two_copies_of_one_ledger_are_refused(year, tmp_path):
    copy = tmp_path / "copy"
    copy.write_bytes(year[0].read_bytes())
    for paths in ([year[0], copy], [year[0], year[0]], []):
        with pytest.raises(ValueError, match="path must"):
            report.ledger_report(paths)


def test_ledgers_of_two_folders_with_one_name_are_told_apart(tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        ledger.create(tmp_path / folder / "book", mu=1)
    made = report.ledger_report([tmp_path / "a" / "book", tmp_path / "b" / "book"])
    assert {row[0] for row in made.spends[1:]} == {str(tmp_path / folder / "book") for folder in "ab"}


def test_a_sum_holds_at_the_requested_delta(year):
    made = report.ledger_report(year, delta=1e-7)
    assert {found["delta"] for found in made.to_dict()["guarantees"]} == {1e-7}
    whole = made.details[f"{ledger_records.WHOLE}, of {STAFF} (gdp, replace_one)"]
    level = guarantees.guarantee("gdp", 2.0, "replace_one", STAFF).epsilon(1e-7)
    assert level <= float(re.match(r"epsilon = ([\d.]+) at", whole)[1]) <= level * 1.001


def test_the_commands_of_a_ledger(tmp_path, capsys):
    path = tmp_path / "book"

    def ask(action, *words):
        main(["ledger", action, str(path), *words, "--json"])
        return json.loads(capsys.readouterr().out)

    made = ask("create", "--epsilon", "1", "--delta", "1e-5", "--protects", STAFF, "--by", "the board")
    assert (made["by"], made["protects"]) == ("the board", STAFF)
    assert made["epsilons"] == ["budget: epsilon = 1.0000 at delta = 1e-05"]
    level = ask("describe")["sums"]["budget"][0][0]
    assert Fraction(level) == ledger.account(path).left.cost
    head = ask("head")["head"]
    assert ask("verify", "--head", head) == {"path": str(path), "runs": 0, "head": head}
    copy = tmp_path / "copy"
    copy.write_bytes(path.read_bytes())
    path = copy
    assert "adopted by the auditor" in ask("adopt", "--by", "the auditor")["events"][0]["event"]
    assert ask("report", "--out", str(tmp_path / "page.html"))["title"] == "the ledger copy"
    path.write_text("damaged\n")
    with pytest.raises(SystemExit) as stopped:
        ask("verify")
    assert stopped.value.code == 1
    assert "damaged" in json.loads(capsys.readouterr().out)["error"]
    with pytest.raises(SystemExit, match=r"jaxdpbo ledger: .* exists"):
        main(["ledger", "create", str(path), "--mu", "1"])
