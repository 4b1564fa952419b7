"""The curator's one act: rows become what may leave."""

import math
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxdpbo import laws
from jaxdpbo.privacy import guarantee, keys, mechanisms, records
from jaxdpbo.privacy import ledger as privacy_ledger
from jaxdpbo.privacy.mechanisms import tables
from jaxdpbo.privacy.transforms.configs import Config


class Metadata(NamedTuple):
    """What the modeler is told besides the rows: public, or a post-processing of what it is told.

    Attributes:
      kind: of the transform.
      law: of the noise on a row, or of the cell it names, for the modeler's kernel; None where there is none.
      projection: ``(d, r)``, the public ``P`` of ``private_projection``; otherwise None.
      scale: the unit of distance.
    """

    kind: str
    law: laws.Law | laws.Response | None
    projection: jax.Array | None
    scale: float


class Curated(NamedTuple):
    """``z (n, r)`` to be sent, its public ``metadata``, and under which ``guarantee``."""

    z: jax.Array
    metadata: Metadata
    guarantee: guarantee.Guarantee


def curate(
    key: jax.Array | None,
    config: Config,
    inputs: Any,
    *,
    insecure_key: bool = False,
    ledger: str | Path | None = None,
    run: str | None = None,
) -> Curated:
    """What may leave, once: A SECOND CALL IS A SECOND SPEND, and two releases of one row average their noise away.

    Nothing about the values raises: a row with a number that is not finite counts as the centre.

    Args:
      key: None draws one from the operating system; a typed key is for tests, and the guarantee then rests on its
        being secret.
      config: of a transform.
      inputs: ``(n, d)``, private, in an order that says nothing of them: a sorted table tells on every row.
      insecure_key: permit a key of a generator without a security claim where the noise is exact.
      ledger: charge the release there (``privacy.ledger``); the same ``run`` is then given the same rows again. No
        ``key`` may be given.
      run: its name in the ledger, and of these inputs: needed there.

    Raises:
      ledger.Refused: the budget does not suffice, or the name stands for another release.
      TypeError: ``key`` is not a typed key, or of such a generator.
      ValueError: ``inputs`` is not ``(n, d)``; it says no value.
    """
    if ledger is not None and key is not None:
        raise ValueError("key must not be given with a ledger: a release on record draws from the operating system")
    key, statement = keys.for_release(key, config.guarantee, insecure_key)
    raw = _numbers(inputs)
    if raw is None:
        raise TypeError("inputs must be an array (n, d) of real numbers")
    shape = raw.shape
    if len(shape) != 2 or shape[0] < 1 or shape[1] != len(config.centre):
        raise ValueError(f"inputs must have shape (n, {len(config.centre)}), got {shape}")
    charged = None if ledger is None else records.charge(ledger, run, f"curate by {config.kind}", statement, config)
    rows = _standard(raw, config)
    draw_key, noise_key = jax.random.split(key)
    law, projection, cell = config.law, None, config.cell
    if law is None:
        released = _projected(draw_key, rows, config)
    elif isinstance(law, laws.Response):
        released = _responded(draw_key, rows, law, Fraction(config.spread))
    else:
        if config.kind == "private_projection":
            projection = jax.random.normal(draw_key, (shape[1], config.dimension), rows.dtype) / config.dimension**0.5
            stretch = _stretch(projection)
            law, cell = law._replace(scale=law.scale * stretch), cell * stretch
            rows = jnp.matmul(rows, projection, precision="highest")
        if cell:
            table = jnp.asarray(tables.padded(Fraction(config.spread))) if config.kind == "product_laplace" else None
            spread = None if config.kind == "product_laplace" else config.spread
            released = _released(noise_key, rows, cell, table, config.kind, spread)
        else:
            released = rows + laws.draw(noise_key, law, len(rows))
    if charged is not None and ledger is not None:
        payload = {"rows": records.as_text((released, projection))}
        stored = privacy_ledger.store_release(ledger, charged.run, payload)
        released, projection = records.from_text((released, projection), stored["rows"])
        if projection is not None and isinstance(
            config.law, laws.Law
        ):  # its stretch is that of the projection drawn first
            law = config.law._replace(scale=config.law.scale * _stretch(projection))
    return Curated(released, Metadata(config.kind, law, projection, config.scale), statement)


def _stretch(projection: jax.Array) -> float:
    """The largest singular value, and more than its own rounding."""
    return float(jnp.linalg.norm(projection, ord=2)) * (1 + 2.0**-16)


@partial(jax.jit, static_argnums=(4, 5))
def _released(key, rows, cell, table, kind, spread):
    """Rows rounded down to cells, noised by whole cells, and put in the middle of the cell that they are in then."""
    end = 2.0**29 if rows.dtype == jnp.float64 else 2.0**22  # beyond, floats would round by cells; rows end there
    whole = jnp.clip(jnp.floor(rows / cell), -end, end).astype(jnp.int32)
    if kind == "planar_laplace":
        noise = mechanisms.planar_laplace(key, rows.shape[0], spread)
    elif kind == "product_laplace":
        noise = mechanisms.discrete_laplace_of(key, rows.shape, table)  # traced: budgets do not compile anew
    else:
        noise = mechanisms.discrete_gaussian(key, rows.shape, spread)
    return ((whole + noise).astype(rows.dtype) + 0.5) * cell


def _numbers(inputs: Any) -> np.ndarray | jax.Array | None:
    """As an array, or None: what NumPy would say of values, and chain to what we say, quotes them."""
    if isinstance(inputs, jax.Array):  # a traced one, too
        return inputs
    try:
        array = np.asarray(inputs)
        return array.astype(np.float64) if array.dtype.kind in "biufV" and not array.dtype.names else None
    except (TypeError, ValueError, OverflowError):
        return None


def _standard(inputs: Any, config: Config) -> jax.Array:
    """Rows ``(n, d)`` from the centre in units of distance, inside the ball, finite."""
    raw = jnp.asarray(inputs, jnp.result_type(float))
    rows = (raw - jnp.asarray(config.centre, raw.dtype)[None]) / config.scale
    length = jnp.linalg.norm(rows, axis=1, keepdims=True)
    usable = jnp.isfinite(length)
    rows = jnp.where(usable, rows, 0.0)
    return rows * jnp.where(usable & (length > config.radius), config.radius / length, 1.0)


def _projected(key, rows, config):
    """Algorithm 1, lines 2 to 10."""
    centred = rows - jnp.mean(rows, axis=0, keepdims=True)
    left, singular, right = jnp.linalg.svd(centred, full_matrices=False)
    raised = jnp.sqrt(jnp.square(singular) + config.threshold**2)
    values = jnp.where(jnp.min(singular) >= config.threshold, singular, raised)
    matrix = jax.random.normal(key, (rows.shape[1], config.dimension), rows.dtype)
    inflated = jnp.matmul(left * values[None], right, precision="highest")
    return jnp.matmul(inflated, matrix, precision="highest") / math.sqrt(config.dimension)


def _responded(key, rows, response, truth):
    cells = jnp.asarray(response.cells, rows.dtype)
    nearest = jax.lax.map(lambda row: jnp.argmin(jnp.sum(jnp.square(cells - row[None]), axis=1)), rows)
    if truth:
        count = len(cells) - 1
        turns = mechanisms.outcome(key, (len(rows),), (truth, *((1 - truth) / count,) * count))
        return cells[(nearest + turns) % len(cells)]
    truth_key, other_key = jax.random.split(key)
    tells = jax.random.uniform(truth_key, (len(rows),)) < response.truth
    others = jax.random.randint(other_key, (len(rows),), 1, len(cells))
    return cells[jnp.where(tells, nearest, (nearest + others) % len(cells))]
