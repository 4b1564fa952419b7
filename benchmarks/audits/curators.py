"""What a curator may do to its rows: somebody who knows every other row, and all that is public, tells one row."""

import math
from collections.abc import Callable

import jax
import numpy as np

from benchmarks.audits.rows import BLOCK, Row, Scores
from jaxdpbo import transforms
from jaxdpbo.privacy import _auditing

EPSILON, DELTA = 2.0, 1e-3
CENTRE = np.zeros(2)
CELLS = np.array([[0.0, 0.0], [5.0, 0.0], [0.0, 5.0]])


def rows() -> list[Row]:
    common = {"centre": CENTRE, "scale": 1.0}
    normal = common | {"epsilon": EPSILON, "delta": DELTA}
    along, across = np.array([1.0, 0.0]), np.full(2, math.sqrt(0.5))  # across: the longest in l1 norm
    respond = transforms.randomised_response(epsilon=EPSILON, cells=CELLS, **common)
    return [
        _noised("product_laplace, exact", transforms.product_laplace(epsilon=EPSILON, **common), across),
        _noised("product_laplace, float", transforms.product_laplace(epsilon=EPSILON, noise="float", **common), across),
        _noised("planar_laplace, exact", transforms.planar_laplace(epsilon=EPSILON, **common), along),
        _noised("gaussian, exact", transforms.gaussian(**normal), along),
        _noised("gaussian, float", transforms.gaussian(noise="float", **normal), along),
        _noised("private_projection, exact", transforms.private_projection(projected=1, **normal), along),
        Row("randomised_response, exact", respond.guarantee, lambda trials: _responses(respond, trials)),
    ]


def _noised(name: str, chosen: transforms.Config, apart: np.ndarray) -> Row:
    """A row at the centre or a unit of distance away: the likelihood ratio of the distribution that the metadata say.

    Scores of noise in floating point are rounded: its claim is of ideal noise, and the last bits are not
    (``failures``). Under ``private_projection`` the unit lies along the public projection, which is drawn first: the
    worst direction.
    """

    def scores(trials):
        def block(key):
            direction = apart
            if chosen.kind == "private_projection":
                projection = _curated(key, chosen, CENTRE, CENTRE).metadata.projection
                direction = np.asarray(projection)[:, 0] / np.linalg.norm(projection)
            curated = _curated(key, chosen, CENTRE, direction)
            return np.asarray(curated.z), curated.metadata, direction

        found = _in_blocks(lambda key: _ratios(*block(key)), trials)
        return found if chosen.cell else (np.round(found[0], 3), np.round(found[1], 3))

    return Row(name, chosen.guarantee, scores)


def _ratios(z, metadata, moved):
    distribution = metadata.distribution
    if metadata.projection is not None:
        moved = moved @ np.asarray(metadata.projection)
    if distribution.kind == "gaussian":
        return -(z @ moved) / distribution.scale**2
    if distribution.kind == "product_laplace":
        return np.sum(np.abs(z - moved) - np.abs(z), axis=1) / distribution.scale
    return (np.linalg.norm(z - moved, axis=1) - np.linalg.norm(z, axis=1)) / distribution.scale


def _responses(chosen, trials):
    """A row in one cell or in another."""

    def block(key):
        z = np.asarray(_curated(key, chosen, CELLS[0], CELLS[1]).z)
        return np.argmin(np.sum(np.square(z[:, None] - CELLS[None]), axis=2), axis=1)

    return _auditing.outcome_scores(*_in_blocks(block, trials))


def _curated(key, chosen, first, second) -> transforms.CuratedRows:
    """Half a block of each: rows are noised each by itself."""
    return transforms.curate(key, chosen, np.repeat([first, second], BLOCK, axis=0), insecure_key=True)


def _in_blocks(block: Callable[[jax.Array], np.ndarray], trials: int) -> Scores:
    keys = jax.random.split(jax.random.key(2), -(-trials // BLOCK))
    found = np.stack([block(key).reshape(2, BLOCK) for key in keys])
    return found[:, 0].reshape(-1)[:trials], found[:, 1].reshape(-1)[:trials]
