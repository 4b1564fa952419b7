"""Searches among silos that share neither rows nor sums: the server sees the sum of all, with the noise of all.

Agree on the terms (``agree``, or ``save_agreement`` in a file), answer requests in each silo (``Silo``,
``serve_silo``), and run the search on the server (``run_on_sockets``, or ``run_silos`` with messages that you send).
Needs the extra ``silos``.
"""

from jaxdpbo import namespace
from jaxdpbo.silos.agreement import Agreement, SiloGuarantees, agree
from jaxdpbo.silos.conversation import Status
from jaxdpbo.silos.coordinator import SiloError, SiloRun, run_silos
from jaxdpbo.silos.messages import SENTENCES, Credential, Refused
from jaxdpbo.silos.roster import Member, Roster, create_identity, load_roster, make_roster
from jaxdpbo.silos.serving import ask_status, run_on_sockets
from jaxdpbo.silos.silo import Silo
from jaxdpbo.silos.sockets import forward, parse_answer, parse_credential, serve_silo
from jaxdpbo.silos.terms import load_agreement, save_agreement

__all__ = [
    "SENTENCES",
    "Agreement",
    "Credential",
    "Member",
    "Refused",
    "Roster",
    "Silo",
    "SiloError",
    "SiloGuarantees",
    "SiloRun",
    "Status",
    "agree",
    "ask_status",
    "create_identity",
    "forward",
    "load_agreement",
    "load_roster",
    "make_roster",
    "parse_answer",
    "parse_credential",
    "run_on_sockets",
    "run_silos",
    "save_agreement",
    "serve_silo",
]
__dir__ = namespace.list_public(__name__)
