"""Every Python block of README and of the pages runs alone, in a process for each page, as its readers run it."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent.parent / "docs" / "run_blocks.py"


def load():
    spec = importlib.util.spec_from_file_location("run_blocks", SOURCE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


run_blocks = load()
PAGES = [path for path in run_blocks.pages() if run_blocks.blocks(path)]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_the_blocks_of_a_page_run(path):
    done = subprocess.run([sys.executable, str(SOURCE), str(path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]


def test_there_are_pages():
    assert len(PAGES) > 15
