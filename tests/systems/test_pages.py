"""Every Python block of README and of the pages runs alone, in a process for each page.

Compiled without optimisations, since this is about names, arguments and errors. ``scripts/docs`` runs the notebooks as
their readers do.
"""

import os
import subprocess
import sys

import pytest
from compilation import UNOPTIMISED
from page_blocks import SOURCE, run_blocks

PAGES = [path for path in run_blocks.pages() if run_blocks.blocks(path)]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_the_blocks_of_a_page_run(path):
    cache = SOURCE.parent.parent / ".cache" / "jax-unoptimised"
    environment = os.environ | UNOPTIMISED | {"JAX_COMPILATION_CACHE_DIR": str(cache)}
    done = subprocess.run([sys.executable, str(SOURCE), str(path)], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]


def test_there_are_pages():
    assert len(PAGES) > 10
