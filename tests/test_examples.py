"""Every example in the package's docstrings runs as a reader would paste it, and what a user calls first has one."""

import doctest
import importlib
import inspect
import pkgutil

import jax
import pytest
import registration
from suite import EXAMPLES_THAT_NEED

import jaxdpbo

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def documented():
    """``module.name -> docstring's examples``, of the package's own objects, methods included."""
    finder, found = doctest.DocTestFinder(exclude_empty=True), {}
    for _, name, _ in pkgutil.walk_packages(jaxdpbo.__path__, "jaxdpbo."):
        if name.endswith("__main__"):
            continue
        loaded = importlib.import_module(name)
        examples = finder.find(loaded, name, globs={})
        for value in vars(loaded).values():  # jax.jit and caches hide functions from the finder
            if getattr(value, "__module__", None) == name and not inspect.isfunction(value) and callable(value):
                own = inspect.unwrap(value)
                if inspect.isfunction(own):
                    examples += finder.find(own, f"{name}.{own.__name__}", globs={})
        found |= {each.name: each for each in examples if each.examples}
    return found


EXAMPLES = documented()


def faults(test):
    """What a reader would get instead, in words; "" where an example does as it says."""
    said = []
    doctest.DocTestRunner(optionflags=FLAGS, verbose=False).run(test, out=said.append, clear_globs=True)
    return "".join(said)


@pytest.fixture
def as_a_user(tmp_path, monkeypatch, float32):
    """JAX's own defaults, and an empty folder."""
    monkeypatch.chdir(tmp_path)
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        yield


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_does_as_it_says(name, as_a_user):
    if name in EXAMPLES_THAT_NEED:
        pytest.importorskip(EXAMPLES_THAT_NEED[name])
    assert faults(EXAMPLES[name]) == ""


def test_every_example_that_needs_a_package_is_there():
    assert EXAMPLES.keys() >= EXAMPLES_THAT_NEED.keys()


def has_example(function):
    return bool(doctest.DocTestParser().get_examples(inspect.unwrap(function).__doc__ or ""))


def test_what_a_user_calls_first_has_an_example():
    wanted = registration.with_examples_wanted()
    without = {name for name, function in wanted.items() if not has_example(function)}
    print(f"{len(without)} of {len(wanted)} have no example: {', '.join(sorted(without))}")
    assert len(wanted) >= 30
    assert sorted(without) == [], "write an example"


def example(source):
    return doctest.DocTestParser().get_doctest(source, {}, "planted", None, 0)


@pytest.mark.parametrize("source", [">>> 1 + 1\n3\n", ">>> jnp.zeros(3)\nArray([0., 0., 0.], dtype=float32)\n"])
def test_the_check_sees_an_example_that_does_not(source, as_a_user):
    """A wrong result; a name that the reader has not imported."""
    assert faults(example(source))


def test_the_check_passes_an_example_that_does(as_a_user):
    source = ">>> import jax.numpy as jnp\n>>> jnp.ones(2) / 3\nArray([0.333..., 0.333...], dtype=float32)\n"
    assert faults(example(source)) == ""
