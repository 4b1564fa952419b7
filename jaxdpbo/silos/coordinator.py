"""The server's side of a run: ask all silos, add up their answers, and learn from the noised sum. Holds no secret."""

import base64
import contextlib
import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxdpbo import files, logs, types
from jaxdpbo import notes as _notes
from jaxdpbo.drivers import compiled_steps, result, table_scan
from jaxdpbo.ledger import ledger_file
from jaxdpbo.report import records as reports
from jaxdpbo.silos.agreement import Agreement, SiloGuarantees, make_zeros
from jaxdpbo.silos.messages import Credential, Request, write_leaves
from jaxdpbo.silos.silo import verify
from jaxdpbo.types import Algorithm, Query

Send = Callable[[dict[str, bytes]], Mapping[str, bytes]]  # requests by silo, to the answers that came
TERMS = {"terms": str, "seed": list}  # the lines of a record
ATTEMPT, TOTAL = {"step": int, "attempt": int}, {"step": int, "total": str}
Credentials = Mapping[str, Credential] | Callable[[], Mapping[str, Credential]]


class SiloError(RuntimeError):
    """Too few silos answered, or no answers are left: the run stopped. A record keeps the steps so far."""


class Progress(NamedTuple):
    """What the record of a run has: the sums that silos were asked for, and those that they gave."""

    attempts: int
    sums: int


class SiloRun(NamedTuple):
    """A run among silos. Everything in it is public.

    Attributes:
      release: of the algorithm.
      guarantees: see ``SiloGuarantees``.
      attempts: the number of sums that the silos were asked for.
      agreement: the terms.
    """

    release: Any
    guarantees: SiloGuarantees
    attempts: int
    agreement: Agreement

    @property
    def notes(self) -> _notes.Notes:
        """Of few users, see ``jaxdpbo.notes``."""
        return _notes.few_users(self.agreement.config.users, private=True)

    def __repr__(self) -> str:
        """Show the guarantees, the notes and the release."""
        return "\n".join([*map(str, self.guarantees), *_notes.lines(self.notes), f"release: {self.release}"])

    def report(self, path: str | Path | None = None) -> reports.Report:
        """Make the record of this run, to sign; with a ``path`` that ends in ".html", also write the page and its JSON.

        The record states the guarantee against colluding silos, which each silo charges to its ledger. A silo may have
        assumptions on its own loss and table beside these: they are on its ledger.
        """
        details = self.agreement.terms | {"sums asked for": self.attempts}
        _, colluding, _ = self.guarantees
        made = reports.report(
            self.agreement.sums.title, (colluding,), release=self.release, details=details, notes=self.notes
        )
        return made if path is None else made.save(path)

    def save(self, path: str | Path) -> None:
        """Write the answer as JSON: the point, by name if the search has a space, all arrays of the release, the
        guarantees, and the hash.
        """
        params = getattr(self.release, "params", None)
        point, released = np.asarray(self.release.point).tolist(), self.release._asdict()
        answer = {
            "run": self.agreement.run,
            "point": point if params is None else {name: _plain(value) for name, value in params.items()},
            "release": {name: np.asarray(of).tolist() for name, of in released.items() if isinstance(of, np.ndarray)},
            "guarantees": {name: guarantee.claim for name, guarantee in self.guarantees._asdict().items()},
            "hash of all terms": self.agreement.digest.hex(),
            "sums asked for": self.attempts,
        }
        files.replace(Path(path), json.dumps(answer, indent=1).encode())


def _plain(value: Any) -> Any:
    """A parameter for JSON: an object among choices by its text."""
    value = value.item() if isinstance(value, np.generic) else value
    return value if isinstance(value, (bool, int, float, str, type(None))) else str(value)


class _Record:
    """Public lines on disk, so that a server that was killed goes on: keys, attempts, and noised sums."""

    def __init__(self, path: str | Path | None) -> None:
        self._path = None if path is None else Path(path)
        lines: list[bytes] = []
        if self._path is not None and self._path.exists():
            files.expect_own(self._path)
            lines = self._path.read_bytes().splitlines()
        self.lines: list[dict[str, Any]] = [_parse_line(self._path, number, line) for number, line in enumerate(lines)]

    def add(self, **line: Any) -> None:
        """Write a line, before the caller acts on it."""
        self.lines.append(line)
        if self._path is not None:
            files.replace(self._path, "".join(json.dumps(line) + "\n" for line in self.lines).encode())

    def find(self, name: str) -> list[dict[str, Any]]:
        """The lines with a field."""
        return [line for line in self.lines if name in line]


def _parse_line(path: Path | None, number: int, content: bytes) -> dict[str, Any]:
    """A line of a record; the first states the terms. Raise a ValueError for a line that no server wrote."""
    with contextlib.suppress(ValueError):
        line = ledger_file.parse_json(content)
        if any(ledger_file.has_fields(line, kind) for kind in ([TERMS] if number == 0 else [ATTEMPT, TOTAL])):
            return line
    raise ValueError(f"record must be the record of a run, and line {number + 1} of {path} is none")


def find_progress(record: str | Path | None) -> Progress:
    """What the record of a run has. Raise a ValueError if it is none."""
    book = _Record(record)
    return Progress(len(book.find("attempt")), len(book.find("total")))


class _Present:
    """The silos that the next sum is of."""

    def __init__(self, agreement: Agreement, credentials: Credentials) -> None:
        self._agreement, self._credentials, self._left_out = agreement, credentials, set[str]()
        if not callable(credentials):
            self.find()

    def find(self) -> dict[str, Credential]:
        """Their keys by name. Raise a ValueError for a silo that is not on the roster, or did not sign these terms."""
        credentials = self._credentials() if callable(self._credentials) else self._credentials
        if strangers := set(credentials) - set(self._agreement.roster.names):
            raise ValueError(f"credentials must be of silos on the roster, got {', '.join(sorted(strangers))}")
        if others := [name for name, key in sorted(credentials.items()) if not verify(self._agreement, name, key)]:
            raise ValueError(f"credentials must be signed for these terms, which {', '.join(others)} did not sign")
        return {name: key for name, key in credentials.items() if name not in self._left_out}

    def leave_out(self, silent: list[str], wrong: list[str]) -> None:
        """Ask silos with wrong answers no more, and silent ones only if a function says that they are back."""
        self._left_out.update(wrong if callable(self._credentials) else [*silent, *wrong])


def run_silos(
    agreement: Agreement,
    credentials: Credentials,
    send: Send,
    *,
    record: str | Path | None = None,
) -> SiloRun:
    """Run a search among silos, from the server's side.

    The server sees sums over silos alone, each with the noise of all silos in the sum.

    Formal guarantee: ``agreement.guarantees``, which the silos enforce against any server.

    >>> import tempfile
    >>> from pathlib import Path
    >>> import jax.numpy as jnp
    >>> import numpy as np
    >>> from jaxdpbo import dp_gibo, ledger, silos
    >>> folder, names = Path(tempfile.mkdtemp()), ["Bern", "Zug"]
    >>> roster = silos.make_roster([silos.create_identity(folder, name, users=500) for name in names])
    >>> config = dp_gibo.config(users=1000, steps=2, mu=1.0, bounds=[(0, 9)], clip_norm=1.0, memory="none")
    >>> agreement = silos.agree("march", dp_gibo.algorithm, config, roster)
    >>> def distance(point, batch):
    ...     return jnp.abs(batch["age"] - point[0])
    >>> def open_silo(name):
    ...     ledger.create(folder / f"{name}.jsonl", mu=2)
    ...     columns = {"age": np.linspace(3, 5, 500)}
    ...     return silos.Silo(agreement, distance, columns, name=name, folder=folder, ledger=folder / f"{name}.jsonl")
    >>> opened = {name: open_silo(name) for name in names}
    >>> credentials = {name: silo.credential() for name, silo in opened.items()}
    >>> def send(requests):
    ...     return {name: opened[name].answer(request) for name, request in requests.items()}
    >>> run = silos.run_silos(agreement, credentials, send)
    >>> run.attempts, run.release.point.shape
    (2, (1,))

    Args:
      agreement: the terms.
      credentials: the key of each silo that takes part, from ``Silo.credential``, by name: a silo that did not answer
        takes no part in later sums. Or a function that returns the keys of the silos that are there, called before each
        sum: silos may come late, and come back.
      send: delivers requests to silos, by name, and returns the answers that came in time.
      record: a file for the public record of the run. With the same file, a server that was killed goes on after the
        last sum on record.

    Raises:
      SiloError: fewer silos answered than a sum must have, or the silos' answers are used up.
      ValueError: keys of silos that are not on the roster, or did not sign these terms; a record of other terms, or a
        damaged one.
      BlockingIOError: another server runs with this record.
    """
    present = _Present(agreement, credentials)
    if record is None:
        return _run(agreement, present, send, _Record(None))
    with files.only_process(Path(f"{record}.lock")):
        return _run(agreement, present, send, _Record(record))


def _run(agreement: Agreement, present: _Present, send: Send, book: _Record) -> SiloRun:
    if not book.lines:
        seed = [int(word) for word in np.random.SeedSequence().generate_state(2)]  # public: of the points to propose
        book.add(terms=agreement.digest.hex(), seed=seed)
    terms, seed = book.lines[0]["terms"], book.lines[0]["seed"]
    if steps := len(book.find("total")):
        logs.resumed(f"run {agreement.run!r} among silos: step {steps + 1}")
    if terms != agreement.digest.hex():
        raise ValueError("record must be of a run with the same terms")
    if len(seed) != 2 or not all(type(word) is int and 0 <= word < 2**32 for word in seed):
        raise ValueError(f"record must have a seed of two words, got {len(seed)} others")
    algorithm, config = agreement.algorithm, agreement.config
    key = jax.random.wrap_key_data(jnp.asarray(seed, jnp.uint32))
    init_key, loop_key, release_key = compiled_steps.run_keys(key)
    state = jax.jit(algorithm.init)(init_key, config)
    for step in range(config.steps):
        ask_key, tell_key = compiled_steps.step_keys(loop_key, step)
        query = compiled_steps.ask(algorithm, ask_key, config, state)
        queries = types.history(algorithm, config, state, query)
        zeros = make_zeros(agreement, query)
        whole = zeros.whole
        if queries:
            count = len(table_scan.flatten(zeros.whole))
            total = _ask_silos(agreement, book, present, send, step, queries, count)
            whole = table_scan.unflatten(zeros.whole, total)
        state, failed = _learn(algorithm, tell_key, config, state, query, zeros._replace(whole=whole))
        result.raise_on_failed_factorisation(failed, None)
    released = compiled_steps.release(algorithm, release_key, config, state)
    answer = result.name_params(result.to_numpy(released), config)
    logs.released(f"run {agreement.run!r} among silos")
    run = SiloRun(answer, agreement.guarantees, len(book.find("attempt")), agreement)
    _notes.show(run.notes)
    return run


def _ask_silos(
    agreement: Agreement,
    book: _Record,
    present: _Present,
    send: Send,
    step: int,
    queries: tuple[Query, ...],
    count: int,
) -> np.ndarray:
    """The noised sum of a step, int64 ``(count,)``: from the record, or from an attempt that all silos in it answer."""
    for line in book.find("total"):
        if line["step"] == step:
            total = np.frombuffer(base64.b64decode(line["total"], validate=True), "<i8")
            if len(total) != count:
                raise ValueError(f"record must have a sum of {count} numbers at step {step}, got {len(total)}")
            return total
    stacked = [np.stack(leaves) for leaves in zip(*map(jax.tree.leaves, queries), strict=True)]
    while len(keys := present.find()) >= agreement.shares:
        asked = [line["step"] for line in book.find("attempt")]
        number = asked.count(step)
        if not agreement.may_ask(step, asked):
            raise SiloError(f"no answers of the silos are left for step {step}, of {agreement.answers} in all")
        if number:
            logs.retried(f"the sum of step {step + 1}, attempt {number + 1}, of {len(keys)} silos")
        request = Request(agreement.run, step, number, dict(sorted(keys.items())), write_leaves(stacked))
        book.add(step=step, attempt=number)
        answers = send(dict.fromkeys(keys, request.to_bytes()))
        silent = [name for name in keys if name not in answers]
        wrong = [name for name in keys if name in answers and len(answers[name]) != 8 * count]
        if not silent and not wrong:
            words = np.stack([np.frombuffer(answers[name], "<u8") for name in keys])
            total = np.asarray(words.sum(axis=0, dtype=np.uint64))
            book.add(step=step, total=base64.b64encode(total.astype("<u8").tobytes()).decode())
            return total.view(np.int64)
        present.leave_out(silent, wrong)
    raise SiloError(f"{len(keys)} silos answer, and a sum must have {agreement.shares}: stopped at step {step}")


@partial(jax.jit, static_argnums=0)
def _learn(algorithm: Algorithm, key: jax.Array, config: Any, state: Any, query: Query, total: Any) -> Any:
    """The state after a step, with the noised sum in place of what ``perturb`` would release."""
    assert algorithm.perturb is not None
    released = algorithm.perturb(key, config, query, total.whole)
    leaves, tree = jax.tree.flatten(released, is_leaf=table_scan.is_wide)
    noised = iter(jax.tree.leaves(total.whole, is_leaf=table_scan.is_wide))
    leaves = [next(noised) if table_scan.is_wide(leaf) else leaf for leaf in leaves]
    after = algorithm.tell(config, state, query, jax.tree.unflatten(tree, leaves))
    return after, result.check_info(algorithm.inform(config, query, total))._replace(raw={})
