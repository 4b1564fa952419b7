"""What a curator may do to its inputs before they leave: the published random projection, and sound transforms.

Kharkovskii, Dai and Low (2020), "Private outsourced Bayesian optimization". Row ``i`` of ``inputs (n, d)`` is one
person's; ``curate`` turns all of them into rows ``z_i`` that a modeler may see.

=======================  ================================================  ========================================
transform                released                                          guarantee
=======================  ================================================  ========================================
``random_projection``    ``(x - mean) M / sqrt(r)``, the paper's           NONE: one affine map for all rows, which
                                                                           ``d + 1`` known rows reveal
``product_laplace``      ``x + w``, each coordinate Laplace                metric ``epsilon``-DP
``planar_laplace``       ``x + w``, ``w`` of density ``exp(-epsilon |w|)``   metric ``epsilon``-DP
``gaussian``             ``x + w``, normal, exact calibration              ``mu``-GDP
``private_projection``   ``x P + w``, ``P`` public, ``w`` normal           ``mu``-GDP
``randomised_response``  a public cell, the true one more often            ``epsilon``-DP, replace-one
=======================  ================================================  ========================================

The sound ones noise each row by itself, so the guarantee of all rows is that of one. A unit of distance is ``scale``
times the unit of the inputs, and ``centre`` is where they are measured from: both public, chosen without the inputs.
Estimating them from the inputs would be a release of its own, that nobody here pays for.

With ``noise="exact"`` rows are rounded down to cells of a grid, in float64 on the host, and noised there by integers
(``mechanisms.discrete_noise``). What rounding adds to the distance of two rows is paid for by a little more noise,
float64's own included: ``configs.rounding_bound``, checked for every config. Metric DP then holds for rows a unit of
distance apart or more, and nearer ones are no easier to distinguish than those.
"""

from jaxdpbo.privacy.transforms.configs import (
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
from jaxdpbo.privacy.transforms.curation import Curated, Metadata, curate, project

__all__ = [
    "NOISES",
    "PROJECTED",
    "ROWS",
    "Config",
    "Curated",
    "Metadata",
    "curate",
    "gaussian",
    "largest_rank",
    "planar_laplace",
    "private_projection",
    "product_laplace",
    "project",
    "random_projection",
    "randomised_response",
    "threshold",
]
