"""The public surface: what the interface pages list is public, and nothing else."""

import doctest
import importlib
import inspect
import re
import types
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

import jaxdpbo

PAGES = Path(__file__).parent.parent / "docs" / "api"
DIRECTIVE = re.compile(r"^\.\. auto(?:function|class|data):: (\w+)$", re.MULTILINE)
PARALLEL = {  # names that several modules have by design: each algorithm's, each library's, and each kind of noise's
    "Config", "DPSGD", "check", "Release", "algorithm", "config", "make_algorithm", "gaussian", "planar_laplace",
}  # fmt: skip


def public_modules() -> list[str]:
    """Modules with an ``__all__``: they promise these names, and others promise nothing."""
    files = sorted(Path(jaxdpbo.__file__).parent.rglob("*.py"))
    promising = [file for file in files if re.search("^__all__ = ", file.read_text(), re.MULTILINE)]
    names = (".".join(file.relative_to(Path(jaxdpbo.__file__).parents[1]).with_suffix("").parts) for file in promising)
    return [name.removesuffix(".__init__") for name in names]


MODULES = public_modules()
FOLDERS = {"jaxdpbo.algorithms", "jaxdpbo.integrations"}  # their modules are their names


def public_names(module: types.ModuleType) -> dict[str, Any]:
    """What a module exports, without its modules."""
    values = {name: getattr(module, name) for name in module.__all__}
    return {name: value for name, value in values.items() if not inspect.ismodule(value)}


def surface() -> Iterator[tuple[str, Any]]:
    """Every public object once, by its first name."""
    seen: set[int] = set()
    for name in MODULES:
        if name in FOLDERS:
            continue
        for own, value in public_names(importlib.import_module(name)).items():
            if id(value) not in seen:
                seen.add(id(value))
                yield f"{name}.{own}", value


SURFACE = dict(surface())
CALLABLE = {name: value for name, value in SURFACE.items() if callable(value) and not get_args(value)}
FUNCTIONS = {name: inspect.unwrap(value) for name, value in CALLABLE.items() if not inspect.isclass(value)}
FUNCTIONS = {name: value for name, value in FUNCTIONS.items() if inspect.isfunction(value)}


def listed(page: str) -> set[str]:
    """The names that a page documents."""
    return set(DIRECTIVE.findall(page))


@pytest.mark.parametrize("name", [name for name in MODULES if name not in FOLDERS])
def test_a_page_lists_what_its_module_exports(name):
    page = (PAGES / f"{name}.md").read_text()
    assert f".. automodule:: {name}\n" in page
    names = public_names(importlib.import_module(name))
    if name != "jaxdpbo":  # the page of the package has what both export
        names = {own: value for own, value in names.items() if getattr(jaxdpbo, own, None) is not value}
    assert listed(page) == names.keys()


def test_every_page_is_of_a_public_module():
    assert {page.stem for page in PAGES.glob("*.md")} == set(MODULES) - FOLDERS
    index = (PAGES.parent / "api.md").read_text()
    assert all(f"\napi/{name}\n" in index for name in set(MODULES) - FOLDERS)


@pytest.mark.parametrize("name", [name for name in MODULES if name not in FOLDERS])
def test_a_public_module_shows_what_it_promises(name):
    """``dir`` shows ``__all__`` and Python's own names."""
    module = importlib.import_module(name)
    assert {own for own in dir(module) if not own.startswith("__")} == set(module.__all__)


@pytest.mark.parametrize("name", sorted(FOLDERS))
def test_a_folder_shows_its_modules(name):
    module = importlib.import_module(name)
    inside = {each.rpartition(".")[2] for each in MODULES if each.startswith(f"{name}.")}
    assert {own for own in dir(module) if not own.startswith("__")} == inside


def test_a_planted_name_is_seen():
    assert listed(".. autofunction:: one\n.. autoclass:: Two\n   :members: three\n") == {"one", "Two"}
    assert not has_example(listed)
    assert has_example(jaxdpbo.minimize)
    assert is_in_the_example_of_its_module("jaxdpbo.parts.draw_choice")
    assert not is_in_the_example_of_its_module("jaxdpbo.parts.draw")
    assert without_types(lambda a, *, b: a) == ["a", "b", "return"]


def test_no_two_public_things_share_a_name():
    count = Counter(name.rpartition(".")[2] for name in SURFACE)
    assert {name for name, times in count.items() if times > 1} <= PARALLEL


def has_example(thing: Any) -> bool:
    return bool(doctest.DocTestParser().get_examples(inspect.unwrap(thing).__doc__ or ""))


def is_in_the_example_of_its_module(name: str) -> bool:
    """Whether the module calls it in an example of its own, for parts that say little alone."""
    module, _, own = name.rpartition(".")
    examples = doctest.DocTestParser().get_examples(importlib.import_module(module).__doc__ or "")
    return any(re.search(rf"\b{own}\(", example.source) for example in examples)


def results() -> set[str]:
    """The names of classes that a public function or method returns: you read them, and make none."""
    found = {"Release"}  # of each algorithm's ``release``
    for value in CALLABLE.values():
        own = inspect.unwrap(value)
        methods = [each for each in vars(own).values()] if inspect.isclass(own) else [own]
        for method in methods:
            method = method.fget if isinstance(method, property) else method
            if inspect.isfunction(method):
                found |= set(re.findall(r"\w+", str(inspect.signature(method).return_annotation)))
    fields = {each for value in CALLABLE.values() if inspect.isclass(value)
              for each in re.findall(r"\w+", str(getattr(value, "__annotations__", "")))}  # fmt: skip
    return found | fields


def test_public_functions_and_classes_have_an_example():
    """A class needs none if it is an exception, a protocol, or the result of something public."""
    returned = results()
    without = [
        name for name, value in CALLABLE.items()
        if not (has_example(value) or is_in_the_example_of_its_module(name)) and not (inspect.isclass(value) and (
            issubclass(value, BaseException) or getattr(value, "_is_protocol", False) or value.__name__ in returned
        ))
    ]  # fmt: skip
    assert without == []


@pytest.mark.parametrize("name", CALLABLE)
def test_a_public_thing_has_a_docstring(name):
    assert inspect.unwrap(CALLABLE[name]).__doc__


def without_types(function: Any) -> list[str]:
    """Parameters without an annotation, and "return"."""
    signature = inspect.signature(function)
    missing = [each.name for each in signature.parameters.values() if each.annotation is each.empty]
    return missing + (["return"] if signature.return_annotation is signature.empty else [])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_public_function_has_types(name):
    assert without_types(FUNCTIONS[name]) == []
