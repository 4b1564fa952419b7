"""Curate inputs: turn a curator's rows into rows for release."""

import math
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from jaxdpbo import cells as _cells
from jaxdpbo import input_noise, logs, not_private, sensitivity, silence, user_values
from jaxdpbo import notes as _notes
from jaxdpbo.guarantee import guarantees, release_key
from jaxdpbo.guarantee import recording as recordings
from jaxdpbo.ledger import ledger_file as ledgers
from jaxdpbo.noise import mechanisms
from jaxdpbo.noise.mechanisms import tables
from jaxdpbo.transforms import configs
from jaxdpbo.transforms.configs import Config
from jaxdpbo.types import ArrayLike

FAR = 2.0**100  # units from the centre where rows end, without a grid


class Metadata(NamedTuple):
    """Facts for the modeler besides the rows: public, or a post-processing of the rows.

    Attributes:
      kind: of the transform.
      distribution: of the noise on a row, or of the reported cell, for the modeler's kernel; otherwise None.
      projection: ``(d, r)``, the public ``P`` of ``private_projection``; otherwise None.
      scale: the unit of distance.
    """

    kind: str
    distribution: input_noise.NoiseDistribution | input_noise.Response | None
    projection: jax.Array | None
    scale: float


class CuratedRows(NamedTuple):
    """Rows ``z (n, r)`` to send, their public ``metadata``, and their ``guarantee``.

    ``notes`` say if the rows come from the ledger, and who charged them.
    """

    z: jax.Array
    metadata: Metadata
    guarantee: guarantees.Guarantee
    notes: _notes.Notes = ()


@silence.numeric_checks_off()
def curate(
    key: jax.Array | None,
    config: Config,
    inputs: ArrayLike,
    *,
    insecure_key: bool = False,
    ledger: recordings.Recording | None = None,
) -> CuratedRows:
    """Curate rows for release, once: A SECOND CALL IS A SECOND SPEND, and two releases of a row average noise away.

    Curation runs on the host. For exact noise rows become cells of the grid in NumPy's float64, under any JAX default
    dtype, and JAX adds noise to integers only. Rows count as the float64 numbers passed; arrays of 64-bit integers or
    of longer floats count in full.

    No value raises: a row with a number that is not finite, or in a list a row of another length, counts as the centre.

    Args:
      key: None draws from the operating system; a typed key is for tests, and the guarantee then assumes a secret key.
      config: of a transform.
      inputs: ``(n, d)``, private, in an order independent of the values: a sorted table reveals something of every row.
      insecure_key: permit a key of a generator without a security claim for exact noise.
      ledger: ``Recording(path, run)``: charge the release to a ledger (``ledger``). The same run then gets
        the same rows again, and a failed run has spent its charge. Pass no ``key``.

    Raises:
      ledger.LedgerError: the budget does not suffice, or the name stands for another release.
      TypeError: ``key`` is not a typed key, or of such a generator; ``key`` or ``inputs`` is traced.
      ValueError: ``inputs`` is not ``(n, d)``; the message shows no value.

    >>> from jaxdpbo import transforms
    >>> chosen = transforms.gaussian(centre=[0.0, 0.0], scale=1.0, epsilon=1.0, delta=1e-5)
    >>> transforms.curate(None, chosen, [[0.5, 1.0], [2.0, -1.0]]).z.shape
    (2, 2)
    """
    if ledger is not None and key is not None:
        raise ValueError("key must not be given with a ledger: the operating system then draws the key")
    raw = _to_rows(inputs, len(config.centre))
    key, guarantee = release_key.for_release(key, config.guarantee, insecure_key)
    shape = raw.shape
    if len(shape) != 2 or shape[0] < 1 or shape[1] != len(config.centre):
        raise ValueError(f"inputs must have shape (n, {len(config.centre)}), got {shape}")
    draw_key, noise_key = jax.random.split(key)
    if isinstance(draw_key, Tracer):
        raise TypeError("key must not be traced: curate runs on the host, outside jit, vmap and grad")
    charged, notes = None, ()
    if ledger is not None:
        ledger = recordings.check_recording(ledger)
        charged = recordings.charge_once(ledger, f"curate by {config.kind}", guarantee, config, shape)
    if charged is not None and charged.release is not None:
        released, projection = recordings.from_text(_shapes(config, shape), charged.release.get("rows"))
        notes = _notes.show(_notes.from_ledger(charged.run, charged.who, charged.when))
    else:
        with np.errstate(all="ignore"):
            released, projection = _release(draw_key, noise_key, raw, config)
        if ledger is not None:
            assert charged is not None
            content = {"rows": recordings.to_text((released, projection))}
            stored = ledgers.store_release(ledger.path, ledger.run, content, hash=charged.hash)
            released, projection = recordings.from_text(_shapes(config, shape), stored.get("rows"))
        logs.released(f"{shape[0]} rows by {config.kind}")
    metadata = Metadata(config.kind, _distribution(config, projection), projection, config.scale)
    return CuratedRows(released, metadata, guarantee, notes)


def project(key: jax.Array, config: Config, inputs: jax.Array) -> jax.Array:
    """Return the rows of ``random_projection`` alone, in JAX's default dtype: traceable, NO guarantee. For attacks.

    Kharkovskii et al. (2020), Algorithm 1, lines 2 to 10.

    >>> import jax
    >>> import jax.numpy as jnp
    >>> from jaxdpbo import transforms
    >>> config = transforms.random_projection(dimension=3, projected=2, epsilon=1.0, delta=1e-5)
    >>> transforms.project(jax.random.key(0), config, jnp.ones((4, 3))).shape
    (4, 2)

    Args:
      key: a typed key.
      config: of ``random_projection``.
      inputs: ``(n, d)``.

    Returns:
      ``z (n, r)``.
    """
    rows = jnp.asarray(inputs, jnp.result_type(float)) / config.scale
    rows = jnp.where(jnp.isfinite(jnp.linalg.norm(rows, axis=1, keepdims=True)), rows, 0.0)
    centred = rows - jnp.mean(rows, axis=0, keepdims=True)
    left, singular, right = jnp.linalg.svd(centred, full_matrices=False)
    raised = jnp.sqrt(jnp.square(singular) + config.threshold**2)
    values = jnp.where(jnp.min(singular) >= config.threshold, singular, raised)
    matrix = jax.random.normal(key, (rows.shape[1], config.dimension), rows.dtype)
    inflated = jnp.matmul(left * values[None], right, precision="highest")
    return jnp.matmul(inflated, matrix, precision="highest") / math.sqrt(config.dimension)


def _release(draw_key, noise_key, raw, config):
    """Return rows for release, and the projection."""
    projection, stretch = None, 1.0
    if config.distribution is None:
        return project(draw_key, config, jnp.asarray(raw.astype(np.float64), jnp.result_type(float))), None
    rows = _to_standard(raw, config)
    if isinstance(config.distribution, input_noise.Response):
        return _respond(draw_key, rows, config.distribution, Fraction(config.grid_scale)), None
    if config.kind == "private_projection":
        drawn = jax.random.normal(draw_key, (rows.shape[1], config.dimension), jnp.result_type(float))
        projection = drawn / config.dimension**0.5
        stretch = sensitivity.projected_row(projection)
        rows = rows @ np.asarray(projection, np.float64)
    if not config.cell:
        distribution = config.distribution._replace(scale=config.distribution.scale * stretch)
        return _to_default_dtype(rows) + input_noise.draw_noise(noise_key, distribution, len(rows)), projection
    cells = np.floor(np.clip(rows / stretch, -configs.END, configs.END)).astype(np.int32)
    return _to_default_dtype((_add_noise(noise_key, cells, config) + 0.5) * (config.cell * stretch)), projection


def check(config: Config, inputs: ArrayLike) -> not_private.NotPrivateCheck:
    """NOT PRIVATE: count the rows that ``curate`` would move before it adds noise, for their owner alone.

    A row with a number that is not finite counts as the centre, and a row outside of ``radius`` as its nearest point in
    the ball. Spends nothing and writes nothing; ``curate`` does not call it. A centre, a unit or a radius that you mend
    after looking at protected rows is no longer public.

    >>> from jaxdpbo import transforms
    >>> chosen = transforms.product_laplace(centre=[0.0, 0.0], scale=1.0, epsilon=1.0, radius=2.0)
    >>> print(*(found[1:3] for found in transforms.check(chosen, [[0.5, 1.0], [30.0, 0.0], ["x", 1.0]]).findings))
    ('with a coordinate that is no finite number', 1) ('outside of the radius 2.0', 1)

    Args:
      config: of a transform.
      inputs: ``(n, d)``, see ``curate``.

    Raises:
      ValueError: ``inputs`` is not ``(n, d)``.
    """
    rows = _to_rows(inputs, len(config.centre)).astype(np.float64)
    if rows.ndim != 2 or rows.shape[1] != len(config.centre):
        raise ValueError(f"inputs must have shape (n, {len(config.centre)}), got {rows.shape}")
    unread = ~np.all(np.isfinite(rows), axis=1)
    with np.errstate(all="ignore"):
        distances = np.linalg.norm((rows - np.asarray(config.centre)) / config.scale, axis=1)
    outside = ~unread & (distances > config.radius)
    words = {"with a coordinate that is no finite number": unread, f"outside of the radius {config.radius}": outside}
    found = [not_private.Finding("rows", what, int(np.sum(odd)), len(rows)) for what, odd in words.items()]
    return not_private.make_check(len(rows), found)


def _shapes(config: Config, shape: tuple[int, ...]) -> tuple[Any, Any]:
    """Return the shapes of ``_release``'s results."""
    count, dimension = shape
    dtype = jnp.result_type(float)
    projection = jax.ShapeDtypeStruct((dimension, config.dimension), dtype)
    released = jax.ShapeDtypeStruct((count, config.dimension), dtype)
    return released, projection if config.kind == "private_projection" else None


def _distribution(
    config: Config, projection: jax.Array | None
) -> input_noise.NoiseDistribution | input_noise.Response | None:
    """Return the distribution of a row's noise, as wide as the projection's largest stretch."""
    if projection is None or not isinstance(config.distribution, input_noise.NoiseDistribution):
        return config.distribution
    return config.distribution._replace(scale=config.distribution.scale * sensitivity.projected_row(projection))


def _add_noise(key, cells, config) -> np.ndarray:
    """Move cells by whole cells of noise; wrapping around 2^32 is post-processing."""
    if config.kind == "product_laplace":  # the table is traced: budgets do not compile anew
        return np.asarray(_add_laplace(key, cells, tables.pad_geometric(Fraction(config.grid_scale))))
    return np.asarray(_add_kind(key, cells, config.kind, config.grid_scale))


@jax.jit
def _add_laplace(key, cells, table):
    return cells + mechanisms.discrete_laplace_from_table(key, cells.shape, jnp.asarray(table))


@partial(jax.jit, static_argnums=(2, 3))
def _add_kind(key, cells, kind, grid_scale):
    if kind == "planar_laplace":
        return cells + mechanisms.planar_laplace(key, cells.shape[0], grid_scale)
    return cells + mechanisms.rounded_gaussian(key, cells.shape, grid_scale)


def _to_default_dtype(rows: np.ndarray) -> jax.Array:
    """Convert to JAX's default dtype, finite there."""
    dtype = jnp.result_type(float)
    most = float(jnp.finfo(dtype).max)
    return jnp.asarray(np.clip(rows, -most, most), dtype)


def _to_rows(inputs: Any, dimension: int) -> np.ndarray:
    """Convert inputs to rows of numbers; a list's row of another length becomes NaN. A frame's cells are read alone."""
    if isinstance(inputs, Tracer):
        raise TypeError("inputs must not be traced: curate runs on the host, outside jit, vmap and grad")
    if hasattr(inputs, "columns"):
        return _cells.frame_numbers(inputs)
    if hasattr(inputs, "toarray"):
        raise TypeError(f"inputs must be an array, a list or a frame, got {type(inputs).__name__}: pass .toarray()")
    rows = len(inputs) if isinstance(inputs, (list, tuple)) else 0
    with silence.silence():
        return user_values.to_numbers(inputs, (rows, dimension) if rows else None)


def _to_standard(inputs: np.ndarray, config: Config) -> np.ndarray:
    """Return float64 rows ``(n, d)`` from the centre, in cells, or in units of distance without a grid.

    Finite, and inside the ball. ``configs.rounding_bound`` is about these lines.
    """
    unit, limit, end = config.scale, config.radius, FAR
    if config.cell:
        unit, limit, end = configs.step(config), configs.limit(config), configs.END
    apart = _differences(inputs, config.centre)
    rows = apart / unit
    if math.isfinite(limit):
        largest = np.max(np.abs(apart), axis=1, keepdims=True)  # divide first, so that no square leaves the floats
        shape = apart / np.where(largest > 0, largest, 1.0)
        length = np.sqrt(np.sum(np.square(shape), axis=1, keepdims=True))
        rows = np.where(largest / unit * length > limit, shape * (limit / length), rows)
    return np.clip(rows, -end, end)


def _differences(inputs: np.ndarray, centre: np.ndarray) -> np.ndarray:
    """Subtract the centre from rows, each number rounded relative to itself; 0 for a row that is not finite."""
    if inputs.dtype.kind in "iu" and inputs.dtype.itemsize == 8:
        high, low = (inputs >> 32).astype(np.float64), (inputs & 0xFFFFFFFF).astype(np.float64)
        exact = np.abs(high) < 2**20  # float64 holds the whole number
        apart = np.where(exact, (high * 2.0**32 + low) - centre[None], (high * 2.0**32 - centre[None]) + low)
    else:
        wide = np.result_type(inputs.dtype, np.float64)
        numbers = inputs.astype(wide)
        usable = np.all(np.isfinite(numbers), axis=1, keepdims=True)
        apart = np.where(usable, numbers - centre[None], 0.0).astype(np.float64)
    most = np.finfo(np.float64).max
    return np.clip(apart, -most, most)


def _respond(key, rows, response, truth):
    nearest, least = np.zeros(len(rows), np.int32), np.full(len(rows), np.inf)
    for number, cell in enumerate(np.array(response.cells)):
        squared = np.sum(np.square(rows - cell[None]), axis=1)
        nearest, least = np.where(squared < least, np.int32(number), nearest), np.minimum(squared, least)
    cells, count = np.array(response.cells), len(response.cells) - 1
    if truth:
        turns = np.asarray(mechanisms.outcome(key, (len(rows),), (truth, *((1 - truth) / count,) * count)))
        return _to_default_dtype(cells[(nearest + turns) % len(cells)])
    truth_key, other_key = jax.random.split(key)
    tells = np.asarray(jax.random.uniform(truth_key, (len(rows),))) < response.truth
    others = np.asarray(jax.random.randint(other_key, (len(rows),), 1, len(cells)))
    return _to_default_dtype(cells[np.where(tells, nearest, (nearest + others) % len(cells))])
