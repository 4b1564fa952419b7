"""Searches among silos that share neither rows nor sums: the server sees the sum of all, with the noise of all.

Agree on the terms (``agree``), answer requests in each silo (``Silo``, ``serve_silo``), and run the search on the
server (``run_silos``). Needs the extra ``silos``.
"""

from jaxdpbo import _namespace
from jaxdpbo.silos._agreement import Agreement, SiloGuarantees, agree
from jaxdpbo.silos._coordinator import SiloError, SiloRun, run_silos
from jaxdpbo.silos._messages import Credential, Refused
from jaxdpbo.silos._roster import Member, Roster, create_identity, load_roster, make_roster
from jaxdpbo.silos._silo import Silo
from jaxdpbo.silos._socket import forward, parse_answer, parse_credential, serve_silo

__all__ = [
    "Agreement",
    "Credential",
    "Member",
    "Refused",
    "Roster",
    "Silo",
    "SiloError",
    "SiloGuarantees",
    "SiloRun",
    "agree",
    "create_identity",
    "forward",
    "load_roster",
    "make_roster",
    "parse_answer",
    "parse_credential",
    "run_silos",
    "serve_silo",
]
__dir__ = _namespace.list_public(__name__)
