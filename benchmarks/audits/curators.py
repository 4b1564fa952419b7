"""What a curator may do to its rows: somebody who knows every other row, and all that is public, tells one row."""

import math
from collections.abc import Callable

import jax
import numpy as np

from benchmarks.audits.rows import BLOCK, Row, Scores
from jaxdpbo import audit, transforms

EPSILON, DELTA = 2.0, 1e-3
CENTRE = np.zeros(2)
CELLS = np.array([[0.0, 0.0], [5.0, 0.0], [0.0, 5.0]])


def rows() -> list[Row]:
    common = {"centre": CENTRE, "scale": 1.0}
    normal = common | {"epsilon": EPSILON, "delta": DELTA}
    along, across = np.array([1.0, 0.0]), np.full(2, math.sqrt(0.5))  # across: the longest in l1 norm
    respond = transforms.randomised_response(epsilon=EPSILON, cells=CELLS, **common)
    return [
        _transform_row("product_laplace, exact", transforms.product_laplace(epsilon=EPSILON, **common), across),
        _transform_row(
            "product_laplace, float", transforms.product_laplace(epsilon=EPSILON, noise="float", **common), across
        ),
        _transform_row("planar_laplace, exact", transforms.planar_laplace(epsilon=EPSILON, **common), along),
        _transform_row("gaussian, exact", transforms.gaussian(**normal), along),
        _transform_row("gaussian, float", transforms.gaussian(noise="float", **normal), along),
        _transform_row("private_projection, exact", transforms.private_projection(projected=1, **normal), along),
        Row("randomised_response, exact", respond.guarantee, lambda trials: _responses(respond, trials)),
    ]


def _transform_row(name: str, chosen: transforms.Config, apart: np.ndarray) -> Row:
    """A row at the centre or a unit of distance away: the likelihood ratio of the distribution that the metadata say.

    Scores of noise in floating point are rounded: its claim is of ideal noise, and the last bits are not
    (``failures``). Under ``private_projection`` the unit lies along the public projection, which is drawn first: the
    worst direction.
    """

    def scores(trials):
        def block(key):
            direction = apart
            if chosen.kind == "private_projection":
                projection = _curate_pair(key, chosen, CENTRE, CENTRE).metadata.projection
                direction = np.asarray(projection)[:, 0] / np.linalg.norm(projection)
            curated = _curate_pair(key, chosen, CENTRE, direction)
            return np.asarray(curated.z), curated.metadata, direction

        ratios = _run_blocks(lambda key: _ratios(*block(key)), trials)
        return ratios if chosen.cell else (np.round(ratios[0], 3), np.round(ratios[1], 3))

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
        z = np.asarray(_curate_pair(key, chosen, CELLS[0], CELLS[1]).z)
        return np.argmin(np.sum(np.square(z[:, None] - CELLS[None]), axis=2), axis=1)

    return audit.outcome_scores(*_run_blocks(block, trials))


def _curate_pair(key, chosen, first, second) -> transforms.CuratedRows:
    """Half a block of each: rows are noised each by itself."""
    return transforms.curate(key, chosen, np.repeat([first, second], BLOCK, axis=0), insecure_key=True)


def _run_blocks(block: Callable[[jax.Array], np.ndarray], trials: int) -> Scores:
    keys = jax.random.split(jax.random.key(2), -(-trials // BLOCK))
    outputs = np.stack([block(key).reshape(2, BLOCK) for key in keys])
    return outputs[:, 0].reshape(-1)[:trials], outputs[:, 1].reshape(-1)[:trials]
