"""The silo's side of a run: check a request, record the answer, then send a sum with noise under a mask."""

import base64
import contextlib
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from jaxdpbo import _files, _silence
from jaxdpbo._types import ArrayLike, Objective
from jaxdpbo.drivers import _separability, _table_scan
from jaxdpbo.privacy import _keys, _ledger, _mechanisms, _recording
from jaxdpbo.silos import _masks, _roster
from jaxdpbo.silos._agreement import Agreement
from jaxdpbo.silos._messages import Credential, Refused, Request, parse_request, read_leaves
from jaxdpbo.tables import _engine, _table

LABEL = b"jaxdpbo silos 1"  # of everything signed or derived
ENDED = "so it answers nothing more in this run: start a new run"
LOST = "give the ledger that paid, or agree on a run of another name"


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

    Formal guarantee: ``guarantee`` covers all answers together, for any requests of the server, and the ledger pays for
    it before the first answer. A silo answers each attempt of a step once, with fresh noise, at most
    ``agreement.answers`` times in all, and bounds what a user adds by its own copy of the config. Not covered: the
    running time of an answer, and one bit of a run, whether a sum failed or its process died.

    Attributes:
      name: of the silo.
      guarantee: ``agreement.guarantees.colluding``, with the assumptions on this silo's loss and table.
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
        """Check the silo's rows and keys against the agreement, and pay for the run.

        Args:
          agreement: the terms, see ``agree``.
          objective: ``(point, columns) -> losses``, one for each row of a batch, the same in all silos.
          data: the silo's users: a table, or columns ``(users, ...)`` by name.
          name: of this silo.
          folder: with the silo's key, see ``create_identity``. The key of this run is written there.
          ledger: path of the silo's ledger, see ``ledger.create``.

        Raises:
          ValueError: the roster has another number of users or another key for this silo.
          ledger.LedgerError: the budget does not suffice, or the run has this name with other terms.
        """
        self._member, self._agreement, self._folder = agreement.roster.member(name), agreement, Path(folder)
        self.name = name
        table = data if isinstance(data, _table.Table) else _table.arrays(data)
        if table.users != self._member.users:
            raise ValueError(f"the roster says {self._member.users} users of silo {name!r}, got {table.users}")
        if not _roster.is_signed(self._member, LABEL, _roster.sign(folder, name, LABEL)):
            raise ValueError(f"the roster has another key for silo {name!r} than {folder}")
        objective, _ = _separability.prepare_objective(objective, table, None)
        self._table = table
        self._functions = _engine.PickledOnce((agreement.algorithm, objective))
        self._traced = _table_scan.can_trace(objective, table, agreement.config, must=False)
        guarantee = _separability.update_assumptions(agreement.guarantees.colluding, objective)
        self.guarantee = guarantee.assuming(*table.assumptions)
        self._recording = _recording.check_recording(_recording.Recording(ledger, agreement.run))
        self._key_path = self._folder / f"{self.name}-{agreement.digest.hex()[:32]}.run"
        self._expect_same_ledger()
        self._charge()  # before the key: a key without a charge is of another ledger
        with contextlib.suppress(FileExistsError):
            _files.write_once(self._key_path, _masks.generate_key(), _files.PRIVATE)
        self._private = _files.read_private(self._key_path)

    def credential(self) -> Credential:
        """The public key of this silo for this run, signed."""
        public = _masks.public_key(self._private)
        signature = _roster.sign(self._folder, self.name, _key_message(self._agreement, self.name, public))
        return Credential(base64.b64encode(public).decode(), base64.b64encode(signature).decode())

    @_silence.debug_checks_off()
    def answer(self, content: bytes) -> bytes:
        """Answer a request of the server: a sum with this silo's noise under its mask, 8 bytes a number.

        A silo answers nothing more in this run after a sum that failed, or in which its process was killed. The server
        chooses points, and might otherwise learn from each of them whether the loss of some user fails there.

        Raises:
          Refused: the request is none that the silo agreed to, or was answered before. Nothing was sent or charged.
          Exception: of the loss or of the table, after the attempt was recorded. Send the server no text of it.
        """
        request = parse_request(content, self._agreement.largest_request)
        publics = self._check_silos(request)
        queries = self._check_queries(request)
        self._record(request)
        try:
            total = self._sum(queries)
        except _silence.STOPS:
            raise
        except BaseException:
            self._note({"failed": True})
            raise
        self._note({"done": [request.step, request.attempt]})
        noise = _draw_noise(_keys.secret_key(), len(total), self._agreement.share_sigma)
        mask = _masks.make_mask(self.name, self._private, publics, LABEL + request.digest(), len(total))
        return ((total + noise).view(np.uint64) + mask).astype("<u8").tobytes()

    def _check_silos(self, request: Request) -> dict[str, bytes]:
        """The public keys of the silos in the sum, each signed by its silo. Raise a Refused otherwise."""
        agreement, publics = self._agreement, {}
        if request.run != agreement.run:
            raise Refused(f"this silo agreed to the run {agreement.run!r}, not to {request.run!r}")
        if len(request.credentials) < agreement.shares:
            raise Refused(f"a sum must have {agreement.shares} silos or more, got {len(request.credentials)}")
        for name, credential in request.credentials.items():
            if name not in agreement.roster.names:
                raise Refused(f"silo {name!r} is not on the roster")
            public = verify(agreement, name, credential)
            if public is None:
                raise Refused(f"silo {name!r} did not sign its key for these terms")
            publics[name] = public
        if publics.get(self.name) != _masks.public_key(self._private):
            raise Refused("the request does not have this silo's key for the run")
        try:
            _masks.make_mask(self.name, self._private, publics, LABEL, 1)
        except ValueError:
            raise Refused("a key of the request agrees on no secret") from None
        return publics

    def _check_queries(self, request: Request) -> Any:
        """The stacked queries. Raise a Refused if they are not of the agreed search."""
        agreement = self._agreement
        if not (0 <= request.step < agreement.config.steps and 0 <= request.attempt < agreement.answers):
            raise Refused(f"step and attempt must be of {agreement.config.steps} steps, got {request.step}")
        leaves, tree = jax.tree.flatten(agreement.template)
        queries = jax.tree.unflatten(tree, read_leaves(request.leaves, leaves))
        if len(queries.points) > 1:
            raise Refused(f"a sum must be of one query, got {len(queries.points)}")
        if not _are_allowed(agreement.config, queries.points):
            raise Refused("a point of the query is outside of the agreed box")
        return queries

    def _record(self, request: Request) -> None:
        """Write the answer to the ledger before it is given. Raise a Refused if it was given before."""
        lines, query = self._charge(), hashlib.sha256(str(request.leaves).encode()).hexdigest()
        answers = [line for line in lines if "attempt" in line]
        for line in answers:
            if (line["step"], line["attempt"]) == (request.step, request.attempt):
                raise Refused(f"attempt {request.attempt} of step {request.step} was answered before")
            if line["step"] == request.step and line["query"] != query:
                raise Refused(f"step {request.step} was answered for another query")
        if any("failed" in line for line in lines):
            raise Refused(f"a sum of this silo failed, {ENDED}")
        if len(answers) > sum("done" in line for line in lines):
            raise Refused(f"a sum of this silo did not end, {ENDED}")
        if len(answers) >= self._agreement.answers:
            raise Refused(f"all {self._agreement.answers} answers of this silo are given")
        path, run, _ = self._recording
        try:
            _ledger.note(path, run, len(lines) + 1, {"step": request.step, "attempt": request.attempt, "query": query})
        except _ledger.MovedLedgerError:
            raise Refused("another process of this silo answers at the same time") from None

    def _note(self, line: dict[str, Any]) -> None:
        """Write how a sum ended, also if another process writes meanwhile."""
        path, run, _ = self._recording
        while True:
            with contextlib.suppress(_ledger.MovedLedgerError):
                return _ledger.note(path, run, len(self._charge()) + 1, line)

    def _charge(self) -> tuple[dict[str, Any], ...]:
        """Pay for the run, once, and return the answers on record."""
        what = f"{self._agreement.answers} sums of silo {self.name}"
        return _recording.charge_run(self._recording, what, self.guarantee, self._agreement.digest).steps

    def _sum(self, queries: Any) -> np.ndarray:
        """The raw sum over this silo's users, int64 ``(k,)``."""
        contribution = _table_scan.Contribution(
            self._functions, self._agreement.config, queries, False, self._traced, _table.batch_shapes(self._table)
        )
        total, users = self._table.add(contribution)
        _table_scan.expect_users(users, self._member.users)
        return total

    def _expect_same_ledger(self) -> None:
        """Raise a LedgerError if the key of this run is there, and the ledger does not know the run.

        With a new ledger the silo would answer old requests again, under the same masks.
        """
        path, run, _ = self._recording
        if self._key_path.exists() and not any(entry.run == run for entry in _ledger.account(path).spends):
            raise _ledger.LedgerError(
                f"{path} did not pay for run {run!r}, and {self._key_path.name} is its key: {LOST}"
            )


def verify(agreement: Agreement, name: str, credential: Credential) -> bytes | None:
    """The public key of a silo for the run; None if the silo is not on the roster, or did not sign the key."""
    try:
        public, signature = (base64.b64decode(text, validate=True) for text in credential)
        member = agreement.roster.member(name)
    except ValueError:
        return None
    return public if _roster.is_signed(member, _key_message(agreement, name, public), signature) else None


def _key_message(agreement: Agreement, name: str, public: bytes) -> bytes:
    return LABEL + b" key of " + name.encode() + b":" + agreement.digest + public


def _draw_noise(key: jax.Array, count: int, sigma: int) -> np.ndarray:
    return np.asarray(_draw(key, count, sigma), np.int64)


_draw = jax.jit(lambda key, count, sigma: _mechanisms.discrete_gaussian(key, (count,), sigma), static_argnums=(1, 2))


def _are_allowed(config: Any, points: np.ndarray) -> bool:
    """True if all points ``(m, b, d)`` are in the box of the config, or among its candidates."""
    while not hasattr(config, "bounds"):
        config = config.inner
    if config.bounds is not None:
        low, high = np.asarray(config.bounds)
        return bool(np.all((points >= low) & (points <= high)))
    candidates = {row.tobytes() for row in np.asarray(config.candidates, points.dtype)}
    return all(row.tobytes() in candidates for row in points.reshape(-1, points.shape[-1]))
