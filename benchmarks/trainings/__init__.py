"""Trainings of other libraries for ``tune_and_train``: docs/tutorials/libraries.md shows these files."""
