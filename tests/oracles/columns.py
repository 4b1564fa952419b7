"""Features of a table, value by value; a dimension is ("number", low, high, log) or ("category", ...)."""

import math

KNOTS = 6


def features(columns, dimensions):
    """Lists of features, of columns of clean values: floats, text, or None for a missing value."""
    return [
        [feature for column, of in zip(columns, dimensions, strict=True) for feature in _features(column[row], of)]
        for row in range(len(columns[0]))
    ]


def _features(value, dimension):
    kind, *rest = dimension
    if kind == "category":
        places = [0.0] * (len(rest) + 2)
        places[-2 if value is None else rest.index(value) if value in rest else -1] = 1.0
        return places
    low, high, log = rest
    if value is None:
        return [0.0] * (KNOTS + 1) + [1.0]
    value = min(max(value, low), high)
    place = math.log(value / low) / math.log(high / low) if log else (value - low) / (high - low)
    hats = []
    for knot in range(KNOTS):
        distance = abs(place - knot / (KNOTS - 1)) * (KNOTS - 1)
        hats.append(1.0 - distance if distance < 1 else 0.0)
    return [place, *hats, 0.0]
