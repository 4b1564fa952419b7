"""The package stays small and plain: the counts of `scripts/counts`, with limits."""

import ast
from pathlib import Path

import counts

PACKAGE = Path(__file__).parent.parent / "jaxdpbo"
TREES = {str(path.relative_to(PACKAGE)): ast.parse(path.read_text()) for path in sorted(PACKAGE.rglob("*.py"))}
MANY = (
    "least_epsilon",
    "minimize",
    "private_front",
    "private_selection",
    "private_study",
    "tune_and_train",
    "run_",
    "config",
    "__init__",
)  # entry points and makers of configs may have more parameters
BRANCHING = """
def chosen(a, b):
    def inner():
        return [one for one in a if one]
    match b:
        case 1: return inner() or b or a
        case _: pass
    try:
        while a: assert b
    except ValueError:
        return a if b else [x for y in a for x in y]
"""  # 1, then comprehension 1, cases 2, or 2, while 1, assert 1, except 1, ternary 1, comprehensions 2


def test_no_function_is_long():
    found = [
        (name, one.name) for name, tree in TREES.items() for one in counts.functions(tree) if counts.length(one) > 80
    ]
    assert found == []


def test_no_function_is_complex():
    complex_functions = {
        (name, function.name)
        for name, tree in TREES.items()
        for function in counts.functions(tree)
        if counts.complexity(function) > 15
    }
    assert complex_functions == set()


def test_complexity_counts_every_branch():
    outer, inner = counts.functions(ast.parse(BRANCHING))
    assert (counts.complexity(outer), counts.complexity(inner)) == (12, 2)
    branches = "".join(f"    if x == {number}: return x\n" for number in range(15))
    (violation,) = counts.functions(ast.parse(f"def f(x):\n{branches}"))
    assert counts.complexity(violation) == 16


def test_few_functions_have_many_parameters():
    found = {
        one.name
        for tree in TREES.values()
        for one in counts.functions(tree)
        if len(counts.parameters(one)) > 12 and not one.name.startswith(MANY) and not one.name.endswith("config")
    }
    assert found == set()


def test_one_file_says_what_a_user_moves():
    found = {name for name, tree in TREES.items() if counts.computes_a_sensitivity(tree)}
    assert found == {"sensitivity.py"}
    assert counts.computes_a_sensitivity(ast.parse("def f(config): return 2.0 * config.clip_norm"))
    assert counts.computes_a_sensitivity(ast.parse("def gain_sensitivity(): ..."))


def test_few_public_parameters_are_of_any_type(tmp_path):
    assert counts.any_share(PACKAGE) < 0.031
    (tmp_path / "one.py").write_text(
        "Tree: TypeAlias = Any\nLeaf = Tree\ndef f(a: Leaf, b: int, *, c: Any | None, d): ...\ndef _g(a: Any): ...\n"
    )
    assert counts.any_share(tmp_path) == 0.75


def test_functions_are_verbs_or_nouns():
    names = [function.name for tree in TREES.values() for function in counts.functions(tree)]
    assert sum(counts.is_participle(name) or counts.is_prepositional(name) for name in names) < 40
    assert all(map(counts.is_participle, ("shown", "_noised", "given_back", "wrap_checked")))
    assert not any(map(counts.is_participle, ("show", "read", "is_checked", "noised_sum")))
    assert all(map(counts.is_prepositional, ("of", "costs_of", "_by_grid", "on_grid")))
    assert not any(map(counts.is_prepositional, ("to_numpy", "from_dict", "by_person", "rank_for_distances")))
