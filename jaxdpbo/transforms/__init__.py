"""Transforms of a curator's inputs before release: the published random projection, and sound transforms.

Kharkovskii, Dai and Low (2020), "Private outsourced Bayesian optimization". Row ``i`` of ``inputs (n, d)`` is a
user's; ``curate`` turns all rows into rows ``z_i`` for a modeler.

=======================  ==================================================  ========================================
transform                released                                            guarantee
=======================  ==================================================  ========================================
``random_projection``    ``(x - mean) M / sqrt(r)``, the paper's             NONE: a single affine map for all rows,
                                                                             revealed by ``d + 1`` known rows
``product_laplace``      ``x + w``, each coordinate Laplace                  metric ``epsilon``-DP
``planar_laplace``       ``x + w``, ``w`` of density ``exp(-epsilon |w|)``   metric ``epsilon``-DP
``gaussian``             ``x + w``, normal, exact calibration                ``mu``-GDP
``private_projection``   ``x P + w``, ``P`` public, ``w`` normal             ``mu``-GDP
``randomised_response``  a public cell, more often the true cell             ``epsilon``-DP, replace-one
=======================  ==================================================  ========================================

Sound transforms noise each row by itself, so the guarantee of a row holds for all rows. A unit of distance is
``scale`` times the unit of the inputs, and ``centre`` is the origin of distances: both public, chosen without the
inputs. Estimating them from the inputs would be a release of its own, paid for by nothing here.

With ``noise="exact"`` rows are rounded down to cells of a grid, in float64 on the host, and noised there by integers
(``mechanisms.discrete_noise``). A little more noise pays for the distance that rounding adds to two rows, float64's
own rounding included: ``configs.rounding_bound``, checked for every config. Metric DP then holds for rows a unit of
distance apart or more, and nearer rows are no easier to distinguish than those.
"""

from jaxdpbo import namespace
from jaxdpbo.transforms.configs import (
    NOISES,
    PROJECTED,
    ROWS,
    Config,
    gaussian,
    largest_rank,
    planar_laplace,
    private_projection,
    product_laplace,
    random_projection,
    randomised_response,
    threshold,
)
from jaxdpbo.transforms.curation import CuratedRows, Metadata, check, curate, project

__all__ = [
    "Config",
    "CuratedRows",
    "Metadata",
    "check",
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
__dir__ = namespace.list_public(__name__)
