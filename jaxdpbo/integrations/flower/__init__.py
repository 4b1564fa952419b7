"""Searches among silos that Flower connects: messages alone travel through Flower; needs the ``flower`` extra.

Each silo answers in a process of its own (``silos.serve_silo``). The Flower app relays messages to this process, so the
code that Flower's server sends to a silo needs neither rows nor keys.
"""

from jaxdpbo import namespace
from jaxdpbo.integrations.flower.apps import client_app, run_on_grid

__all__ = ["client_app", "run_on_grid"]
__dir__ = namespace.list_public(__name__)
