"""The objective and records of ``jaxdpbo demo``, and the example of ``jaxdpbo curator``."""

from jaxdpbo import namespace
from jaxdpbo.problems._datasets import Dataset, load_dataset
from jaxdpbo.problems._gp_draws import gp_draws, gp_grid
from jaxdpbo.problems._kernel_svr import kernel_svr_bounds, kernel_svr_loss

__all__ = ["Dataset", "gp_draws", "gp_grid", "kernel_svr_bounds", "kernel_svr_loss", "load_dataset"]
__dir__ = namespace.list_public(__name__)
