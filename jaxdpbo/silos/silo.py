"""The silo's side of a run: check a request, record the answer, then send a sum with noise under a mask."""

import base64
import contextlib
import hashlib
import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxdpbo import files, logs, not_private, silence
from jaxdpbo import notes as _notes
from jaxdpbo import space as spaces
from jaxdpbo.drivers import owner_check, recorded_run, separability, table_scan
from jaxdpbo.guarantee import recording
from jaxdpbo.ledger import ledger_file
from jaxdpbo.noise import keys, mechanisms
from jaxdpbo.silos import masks, roster
from jaxdpbo.silos.agreement import Agreement, make_zeros
from jaxdpbo.silos.messages import ENDED, PROTOCOL, Credential, Refused, Request, parse_request, read_leaves
from jaxdpbo.silos.sums import Widths
from jaxdpbo.tables import engine
from jaxdpbo.tables import table as _table
from jaxdpbo.types import ArrayLike, Objective

LABEL = f"jaxdpbo silos {PROTOCOL}".encode()  # of everything signed or derived
LOST = "give that ledger, or agree on a run of another name"
LARGEST_KEY = 2**10  # bytes of the file
STEPS = {"step": int, "attempt": int, "query": str}, {"done": list}, {"failed": bool}  # lines under the charge


class RunKey(NamedTuple):
    """The key of the masks of one run, and the one ledger in which this key may answer.

    A second ledger would know of no answer, and the silo would answer again under the same masks. So the file of the
    key names the ledger from its first byte on, and its charge before the first answer.

    Attributes:
      private: an X25519 private key, in base64.
      ledger: the id of the ledger, which an adopted copy does not have.
      charge: the hash of the charge's line, "" before the charge.
    """

    private: str
    ledger: str
    charge: str

    def to_bytes(self) -> bytes:
        """The content of the file."""
        return json.dumps(self._asdict()).encode()


class Silo:
    """The users of one silo in a run. Rows, sums without noise, and keys stay with the silo.

    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from jaxdpbo import dp_gibo, ledger, silos
    >>> folder = Path(tempfile.mkdtemp())
    >>> cards = [silos.create_identity(folder, name, users=500) for name in ("Bern", "Zug")]
    >>> config = dp_gibo.config(users=1000, steps=2, mu=1.0, bounds=[(0, 9)], clip_norm=1.0, memory="none")
    >>> agreement = silos.agree("march", dp_gibo.algorithm, config, silos.make_roster(cards))
    >>> ledger.create(folder / "budget.jsonl", mu=2)
    >>> def distance(point, batch):
    ...     return abs(batch["age"] - point[0])
    >>> columns = {"age": np.linspace(3, 5, 500)}
    >>> silo = silos.Silo(
    ...     agreement, distance, columns, name="Bern", folder=folder, ledger=folder / "budget.jsonl"
    ... )
    >>> len(silo.credential().public), silo.guarantee.level < 1.5
    (44, True)

    A silo first agrees and then pays. A new ``Silo`` calls the loss on a batch of zeros, makes the key of the run, and
    charges nothing. The first request with keys of enough silos, all signed for these very terms, charges the whole run
    to the ledger, before a row is read. A silo with other terms therefore costs the others nothing.

    The file of the key names the ledger, and then the charge. Without this ledger and this charge a silo answers
    nothing, also while it runs. An adoption (``ledger.adopt``) makes another ledger: adopt between two runs.

    Formal guarantee: ``guarantee`` covers all answers together, for any requests of the server, and the ledger pays for
    it before the first answer. A silo answers each attempt of a step once, with fresh noise, at most
    ``agreement.answers`` times in all, and bounds what a user adds by its own copy of the config. Not covered: the
    running time of an answer, and one bit of a run, whether a sum failed or its process died.

    Attributes:
      agreement: the terms.
      name: of the silo.
      guarantee: ``agreement.guarantees.colluding``, with the assumptions on this silo's loss and table.
      notes: which columns lose digits on their way to the loss, by their declared types, see ``jaxdpbo.notes``.
    """

    def __init__(
        self,
        agreement: Agreement,
        objective: Objective,
        data: _table.Table | Mapping[str, ArrayLike],
        *,
        name: str,
        folder: str | Path,
        ledger: str | Path,
    ) -> None:
        """Check the silo's rows, loss, keys and ledger against the agreement, and make the key of the run.

        Args:
          agreement: the terms, see ``agree``.
          objective: ``(point, columns) -> losses``, one for each row of a batch, the same in all silos. Called on a
            batch of zeros here, where it must not fail.
          data: the silo's users: a table, or columns ``(users, ...)`` by name.
          name: of this silo.
          folder: with the silo's key, see ``create_identity``. The key of this run is written there.
          ledger: path of the silo's ledger, see ``ledger.create``.

        Raises:
          ValueError: the roster has another number of users or another key for this silo.
          ledger.LedgerError: the budget does not suffice, the run has this name with other terms, or its key belongs
            to another ledger.
          Exception: of the loss, on zeros.
        """
        self._member, self.agreement, self._folder = agreement.roster.member(name), agreement, Path(folder)
        self.name = name
        table = data if isinstance(data, _table.Table) else _table.arrays(data)
        if table.users != self._member.users:
            raise ValueError(f"the roster says {self._member.users} users of silo {name!r}, got {table.users}")
        if not roster.is_signed(self._member, LABEL, roster.sign(folder, name, LABEL)):
            raise ValueError(f"the roster has another key for silo {name!r} than {folder}")
        objective, *_ = separability.prepare_objective(objective, table, None)
        self._table, self.notes = table, _notes.show(_table.notes(table))
        self._functions = engine.PickledOnce((agreement.algorithm, objective))
        self._program = table_scan.trace(objective, table, agreement.config, must=bool(agreement.sums.numbers))
        guarantee = separability.update_assumptions(agreement.guarantees.colluding, objective)
        self.guarantee = guarantee.assuming(*table.assumptions)
        self._recording = recording.check_recording(recording.Recording(ledger, agreement.run))
        subject = recorded_run.make_subject(objective, table, table.users)._asdict()
        # Not by the versions of the libraries: a silo may get another agreed one between two sums.
        self._subject = subject | {"configuration": agreement.digest.hex()}
        self._what = f"{agreement.answers} sums of silo {name}"
        recording.expect_run(self._recording, self._what, self.guarantee, parts=self._subject)
        self._dry_run()
        self._key_path = self._folder / f"{self.name}-{agreement.digest.hex()[:32]}.run"
        self._key = self._open_key()
        self._private = roster.decode_key("private", self._key.private)

    def check(self) -> not_private.NotPrivateCheck:
        """NOT PRIVATE: count what the run would leave out of this silo's rows, for their owner alone.

        The cells and people of its table, and its losses at three points of the agreed box. Spends nothing, writes
        nothing and sends nothing; no answer depends on it. A range or a list that you mend after looking at protected
        rows is no longer public.
        """
        found, (_, objective) = self._table.check(), self._functions.objects
        of_losses = not self.agreement.sums.numbers
        losses = owner_check.table_losses(objective, self._table, self.agreement.config, None) if of_losses else ()
        return not_private.make_check(found.rows, found.findings, losses)

    def credential(self) -> Credential:
        """The public key of this silo for this run, signed."""
        public = masks.public_key(self._private)
        signature = roster.sign(self._folder, self.name, _key_message(self.agreement, self.name, public))
        return Credential(base64.b64encode(public).decode(), base64.b64encode(signature).decode())

    def prove(self, nonce: bytes) -> bytes:
        """Sign a server's nonce: others know the signed key of this silo, and could show it in its place."""
        return roster.sign(self._folder, self.name, _proof_message(self.agreement, self.name, nonce))

    @silence.numeric_checks_off()
    def answer(self, content: bytes) -> bytes:
        """Answer a request of the server: a sum with this silo's noise under its mask, 8 bytes a number.

        The first request that passes all checks charges the run. A silo answers nothing more in this run after a sum
        that failed, or in which its process was killed. The server chooses points, and might otherwise learn from each
        of them whether the loss of some user fails there.

        Raises:
          Refused: the request is none that the silo agreed to, and nothing was charged; or no answer is left for it,
            and the run stays charged. Nothing was sent.
          ledger.LedgerError: the ledger is not that of the run's key, cannot pay, or holds a release of the run.
          Exception: of the loss or of the table, after the attempt was recorded. Send the server no text of it.
        """
        request = parse_request(content, self.agreement.largest_request)
        publics = self._check_silos(request)
        queries = self._check_queries(request)
        self._pay()
        self._record(request)
        try:
            total = self._sum(queries)
        except silence.STOPS:
            raise
        except BaseException:
            with contextlib.suppress(ledger_file.LedgerError):  # an attempt without an end ends the run too
                self._note({"failed": True})
            raise
        self._note({"done": [request.step, request.attempt]})
        noise = _draw_noise(keys.secret_key(), self.agreement.share_widths)
        mask = masks.make_mask(self.name, self._private, publics, LABEL + request.digest(), len(total))
        return ((total + noise).view(np.uint64) + mask).astype("<u8").tobytes()

    def _check_silos(self, request: Request) -> dict[str, bytes]:
        """The public keys of the silos in the sum, each signed by its silo. Raise a Refused otherwise."""
        agreement, publics = self.agreement, {}
        if request.run != agreement.run:
            raise Refused("run")
        if len(request.credentials) < agreement.shares:
            raise Refused("few")
        for name, credential in request.credentials.items():
            if name not in agreement.roster.names:
                raise Refused("stranger")
            public = verify(agreement, name, credential)
            if public is None:
                raise Refused("unsigned")
            publics[name] = public
        if publics.get(self.name) != masks.public_key(self._private):
            raise Refused("key")
        try:
            masks.make_mask(self.name, self._private, publics, LABEL, 1)
        except ValueError:
            raise Refused("weak") from None
        return publics

    def _check_queries(self, request: Request) -> Any:
        """The stacked queries. Raise a Refused if they are not of the agreed search."""
        agreement = self.agreement
        if not (0 <= request.step < agreement.config.steps and 0 <= request.attempt < agreement.answers):
            raise Refused("step")
        leaves, tree = jax.tree.flatten(agreement.template)
        queries = jax.tree.unflatten(tree, read_leaves(request.leaves, leaves))
        if len(queries.points) > 1:
            raise Refused("queries")
        if not _are_allowed(agreement.config, queries.points):
            raise Refused("outside")
        if not agreement.sums.is_of_step(request.step, queries):
            raise Refused("kind")
        return queries

    def _record(self, request: Request) -> None:
        """Write the answer to the ledger before it is given. Raise a Refused if it was given before."""
        lines, query = self._find_answers(), hashlib.sha256(str(request.leaves).encode()).hexdigest()
        answers = [line for line in lines if "attempt" in line]
        for line in answers:
            if (line["step"], line["attempt"]) == (request.step, request.attempt):
                raise Refused("repeated")
            if line["step"] == request.step and line["query"] != query:
                raise Refused("changed")
        if any("failed" in line for line in lines):
            raise Refused("failed")
        if len(answers) > sum("done" in line for line in lines):
            raise Refused("unended")
        if len(answers) >= self.agreement.answers:
            raise Refused("spent")
        if not self.agreement.may_ask(request.step, [line["step"] for line in answers]):
            raise Refused("often")
        path, run, _ = self._recording
        try:
            line = {"step": request.step, "attempt": request.attempt, "query": query}
            ledger_file.note(path, run, len(lines) + 1, line, hash=self._key.charge, id=self._key.ledger)
        except ledger_file.MovedLedgerError:
            raise Refused("busy") from None

    def _note(self, line: dict[str, Any]) -> None:
        """Write how a sum ended, also if another process writes meanwhile."""
        path, run, _ = self._recording
        while True:  # each turn but the last sees a line that another process wrote
            number = len(self._find_answers()) + 1
            with contextlib.suppress(ledger_file.MovedLedgerError):
                return ledger_file.note(path, run, number, line, hash=self._key.charge, id=self._key.ledger)

    def _find_answers(self) -> tuple[dict[str, Any], ...]:
        """The answers on record. Raise a LedgerError if the key's charge is not there, or holds a release."""
        path, run, _ = self._recording
        charge = ledger_file.find_charge(path, run, hash=self._key.charge)
        if charge.release is not None:
            raise ledger_file.LedgerError(f"{path} has a release of run {run!r}, which no silo stores, {ENDED}")
        if not all(any(ledger_file.has_fields(line, kind) for kind in STEPS) for line in charge.steps):
            raise ledger_file.DamagedLedgerError(f"{path} has a line of run {run!r} that no silo wrote, {ENDED}")
        return charge.steps

    def _open_key(self) -> RunKey:
        """The key of the run, made at the first time. Raise a LedgerError if it belongs to another ledger or charge."""
        path, run, _ = self._recording
        new = RunKey(base64.b64encode(masks.generate_key()).decode(), ledger_file.read_id(path), "")
        with contextlib.suppress(FileExistsError):
            files.write_once(self._key_path, new.to_bytes(), files.PRIVATE)
        try:
            content = files.read_private(self._key_path, LARGEST_KEY)
            key = RunKey(**ledger_file.parse_fields(content, dict.fromkeys(RunKey._fields, str)))
            roster.decode_key("private", key.private)
        except files.NotPrivate:
            raise
        except ValueError:
            raise ValueError(f"{self._key_path.name} must be the key of a run, and is none: delete the file") from None
        if key.ledger != new.ledger:
            raise ledger_file.LedgerError(
                f"{path} is not the ledger of {self._key_path.name}, the key of run {run!r}: {LOST}"
            )
        if key.charge:
            ledger_file.find_charge(path, run, hash=key.charge)
        return key

    def _pay(self) -> None:
        """Pay for the run, once. The key's file names the charge before the first answer."""
        if self._key.charge:
            return
        id = self._key.ledger
        charge = recording.charge_run(self._recording, self._what, self.guarantee, parts=self._subject, id=id)
        key = self._key._replace(charge=charge.hash)
        files.replace(self._key_path, key.to_bytes(), files.PRIVATE)
        self._key = key

    def _dry_run(self) -> None:
        """Raise what the loss raises on a batch of zeros, or a TableError for losses of another shape."""
        shapes = _table.batch_shapes(self._table)
        zeros = table_scan.zeros_of_shapes(shapes)
        queries = jax.tree.map(lambda leaf: np.asarray(leaf)[None], self.agreement.template)
        total = self._contribution(queries)(zeros)
        expected = table_scan.flatten(make_zeros(self.agreement, self.agreement.template).whole)
        if total.shape != expected.shape:
            raise ValueError(f"objective must give sums of shape {expected.shape}, got {total.shape}")

    def _contribution(self, queries: Any) -> table_scan.Contribution:
        """What the users of a batch add to the sum of a query."""
        config, like = self.agreement.config, _table.batch_shapes(self._table)
        program, place = self._program, partial(spaces.place, config.space)
        places = table_scan.places_of(place, queries) if program is None else None
        speaks = table_scan.can_speak(program)
        return table_scan.Contribution(self._functions, config, queries, False, places, speaks, like)

    def _sum(self, queries: Any) -> np.ndarray:
        """The raw sum over this silo's users, int64 ``(k,)``."""
        logs.scanned(f"a sum of silo {self.name}", self._member.users)
        total, users = self._table.add(self._contribution(queries))
        table_scan.expect_users(users, self._member.users)
        return total


def verify(agreement: Agreement, name: str, credential: Credential) -> bytes | None:
    """The public key of a silo for the run; None if the silo is not on the roster, or did not sign the key."""
    try:
        public, signature = (base64.b64decode(text, validate=True) for text in credential)
        member = agreement.roster.member(name)
    except ValueError:
        return None
    return public if roster.is_signed(member, _key_message(agreement, name, public), signature) else None


def is_proof(agreement: Agreement, name: str, nonce: bytes, proof: str) -> bool:
    """True if a silo of the roster signed the nonce, see ``Silo.prove``."""
    try:
        signature = base64.b64decode(proof, validate=True)
    except ValueError:
        return False
    return roster.is_signed(agreement.roster.member(name), _proof_message(agreement, name, nonce), signature)


def _proof_message(agreement: Agreement, name: str, nonce: bytes) -> bytes:
    return LABEL + b" here " + name.encode() + b":" + agreement.digest + nonce


def _key_message(agreement: Agreement, name: str, public: bytes) -> bytes:
    return LABEL + b" key of " + name.encode() + b":" + agreement.digest + public


def _draw_noise(key: jax.Array, widths: Widths) -> np.ndarray:
    return np.concatenate([np.asarray(part, np.int64) for part in _draw(key, widths)])


@partial(jax.jit, static_argnums=1)
def _draw(key: jax.Array, widths: Widths) -> list[jax.Array]:
    own = jax.random.split(key, len(widths))
    return [
        mechanisms.discrete_gaussian(each, (count,), sigma) for each, (count, sigma) in zip(own, widths, strict=True)
    ]


def _are_allowed(config: Any, points: np.ndarray) -> bool:
    """True if all points ``(m, b, d)`` are in the box of the config, or among its candidates."""
    while not hasattr(config, "bounds"):
        config = config.inner
    if config.bounds is not None:
        low, high = np.asarray(config.bounds)
        return bool(np.all((points >= low) & (points <= high)))
    candidates = {row.tobytes() for row in np.asarray(config.candidates, points.dtype)}
    return all(row.tobytes() in candidates for row in points.reshape(-1, points.shape[-1]))
