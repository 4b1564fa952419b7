"""Searches among silos that share neither rows nor sums: the server sees the sum of all, with the noise of all.

Agree on the terms (``agree``), answer requests in each silo (``Silo``, ``serve_silo``), and run the search on the
server (``run_silos``). Needs the extra ``silos``.
"""

from jaxdpbo import namespace
from jaxdpbo.silos.agreement import Agreement, SiloGuarantees, agree
from jaxdpbo.silos.coordinator import SiloError, SiloRun, run_silos
from jaxdpbo.silos.messages import Credential, Refused
from jaxdpbo.silos.roster import Member, Roster, create_identity, load_roster, make_roster
from jaxdpbo.silos.silo import Silo
from jaxdpbo.silos.sockets import forward, parse_answer, parse_credential, serve_silo

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
__dir__ = namespace.list_public(__name__)
