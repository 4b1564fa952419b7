"""What the documents say in figures, written from docs/results: a block of Markdown for each name of ``BLOCKS``."""

from benchmarks.tables import facts, papers, scaling, search, speed, tuning, verdicts

BLOCKS = papers.BLOCKS | search.BLOCKS | tuning.BLOCKS | speed.BLOCKS | scaling.BLOCKS | facts.BLOCKS | verdicts.BLOCKS
