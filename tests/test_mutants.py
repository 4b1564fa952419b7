"""Mutants: what each mutation writes, which are drawn, and that a planted red kills while a no-op survives."""

import ast
import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from mutants import mutations, run, session

ROOT = Path(__file__).parent.parent


def mutants(source, kind):
    """The mutated sources of one kind, of a module of these lines."""
    source = textwrap.dedent(source).encode()
    found = [one for one in mutations.of_source(source, "jaxdpbo/it.py") if one.kind == kind]
    assert all(mutations.sound(one, source) for one in found)
    return [one.apply(source).decode() for one in found]


@pytest.mark.parametrize(
    ("source", "kind", "expected"),
    [
        ("a = 3", "constant", ["a = 4"]),
        ("a = 0", "constant", ["a = 1"]),
        ("a = 0.5", "constant", ["a = 0.25", "a = 1.0"]),
        ("a = 0.0", "constant", ["a = 1.0"]),
        ("a = f(x, exact=True)", "constant", ["a = f(x, exact=False)"]),
        ("def f(x=2): return x", "constant", ["def f(x=3): return x"]),
        ("a = b < c", "comparison", ["a = b <= c", "a = b > c"]),
        ("a = b >= c", "comparison", ["a = b <= c", "a = b > c"]),
        ("a = b == c", "comparison", ["a = b != c"]),
        ("a = b is not c", "comparison", ["a = b is c"]),
        ("a = b not in c", "comparison", ["a = b in c"]),
        ("a = 'b' in c", "comparison", ["a = 'b' not in c"]),
        ("a = b < c < d", "comparison", ["a = b < c <= d", "a = b < c > d", "a = b <= c < d", "a = b > c < d"]),
        ("a = b + c", "operator", ["a = b - c"]),
        ("a = (b) // (  # a - b\n c)", "operator", ["a = (b) / (  # a - b\n c)"]),
        ("a = b ** 2", "operator", ["a = b * 2"]),
        ("a = b & c", "operator", ["a = b | c"]),
        ("a = b and c", "operator", ["a = b or c"]),
        ("a = ~(b)", "operator", ["a = (b)"]),
        ("a = not b", "operator", ["a = b"]),
        ("a -= 'é' - b", "operator", ["a += 'é' - b", "a -= 'é' + b"]),
        ("a = jnp.clip(x, 0, y)", "call", ["a = x"]),
        ("a = jnp.sqrt(x + y)", "call", ["a = (x + y)"]),
        ("a = jnp.where(c, x, y)", "call", ["a = x", "a = y"]),
        ("a = min(x, y)", "call", ["a = x", "a = y"]),
        ("a = checks.positive('a', a)", "call", ["a = a"]),
        ("a = gaussian(noise_key, x, s)", "call", ["a = x"]),
        ("a = x.at[0].set(y)", "call", ["a = x"]),
        ("a = jnp.asarray(x)", "call", []),
        ("file.flush()", "call", ["pass"]),
        ("a = f(x, axis=1, y=2)", "keyword", ["a = f(x, axis=1)", "a = f(x, y=2)"]),
        ("a = State(x=1)", "keyword", []),
        ("if a: b()", "condition", ["if not (a): b()"]),
        ("a = [b for b in c if b]", "condition", ["a = [b for b in c if not (b)]"]),
        ("while a: pass", "condition", ["while not (a): pass"]),
        ("if a:\n    raise ValueError(f'{a + 1}')", "raise", ["if a:\n    pass"]),
        (
            "def f(key):\n    a_key, b_key = jax.random.split(key)\n    return g(a_key), g(b_key)",
            "swapped keys",
            ["def f(key):\n    b_key, a_key = jax.random.split(key)\n    return g(a_key), g(b_key)"],
        ),
        (
            "def f(key):\n    a_key, b_key = jax.random.split(key)\n    return g(a_key), g(b_key)",
            "key used twice",
            [
                "def f(key):\n    a_key, b_key = jax.random.split(key)\n    return g(a_key), g(a_key)",
                "def f(key):\n    a_key, b_key = jax.random.split(key)\n    return g(key), g(b_key)",
            ],
        ),
    ],
)
def test_each_kind_writes_what_it_should(source, kind, expected):
    assert sorted(mutants(source, kind)) == sorted(expected)


@pytest.mark.parametrize(
    "source",
    [
        '"""Two 2."""',
        "def f(x: int | None) -> tuple[int | str, ...]:\n    '''1'''\n    return x",
        "raise_it: dict[str, int | None]",
        "__all__ = ['a'] + ['b']",
        "assert a == 1",
        "a = f'{b + 1:.3f}'",
        "from a import b",
        "@partial(f, static=1)\ndef g():\n    return a",
    ],
)
def test_what_is_not_code_stays(source):
    assert not list(mutations.of_source(source.encode(), "jaxdpbo/it.py"))


def test_no_kind_of_what_a_raise_says():
    source = b"def f(a):\n    raise ValueError(f'{a}' + str(1 + 2))\n"
    assert [one.kind for one in mutations.of_source(source, "jaxdpbo/it.py")] == ["raise"]


def test_a_result_holds_until_the_code_of_its_function_changes():
    def keys(source):
        return {one.key for one in mutations.of_source(source.encode(), "jaxdpbo/it.py")}

    before = keys("def f(a):\n    '''One.'''\n    return a + 1\n\ndef g(a):\n    return a - b\n")
    assert (
        keys("# two\ndef f(a):\n    '''Another.'''\n    return a + 1  # three\n\ndef g(a):\n    return a - b\n")
        == before
    )
    changed = keys("def f(a):\n    '''One.'''\n    a = abs(a)\n    return a + 1\n\ndef g(a):\n    return a - b\n")
    assert {key[1] for key in before & changed} == {"g"}


def test_no_mutants_bytecode_is_taken_for_anothers(tmp_path):
    """Python compares a file's size and its time of change in seconds, of which file systems keep 1901 to 2038."""
    module = tmp_path / "tree" / "jaxdpbo" / "it.py"
    module.parent.mkdir(parents=True)
    module.write_text("a = 1\n")
    (one,) = (each for each in mutations.of_source(b"a = 1\n", "jaxdpbo/it.py") if each.change.endswith("a = 2"))
    stamps = set()
    for _ in range(50):
        with run.Slot(tmp_path).changed(one):
            assert module.read_text() == "a = 2\n"
            stamps.add(int(module.stat().st_mtime))
    assert len(stamps) == 50
    assert module.read_text() == "a = 1\n"


@pytest.fixture(scope="module")
def everything():
    return list(mutations.scope(ROOT))


def test_the_scope_is_the_package(everything):
    modules = {one.module for one in everything}
    paths = {path.relative_to(ROOT).as_posix() for path in (ROOT / "jaxdpbo").rglob("*.py")}
    assert modules <= paths
    others = {path: (ROOT / path).read_text() for path in paths - modules}
    long = [path for path, text in others.items() if len(text.splitlines()) > 100]
    assert not [path for path in long if list(mutations.all_functions(ast.parse(others[path])))]
    assert len({one.key for one in everything}) == len(everything)
    assert {one.kind for one in everything} == {
        "constant", "comparison", "operator", "call", "keyword", "condition", "raise", "swapped keys", "key used twice",
    }  # fmt: skip


def test_the_sample_is_fixed_and_holds_each_folder_by_its_share(everything):
    drawn = mutations.sample(everything, 400)
    assert len({one.key for one in drawn}) == 400
    assert drawn == mutations.sample(list(reversed(everything)), 400)
    folders = {one.module.rpartition("/")[0] for one in everything}
    for folder in folders:
        share = sum(one.module.rpartition("/")[0] == folder for one in everything) / len(everything)
        count = sum(one.module.rpartition("/")[0] == folder for one in drawn)
        assert count >= min(10, 300 * share), folder
    again = mutations.sample([one for one in everything if one.function != drawn[0].function], 400)
    assert len(set(again) & set(drawn)) > 300  # a function less leaves the others' draws as they were
    assert {one.change for one in mutations.sample(everything, 9, usable=lambda one: one.kind == "raise")} <= {
        one.change for one in everything if one.kind == "raise"
    }


def test_each_equivalent_mutant_is_one_and_says_why(everything):
    listed = run.equivalents(ROOT / "tests" / "mutants" / "equivalents.json")
    assert listed.keys() <= {one.name for one in everything}
    assert all(len(reason) > 20 for reason in listed.values())


def test_tests_are_found_by_function_by_the_constant_it_names_and_by_import():
    known = run.Map({"a": 1.0, "b": 2.0, "c": 40.0}, {"jaxdpbo/noise/clipping.py::clip_and_sum": [1, 0]})

    def tests_of(function, line=1):
        given = mutations.Mutation("jaxdpbo/noise/clipping.py", function, "", "", line, 0, 0, "", "")
        return known.tests_of(given, ROOT)

    assert tests_of("clip_and_sum") == tests_of("clip_and_sum.inner") == ["b", "a"]
    assert "tests/test_clipping.py" in tests_of("another")
    assert run.Map({}, {}).tests_of(
        mutations.Mutation("jaxdpbo/noise/clipping.py", "f", "", "", 1, 0, 0, "", ""), ROOT
    ) == run.importing("jaxdpbo/noise/clipping.py", ROOT)
    assert known.within(["c", "a", "b"], 42) == ["c", "a"]


def test_the_map_puts_the_cheap_and_particular_first_and_red_tests_nowhere(tmp_path):
    f, g = "jaxdpbo/noise/clipping.py::f", "jaxdpbo/noise/clipping.py::g"
    entered = {
        "tests/test_a.py": {
            "tests/test_a.py::slow": {"green": True, "seconds": 3.0, "functions": [f, g]},
            "tests/test_a.py::red": {"green": False, "seconds": 0.1, "functions": [f]},
            "tests/test_a.py::quick": {"green": True, "seconds": 1.0, "functions": [f]},
        },
        "tests/test_clipping.py": {
            **{f"tests/test_clipping.py::t[{n}]": {"green": True, "seconds": 0.1, "functions": [f]} for n in range(4)},
            "tests/test_clipping.py::own": {"green": True, "seconds": 1.5, "functions": [f, "jaxdpbo/other.py::h"]},
        },
    }
    run.write_map(entered, tmp_path / "map.json", {f, g})
    known = run.Map.read(tmp_path / "map.json")
    names = list(known.tests)
    chosen = [[names[place].partition("::")[2] for place in known.functions[one]] for one in (f, g)]
    assert chosen == [["t[0]", "t[1]", "t[2]", "t[3]", "quick", "own", "slow"], ["slow"]]
    run.write_map(known.entered(), tmp_path / "again.json", {f, g})  # what is not measured again stays
    assert run.Map.read(tmp_path / "again.json") == known


PACKAGE = """
def _double(x):
    return x * 2


def forever(n):
    while n > 0:
        n = n - 1
    return n


def unseen(x):
    return x + 1
"""
TESTS = """
from jaxdpbo import it

def test_double():
    assert it._double(3) == 6

def test_forever():
    assert it.forever(3) == 0

def test_nothing():
    it.unseen(1)
"""


@pytest.fixture
def slot(tmp_path):
    """A tree of one module and its tests."""
    place = run.Slot(tmp_path)
    for name, text in {"jaxdpbo/__init__.py": "", "jaxdpbo/it.py": PACKAGE, "tests/test_it.py": TESTS}.items():
        (place.tree / name).parent.mkdir(parents=True, exist_ok=True)
        (place.tree / name).write_text(text)
    return place


@pytest.fixture
def apart(monkeypatch):
    """``drive`` forks: here from a process without JAX's threads would be right, so the fork is a fresh Python."""

    def start(root, log, answer, work, **options):
        code = (
            "import json, sys; from pathlib import Path; sys.path.insert(0, sys.argv[1]);"
            "from mutants import session; root = Path(sys.argv[2]); sys.path[:0] = [str(root), str(root / 'tests')];"
            "done = getattr(session, sys.argv[4])(root, **json.loads(sys.argv[5]));"
            "Path(sys.argv[3]).write_text(json.dumps(done))"
        )
        command = [
            sys.executable,
            "-c",
            code,
            str(ROOT / "tests"),
            str(root),
            str(answer),
            work.__name__,
            json.dumps(options),
        ]
        with log.open("w") as file:
            child = subprocess.Popen(command, cwd=root, stdout=file, stderr=file, start_new_session=True)
        children.append(child)
        return child.pid

    children: list[subprocess.Popen] = []
    monkeypatch.setattr(session, "fork", start)
    return start


def results_of(slot, tmp_path, wanted, tree="one"):
    found = mutations.of_source((slot.tree / "jaxdpbo/it.py").read_bytes(), "jaxdpbo/it.py")
    chosen = [one for one in found if any(one.change.endswith(change) for change in wanted)]
    assert len(chosen) == len(wanted)
    results = run.Results(tmp_path / "mutants.jsonl", tree)
    names = ["double", "forever", "nothing"]
    known = run.Map({f"tests/test_it.py::test_{name}": 0.1 for name in names}, {})
    by_function = {"_double": [0], "forever": [1], "unseen": [2]}
    known.functions.update({f"jaxdpbo/it.py::{name}": held for name, held in by_function.items()})
    run.judge_all(chosen, False, known, results, [slot])
    return chosen, results


def test_a_red_test_kills_a_no_op_survives_and_nothing_runs_twice(slot, tmp_path, apart, monkeypatch, capsys):
    changes = ["return x / 2", "return x - 1", "n = n + 1"]
    monkeypatch.setattr(run, "LIMIT", 5.0)
    results_of(slot, tmp_path, changes[2:])
    monkeypatch.undo()
    monkeypatch.setattr(session, "fork", apart)
    chosen, results = results_of(slot, tmp_path, changes)
    status = {one.function: results.of(one)["status"] for one in chosen}
    assert status == {"_double": "killed", "forever": "time", "unseen": "survived"}
    assert results.of(chosen[0])["test"] == "tests/test_it.py::test_double"
    assert results.controls == {"tests/test_it.py::test_double": True}
    assert (slot.tree / "jaxdpbo/it.py").read_text() == PACKAGE
    counts = run.report(chosen, {}, results)
    assert counts == {"jaxdpbo": {"drawn": 3, "equivalent": 0, "killed": 1, "time": 1, "survived": 1, "none": 0}}
    assert "survived: jaxdpbo/it.py:13 in unseen" in capsys.readouterr().out
    counts = run.report(chosen, {chosen[2].name: "why"}, results)["jaxdpbo"]
    assert (counts["equivalent"], counts["survived"]) == (1, 0)

    lines = (tmp_path / "mutants.jsonl").read_text()
    monkeypatch.setattr(run, "examine", lambda *_: pytest.fail("run a second time"))
    results_of(slot, tmp_path, changes)
    assert (tmp_path / "mutants.jsonl").read_text() == lines


def test_a_test_that_is_red_anyway_kills_nobody(slot, tmp_path, apart):
    path = slot.tree / "tests/test_it.py"
    path.write_text(path.read_text().replace("it.unseen(1)", "assert it.unseen(1) == 3"))
    (one,), results = results_of(slot, tmp_path, ["return x - 1"])
    assert results.controls == {"tests/test_it.py::test_nothing": False}
    assert results.of(one)["status"] == "survived"


def test_a_tree_that_cannot_be_imported_is_an_error_and_no_kill(slot, tmp_path, apart):
    (slot.tree / "jaxdpbo/__init__.py").write_text("import nothing_of_that_name")
    with pytest.raises(RuntimeError, match="fail without a mutant"):
        results_of(slot, tmp_path, ["return x - 1"])
    assert not (tmp_path / "mutants.jsonl").exists()


def test_recording_says_which_functions_each_test_enters(slot, tmp_path, apart):
    recorded = []

    def task(slot):
        recorded.append((yield {"work": session.record, "file": "tests/test_it.py", "limit": 60.0}))

    run.drive([task], [slot])
    assert recorded[0] is not None, (slot.place / "log").read_text()
    entered = {name.partition("::")[2]: one["functions"] for name, one in recorded[0]["tests"].items()}
    expected = {"test_double": ["_double"], "test_forever": ["forever"], "test_nothing": ["unseen"]}
    assert entered == {name: [f"jaxdpbo/it.py::{one}" for one in held] for name, held in expected.items()}


def test_all_mutated_sources_that_are_drawn_are_python(everything):
    drawn = mutations.sample(
        everything, 60, seed=1, usable=lambda one: mutations.sound(one, (ROOT / one.module).read_bytes())
    )
    assert len(drawn) == 60
    for one in drawn:
        ast.parse(one.apply((ROOT / one.module).read_bytes()))
