"""No function of the package is complex, and one file says what a user moves."""

import ast
from pathlib import Path

import counts

PACKAGE = Path(__file__).parent.parent / "jaxdpbo"
TREES = {str(path.relative_to(PACKAGE)): ast.parse(path.read_text()) for path in sorted(PACKAGE.rglob("*.py"))}
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


def test_one_file_says_what_a_user_moves():
    assert {name for name, tree in TREES.items() if counts.computes_a_sensitivity(tree)} == {"sensitivity.py"}
    assert counts.computes_a_sensitivity(ast.parse("def f(config): return 2.0 * config.clip_norm"))
    assert counts.computes_a_sensitivity(ast.parse("def gain_sensitivity(): ..."))


def test_lines_are_of_one_kind():
    assert counts.lines('"""Doc.\n\nMore.\n"""\n\nx = 1  # why\n# alone\ny = """a\nb"""\n') == (3, 4, 2)
