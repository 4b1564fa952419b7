"""The server's side of the conversation with silos, for all transports: who is there, and what each silo said last.

A transport reaches peers: sockets, or nodes. A peer speaks for a silo once it has shown the silo's signed key.
"""

import contextlib
import json
import os
import time
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from jaxdpbo import logs
from jaxdpbo.ledger import ledger_file
from jaxdpbo.silos import coordinator, sockets
from jaxdpbo.silos.agreement import Agreement
from jaxdpbo.silos.messages import SENTENCES, Credential, Refused, find_step
from jaxdpbo.silos.silo import is_proof, verify

LOOK, LONGEST_LOOK = 1.0, 30.0  # seconds between two looks for absent silos: each look doubles them
UNKNOWN = "?"  # a peer before it has shown whose key it has


class Transport(Protocol):
    """What carries messages."""

    def peers(self) -> Collection[Hashable]:
        """All that may be asked now."""
        ...

    def name(self, peer: Any) -> str | None:
        """The only silo that this peer may speak for, if the transport knows."""
        ...

    def ask(self, contents: Mapping[Any, bytes], seconds: float) -> Iterable[tuple[Hashable, bytes | None]]:
        """Send a message to each peer, and give the replies that come in time, by peer; None for an error."""
        ...


class Status(NamedTuple):
    """Where a run stands. All of it is public.

    Attributes:
      run: its name.
      state: "waiting" for silos, "summing", "released" or "stopped".
      step: the step that is next or in work, from 1.
      steps: of the run.
      attempts_left: the sums that the silos may still be asked for.
      here: the silos that are there.
      missing: the silos of the roster that are not.
      answered: the silos that answered the last sum.
      refusals: the last sentence of ``SENTENCES`` for each silo that did not answer since.
      healthy: True if the silos that are there suffice for a sum, and the attempts that are left for the steps.
    """

    run: str
    state: str
    step: int
    steps: int
    attempts_left: int
    here: tuple[str, ...]
    missing: tuple[str, ...]
    answered: tuple[str, ...]
    refusals: dict[str, str]
    healthy: bool

    def to_json(self) -> str:
        """The status as one line of JSON."""
        return json.dumps(self._asdict())

    def __str__(self) -> str:
        """The status in one line, and a line for each refusal."""
        lines = [
            f"run {self.run!r}: {self.state}, step {self.step} of {self.steps}, {self.attempts_left} attempts left; "
            f"there: {', '.join(self.here) or 'none'}; missing: {', '.join(self.missing) or 'none'}; "
            f"answered: {', '.join(self.answered) or 'none'}",
            *(f"  {name}: {sentence}" for name, sentence in self.refusals.items()),
        ]
        return "\n".join(lines)


FIELDS = {
    "run": str, "state": str, "step": int, "steps": int, "attempts_left": int, "here": list, "missing": list,
    "answered": list, "refusals": dict, "healthy": bool,
}  # fmt: skip


def parse_status(content: bytes) -> Status:
    """Read a status from ``Status.to_json``. Raise a ValueError for other bytes."""
    fields = ledger_file.parse_fields(content, FIELDS)
    for name in ("here", "missing", "answered"):
        fields[name] = tuple(map(str, fields[name]))
    return Status(**fields)


class Conversation:
    """Who speaks for which silo, and the status. Ask it for keys before each sum, and give it each sum's requests.

    The first sum is of all silos of the roster: nothing is asked before, so nobody is charged. Later sums are of those
    that are there.
    """

    def __init__(
        self,
        agreement: Agreement,
        transport: Transport,
        *,
        progress: coordinator.Progress,
        wait: float,
        patience: float,
        tell: Callable[[Status], None],
    ) -> None:
        """Begin, or go on after the ``progress`` of an earlier server."""
        self._agreement, self._transport, self._tell = agreement, transport, tell
        self._wait, self._patience, self._attempts = wait, patience, progress.attempts
        self._cards: dict[Hashable, tuple[str, Credential]] = {}
        self._expected = set(agreement.roster.names)
        self._mute = set[Hashable]()  # peers that did not reply at all: each costs the whole wait
        self._refused = set[Hashable]()  # are asked no more
        self._last: dict[str, str] = {}
        steps = agreement.config.steps
        step = min(progress.sums + 1, steps)
        self.status = Status(agreement.run, "waiting", step, steps, 0, (), (), (), {}, healthy=False)

    def find(self) -> dict[str, Credential]:
        """The keys of the silos that are there.

        Raises:
          SiloError: silos of the roster did not come before the first sum. Nobody was asked or charged.
        """
        begun = self._attempts > 0
        deadline, pause = time.monotonic() + (self._wait if begun else self._patience), LOOK
        while True:
            self._look()
            credentials = dict(self._cards.values())
            if self._expected <= credentials.keys():
                return credentials
            absent = ", ".join(sorted(self._expected - credentials.keys()))
            self._update(state="waiting")
            if (left := deadline - time.monotonic()) <= 0:
                if not begun:
                    raise coordinator.SiloError(f"not there before the first sum: {absent}; no silo is charged")
                self._expected = set(credentials)
                return credentials
            logs.waits(self._agreement.run, absent)
            time.sleep(min(pause, left))
            pause = min(2 * pause, LONGEST_LOOK)

    def send(self, requests: Mapping[str, bytes]) -> dict[str, bytes]:
        """Pass requests to silos, and return the answers that came in time, of the agreed length."""
        self._attempts += 1
        step = find_step(next(iter(requests.values())), self._agreement.config.steps)
        self._update(state="summing", step=(step or 0) + 1, answered=())
        nodes, answers = self._names(), {}
        silent = {nodes[name]: name for name in requests}
        for name, content in requests.items():
            logs.message("sent", name, step, "a request", len(content))
        for peer, content in self._transport.ask({nodes[name]: requests[name] for name in requests}, self._wait):
            if content is None or peer not in silent:
                continue
            name, what = silent.pop(peer), "an answer"
            try:
                answer = sockets.parse_answer(content)
                if len(answer) != self._agreement.answer_size:
                    raise Refused("length")
                answers[name] = answer
                self._last.pop(name, None)
            except Refused as refusal:
                what = str(refusal)
                self._last[name] = refusal.kind
                self._refused.add(peer)
                self._expected.discard(name)
            logs.message("received", name, step, what, len(content))
            self._update(answered=tuple(sorted(answers)))
        for peer, name in silent.items():  # gone, or slow: meet again
            del self._cards[peer]
            self._last[name] = "silent"
        self._update()
        return answers

    def end(self, state: str) -> None:
        """The run has its release, or stopped."""
        self._update(state=state)

    def _names(self) -> dict[str, Any]:
        """The peer of each silo."""
        return {name: peer for peer, (name, _) in self._cards.items()}

    def _look(self) -> None:
        """See which peers are there, and ask new ones whose key they have."""
        present = set(self._transport.peers()) - self._refused
        self._cards = {peer: card for peer, card in self._cards.items() if peer in present}
        self._mute &= present
        complete = self._expected <= self._names().keys()
        asked = present - self._cards.keys() - (self._mute if complete else set())
        if asked:
            self._meet(asked)
        self._update()

    def _meet(self, peers: Collection[Hashable]) -> None:
        """Ask peers which silo they speak for. The first peer of a silo is its peer until it goes."""
        self._mute.update(peers)
        nonce = os.urandom(sockets.NONCE)
        question = sockets.ASK_CREDENTIAL + nonce
        for peer, content in self._transport.ask(dict.fromkeys(peers, question), self._wait):
            if peer not in peers:
                continue
            self._mute.discard(peer)
            if content is None:
                continue
            name, what = self._transport.name(peer) or UNKNOWN, SENTENCES["nonsense"]
            logs.message("sent", name, None, "a question for the key", len(question))
            with contextlib.suppress(Refused):
                said, credential, proof = sockets.parse_card(content)
                if said in self._agreement.roster.names and name in (UNKNOWN, said):
                    proved = is_proof(self._agreement, said, nonce, proof)
                    name, what = said, self._place(peer, said, credential, proved)
                elif name != UNKNOWN:
                    self._last[name], what = "second", SENTENCES["second"]
            logs.message("received", name, None, what, len(content))

    def _place(self, peer: Hashable, name: str, credential: Credential, proved: bool) -> str:
        """Let a peer speak for a silo, if it has the silo's key and no other does; what a log says of it."""
        if not verify(self._agreement, name, credential):
            self._last[name] = "terms"
        elif not proved:
            self._last[name] = "proof"
        elif name in self._names():
            self._last[name] = "second"
        else:
            self._cards[peer] = name, credential
            self._last.pop(name, None)
            return "the key"
        return SENTENCES[self._last[name]]

    def _update(self, **changes: Any) -> None:
        """Tell the status if it changed."""
        here, left = set(self._names()), self._agreement.answers - self._attempts
        new = self.status._replace(
            attempts_left=left,
            here=tuple(sorted(here)),
            missing=tuple(sorted(set(self._agreement.roster.names) - here)),
            refusals={name: SENTENCES[kind] for name, kind in sorted(self._last.items())},
            **changes,
        )
        sums = new.steps - new.step + (new.state == "waiting")  # after the one in work
        least = self._agreement.shares if self._attempts else len(self._agreement.roster.names)
        new = new._replace(healthy=new.state != "stopped" and len(here) >= least and left >= sums)
        if new != self.status:
            self.status = new
            self._tell(new)


def converse(
    agreement: Agreement,
    transport: Transport,
    *,
    record: str | Path | None,
    wait: float,
    patience: float,
    tell: Callable[[Status], None] = lambda status: None,
) -> coordinator.SiloRun:
    """Run a search over a transport: see ``run_on_sockets``."""
    talk = Conversation(
        agreement, transport, progress=coordinator.find_progress(record), wait=wait, patience=patience, tell=tell
    )
    state = "stopped"
    try:
        run = coordinator.run_silos(agreement, talk.find, talk.send, record=record)
        state = "released"
    except coordinator.SiloError as error:
        said = "".join(f"; {name}: {sentence}" for name, sentence in talk.status.refusals.items())
        raise coordinator.SiloError(f"{error}{said}") from None
    finally:
        talk.end(state)
    return run
