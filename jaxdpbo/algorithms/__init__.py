"""The papers' algorithms and their baselines: siblings of equal shape.

Each module has ``config(...)`` (host side: validates, makes leaves canonical) and ``algorithm``, the record of
its five functions.
"""
