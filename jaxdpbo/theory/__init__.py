"""Bounds proved in the papers, as functions of plain numbers."""

from typing import TYPE_CHECKING

from jaxdpbo import namespace

if TYPE_CHECKING:
    from jaxdpbo.theory import dp_gibo, dp_gp_ucb, po_gp_ucb

__all__ = ["dp_gibo", "dp_gp_ucb", "po_gp_ucb"]
__getattr__ = namespace.import_on_first_use(__name__, *__all__)
__dir__ = namespace.list_public(__name__)
