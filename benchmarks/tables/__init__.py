"""The figures of the documents, read from docs/results: tables (``BLOCKS``) and figures in ``SENTENCES``."""

from benchmarks.tables import (
    facts,
    least_epsilon,
    open_choices,
    papers,
    private_models,
    real_files,
    scaling,
    search,
    sentences,
    silos,
    spaces,
    speed,
    summary,
    tasks,
    tuning,
    verdicts,
)

SENTENCES = sentences.SENTENCES

MODULES = (
    papers, open_choices, search, spaces, least_epsilon, private_models, real_files, tasks, tuning, speed, scaling,
    silos, summary, facts, verdicts,
)  # fmt: skip
BLOCKS = {name: block for module in MODULES for name, block in module.BLOCKS.items()}
