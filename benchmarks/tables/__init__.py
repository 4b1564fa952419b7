"""What the documents say in figures, written from docs/results: a block of Markdown for each name of ``BLOCKS``."""

from benchmarks.tables import aims, facts, papers, scaling, search, speed, tuning, verdicts

BLOCKS = {
    name: block
    for module in (papers, search, tuning, speed, scaling, aims, facts, verdicts)
    for name, block in module.BLOCKS.items()
}
