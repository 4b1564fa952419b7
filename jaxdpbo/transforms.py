"""Transforms of a curator's rows before they leave: the published random projection, and sound transforms."""

from jaxdpbo import _namespace
from jaxdpbo.privacy._transforms import (
    Config,
    CuratedRows,
    Metadata,
    curate,
    gaussian,
    planar_laplace,
    private_projection,
    product_laplace,
    project,
    random_projection,
    randomised_response,
    threshold,
)

__all__ = [
    "Config",
    "CuratedRows",
    "Metadata",
    "curate",
    "gaussian",
    "planar_laplace",
    "private_projection",
    "product_laplace",
    "project",
    "random_projection",
    "randomised_response",
    "threshold",
]
__dir__ = _namespace.list_public(__name__)
