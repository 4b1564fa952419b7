"""The documentation site: ``scripts/docs`` builds it, runs every code block, and takes warnings for errors."""

import json
import os
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
os.environ.setdefault("JAX_ENABLE_X64", "1")
os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])  # of the tutorials' kernels

project = "jaxdpbo"
copyright = "the jaxdpbo authors"
extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton", "sphinx_design"]
html_theme = "furo"
html_title = "jaxdpbo"
html_static_path = ["_static"]
html_css_files = ["outputs.css", "enough_users.css"]
myst_enable_extensions = ["colon_fence", "dollarmath"]
copybutton_exclude = ".linenos, .gp, .go"  # of a session in Python, the code alone
myst_heading_anchors = 4
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 600
nb_merge_streams = True
autodoc_typehints = "none"
autodoc_member_order = "bysource"
napoleon_google_docstring = True
napoleon_use_ivar = True  # attributes of named tuples are documented once
ROOT_PAGES = {"README": "index", "CHANGELOG": "changelog", "CONTRIBUTING": "contributing", "SECURITY": "security"}


FULL = {  # scripts/docs --full: a tutorial is run with more than it shows
    "tutorials/sklearn": ("n_iter=12", "n_iter=60"),
    "tutorials/optuna": ("evaluations=12", "evaluations=60"),
    "many_users": ("steps=20", "steps=50"),
}


def _links(app, name, source):
    """Pages of the top folder, which a page here includes, are pages of the site; a folder is none."""
    del app
    text = source[0]
    if name in ROOT_PAGES.values() and name != "index":
        text = (ROOT / f"{name.upper()}.md").read_text().replace("](docs/", "](")
    text = re.sub(r"\[([^\]]*)\]\(results/?\)", r"\1", text)
    if name in FULL and "JAXDPBO_DOCS_FULL" in os.environ:
        few, many = FULL[name]
        assert few in text, f"{name} has no {few}"
        text = text.replace(few, many)
    source[0] = re.sub(r"\]\((?:\.\./)?([A-Z]+)\.md", lambda found: f"]({ROOT_PAGES[found[1]]}.md", text)


def enough_users() -> str:
    """The form of the page "Enough users?", with its table inside: a browser opens no second file."""
    table = json.loads((ROOT / "docs/results/bench_enough_users.json").read_text())
    form = (ROOT / "docs/_static/enough_users.html").read_text()
    return form.replace("@TABLE@", json.dumps({name: table[name] for name in ("axes", "fields", "cells")}))


def _form(app, name, source):
    del app
    if name == "enough_users":
        source[0] = source[0].replace("@FORM@", enough_users())


def setup(app):
    """Of Sphinx."""
    app.connect("source-read", _links)
    app.connect("source-read", _form)
