"""What the documents say in figures, out of docs/results: tables (``BLOCKS``) and figures in ``SENTENCES``."""

from benchmarks.tables import aims, facts, limits, papers, scaling, search, sentences, speed, tuning, verdicts

SENTENCES = sentences.SENTENCES

BLOCKS = {
    name: block
    for module in (papers, search, tuning, speed, scaling, aims, facts, limits, verdicts)
    for name, block in module.BLOCKS.items()
}
