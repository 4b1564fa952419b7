"""The released file: written once, fully checked by its reader."""

import contextlib
import hashlib
import json
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxdpbo import checks, files, input_noise, transforms
from jaxdpbo.guarantee import guarantees
from jaxdpbo.ledger import ledger_file
from jaxdpbo.outsourcing.protocol import SCHEMA, VERSION, ProtocolError, expect_schema, parse


class Publication(NamedTuple):
    """The released file: its content, and the SHA-256 of its bytes."""

    curated: transforms.CuratedRows
    digest: str


def publish(path: str | Path, curated: transforms.CuratedRows) -> None:
    """Write the result of ``curate`` to a new file, completely or not at all.

    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from jaxdpbo import outsourcing, transforms
    >>> config = transforms.planar_laplace(centre=[0.0, 0.0], scale=1.0, epsilon=5.0)
    >>> curated = transforms.curate(None, config, np.zeros((3, 2)))
    >>> path = Path(tempfile.mkdtemp()) / "released.jsonl"
    >>> outsourcing.publish(path, curated)
    >>> len(path.read_text().splitlines())
    4

    Raises:
      FileExistsError: the file exists. A second release of the same rows is a second spend.
    """
    path = Path(path)
    distribution, projection = curated.metadata.distribution, curated.metadata.projection
    header = {
        "schema": SCHEMA,
        "version": VERSION,
        "rows": len(curated.z),
        "dimension": curated.z.shape[1],
        "kind": curated.metadata.kind,
        "distribution": None if distribution is None else distribution._asdict(),
        "projection": None if projection is None else np.asarray(projection, float).tolist(),
        "scale": curated.metadata.scale,
        "guarantee": curated.guarantee.to_dict(),
    }
    lines = [json.dumps(header), *(json.dumps(row) for row in np.asarray(curated.z, float).tolist())]
    files.write_once(path, ("\n".join(lines) + "\n").encode())


def read_publication(path: str | Path) -> Publication:
    """Read and check a file written by ``publish``.

    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from jaxdpbo import outsourcing, transforms
    >>> config = transforms.planar_laplace(centre=[0.0, 0.0], scale=1.0, epsilon=5.0)
    >>> curated = transforms.curate(None, config, np.zeros((3, 2)))
    >>> path = Path(tempfile.mkdtemp()) / "released.jsonl"
    >>> outsourcing.publish(path, curated)
    >>> outsourcing.read_publication(path).curated.z.shape
    (3, 2)

    Raises:
      ProtocolError: the file is no released file, has another version, or is damaged.
    """
    path = Path(path)
    content = path.read_bytes()
    try:
        first, *rest = content.decode().splitlines()
        header = parse(first)
        expect_schema(header, path.name)
        z = _finite("rows", [_vector(line, header["dimension"]) for line in rest])
        if len(z) != header["rows"]:
            raise ProtocolError(f"{path.name} has {len(z)} rows, its header says {header['rows']}")
        distribution = (
            None if header["distribution"] is None else input_noise.distribution_from_dict(header["distribution"])
        )
        projection = None if header["projection"] is None else _projection(header)
        scale = checks.positive("scale", header["scale"])
        metadata = transforms.Metadata(str(header["kind"]), distribution, projection, scale)
        guarantee = guarantees.guarantee_from_dict(header["guarantee"])
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise ProtocolError(f"{path.name} is damaged: {error}") from error
    curated = transforms.CuratedRows(z, metadata, guarantee)
    return Publication(curated, hashlib.sha256(content).hexdigest())


def _projection(header: dict[str, Any]) -> jax.Array:
    projection, dimension = _finite("projection", header["projection"]), header["dimension"]
    if projection.ndim != 2 or projection.shape[1] != dimension:
        raise ValueError(f"projection must have the shape (d, {dimension}), got {projection.shape}")
    return projection


def _finite(name: str, numbers: Any) -> jax.Array:
    """Finite numbers of JAX's default float, which may hold less than the writer's."""
    dtype = jnp.result_type(float)
    with np.errstate(over="ignore"):
        array = checks.reals(name, numbers).astype(dtype)
    if not np.all(np.isfinite(array)):
        raise ValueError(f"{name} must be finite numbers of {dtype.name}")
    return jnp.asarray(array)


def _vector(line: str, dimension: int) -> list[float]:
    with contextlib.suppress(ValueError):
        numbers = ledger_file.parse_json(line)
        if type(numbers) is list and len(numbers) == dimension and {*map(type, numbers)} <= {int, float}:
            return list(map(float, numbers))
    raise ValueError(f"a row must be {dimension} finite numbers")
