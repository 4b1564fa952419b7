"""Features of a table, value by value; a dimension is ("number", low, high, log) or ("category", ...)."""

import math

KNOTS = 16
WAVES, SHARE = 64, 0.2


def features(columns, dimensions, frequencies=None):
    """Lists of features, of columns of clean values: floats, text, or None for a missing value."""
    blocks = len(dimensions) + 1
    norm = math.sqrt(SHARE / (1 - SHARE) * blocks / WAVES)
    rows = []
    for row in range(len(columns[0])):
        pairs = [(column[row], of) for column, of in zip(columns, dimensions, strict=True)]
        made = [feature for value, of in pairs for feature in _features(value, of)]
        numbers = [_place(value, of) for value, of in pairs if of[0] != "category"]
        if len(numbers) > 1:
            angles = [sum(a * b for a, b in zip(numbers, wave, strict=True)) for wave in zip(*frequencies, strict=True)]
            made += [norm * math.cos(angle) for angle in angles] + [norm * math.sin(angle) for angle in angles]
        rows.append(made)
    return rows


def kernel(first, second):
    """Of two numbers in [0, 1]."""
    apart = (first - second) ** 2
    return 0.5 * math.exp(-apart / 2 / 0.3**2) + 0.5 * math.exp(-apart / 2 / 0.07**2)


def cholesky(matrix):
    """The lower factor, by columns."""
    size = len(matrix)
    factor = [[0.0] * size for _ in range(size)]
    for row in range(size):
        for column in range(row + 1):
            rest = matrix[row][column] - sum(factor[row][k] * factor[column][k] for k in range(column))
            factor[row][column] = math.sqrt(rest) if row == column else rest / factor[column][column]
    return factor


_AT = [knot / (KNOTS - 1) for knot in range(KNOTS)]
_FACTOR = cholesky([[kernel(first, second) for second in _AT] for first in _AT])


def _place(value, dimension):
    _, low, high, log = dimension
    if value is None:
        return 0.5
    value = min(max(value, low), high)
    return math.log(value / low) / math.log(high / low) if log else (value - low) / (high - low)


def _features(value, dimension):
    kind, *rest = dimension
    if kind == "category":
        places = [0.0] * (len(rest) + 2)
        places[-2 if value is None else rest.index(value) if value in rest else -1] = 1.0
        return places
    if value is None:
        return [0.0] * KNOTS + [1.0]
    place = _place(value, dimension)
    hats = [max(0.0, 1.0 - abs(place - at) * (KNOTS - 1)) for at in _AT]
    smooth = [sum(hat * _FACTOR[row][column] for row, hat in enumerate(hats)) for column in range(KNOTS)]
    return [*smooth, 0.0]
