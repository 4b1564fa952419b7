"""The papers' algorithms and their baselines, all with the same interface.

Each module has ``config(...)`` (host side: checks arguments, makes leaves canonical) and ``algorithm``, the record of
its functions.
"""
