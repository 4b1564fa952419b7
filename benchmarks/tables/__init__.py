"""The figures of the documents, read from docs/results: tables (``BLOCKS``) and figures in ``SENTENCES``."""

from benchmarks.tables import (
    facts,
    least_epsilon,
    papers,
    private_models,
    scaling,
    search,
    sentences,
    speed,
    summary,
    tuning,
    verdicts,
)

SENTENCES = sentences.SENTENCES

BLOCKS = {
    name: block
    for module in (papers, search, least_epsilon, private_models, tuning, speed, scaling, summary, facts, verdicts)
    for name, block in module.BLOCKS.items()
}
