"""What all silos agree to before a run: the algorithm, its settings, who takes part, and how often a silo answers."""

import base64
import hashlib
import re
from collections.abc import Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxdpbo import checks, types
from jaxdpbo import report as reports
from jaxdpbo.accounting import noise_shares
from jaxdpbo.drivers import compiled_steps, recorded_run, table_scan
from jaxdpbo.guarantee import assumptions, composed_guarantee
from jaxdpbo.guarantee import guarantees as _guarantee
from jaxdpbo.ledger.fingerprints import fingerprint_terms, version
from jaxdpbo.noise.mechanisms import tables
from jaxdpbo.silos.messages import LARGEST, PROTOCOL, Credential, Request, write_leaves
from jaxdpbo.silos.roster import Roster
from jaxdpbo.silos.sums import Widths, sums_of
from jaxdpbo.tables import table
from jaxdpbo.types import Algorithm, Query


class SiloGuarantees(NamedTuple):
    """The guarantees of a run, each for all users of all silos.

    Attributes:
      server: against the server, and against everybody else who is no silo and knows no silo's noise.
      colluding: against ``agreement.colluding`` silos that join what they know with the server. A single silo is one of
        these: a silo knows its own noise. Each silo charges this guarantee to its ledger.
      broken_masks: against somebody who removed all masks: the share of noise of a user's own silo alone protects.
    """

    server: _guarantee.Guarantee
    colluding: _guarantee.Guarantee
    broken_masks: _guarantee.Guarantee


class Agreement:
    """The public terms of a run; made by ``agree``."""

    def __init__(
        self,
        run: str,
        algorithm: Algorithm,
        config: object,
        roster: Roster,
        answers: int,
        colluding: int,
        versions: tuple[str, str],
        columns: tuple[str, ...],
    ) -> None:
        """Keep the checked terms."""
        self.run, self.algorithm, self.roster = run, algorithm, roster
        self.config: Any = config
        self.sums = sums_of(algorithm, config)
        self.answers, self.colluding, self.versions, self.columns = answers, colluding, versions, columns

    def __repr__(self) -> str:
        """Show the public terms."""
        return f"Agreement({self.run!r}, {len(self.roster.members)} silos, {self.answers} answers)"

    @cached_property
    def digest(self) -> bytes:
        """The SHA-256 of all terms, equal in all silos of the agreed versions, with any Python and JAX; in a ``Space``
        with ``feasible`` with one Python, since its byte code counts.

        It holds the numbers that must be equal, and not the versions that computed them: the protocol, the bound of a
        user's integers and the width of the noise (in the config), and the shapes and dtypes of a query. What a silo
        draws, and what one user moves, follow from these and its own code alone. Another version of a library may
        compute another last digit of a loss, which is still clipped to the same bound.
        """
        layout = [(str(leaf.dtype), leaf.shape) for leaf in jax.tree.leaves(self.template)]
        searched = self.run, self.algorithm, self.config, self.roster, self.answers, self.colluding
        terms = PROTOCOL, layout, searched, self.versions, self.columns
        return hashlib.sha256(fingerprint_terms(terms).encode()).digest()

    @property
    def shares(self) -> int:
        """The number of shares of noise that every sum has at least."""
        return len(self.roster.members) - self.roster.missing

    def may_ask(self, step: int, asked: Sequence[int]) -> bool:
        """True if a sum of a step may follow sums of the steps ``asked``.

        Where sums cost differently, each step without a sum keeps an answer: ``sums.level`` counts on it.
        """
        repeated = len(asked) - len(set(asked))
        kept = self.sums.equal_cost or step not in asked or repeated < self.answers - self.sums.steps
        return kept and len(asked) < self.answers

    @cached_property
    def share_widths(self) -> Widths:
        """The counts of numbers in a sum, with the widths of the noise that a silo adds to them."""
        widths = self.sums.widths(self.answer_size // 8)
        return tuple((count, noise_shares.share_sigma(sigma, self.shares)) for count, sigma in widths)

    @cached_property
    def template(self) -> Query:
        """A query of the run, for its shapes and dtypes."""
        key = jax.random.key(0)
        state = jax.jit(self.algorithm.init)(key, self.config)
        return jax.tree.map(np.asarray, compiled_steps.ask(self.algorithm, key, self.config, state))

    @cached_property
    def largest_request(self) -> int:
        """The most bytes of a request, twice the longest honest one: refusals of somewhat longer ones have reasons."""
        leaves = write_leaves([np.asarray(leaf)[None] for leaf in jax.tree.leaves(self.template)])
        key = Credential(base64.b64encode(bytes(32)).decode(), base64.b64encode(bytes(64)).decode())
        request = Request(self.run, self.config.steps, self.answers, dict.fromkeys(self.roster.names, key), leaves)
        return 2 * len(request.to_bytes())

    @cached_property
    def answer_size(self) -> int:
        """The bytes of an answer."""
        return 8 * len(table_scan.flatten(make_zeros(self, self.template).whole))

    @cached_property
    def guarantees(self) -> SiloGuarantees:
        """What the run guarantees if each silo answers ``answers`` times."""
        return SiloGuarantees(
            self._guarantee(self.shares), self._guarantee(self.shares - self.colluding), self._guarantee(1)
        )

    def report(self, path: str | Path | None = None) -> reports.Report:
        """Make the page of what this run will spend, for each silo to read and sign before anything is charged.

        It states the guarantee that each silo charges to its ledger. With a ``path`` that ends in ".html", also write
        the page and its JSON. The record of the run cites it: ``run.report().against(path)``.
        """
        made = reports.plan(self.sums.title, (self.guarantees.colluding,), details=self.terms)
        return made if path is None else made.save(path)

    @property
    def terms(self) -> dict[str, Any]:
        """The terms in words, for a page."""
        server, _, broken = self.guarantees
        space, box = getattr(self.config, "space", None), getattr(self.config, "bounds", None)
        space = space if space is not None or box is None else np.asarray(box, float)
        terms = {
            "run": self.run,
            "algorithm": recorded_run.describe_run(self.algorithm, self.config),
            "space": None if self.sums.numbers else space,
            **self.sums.terms,
            "silos on the roster": ", ".join(f"{member.name} ({member.users} users)" for member in self.roster.members),
            "hash of the roster": self.roster.digest().hex(),
            "hash of all terms": self.digest.hex(),
            "sums of each silo": f"at most {self.answers}",
            "silos that a sum may lack": self.roster.missing,
            "colluding silos": self.colluding,
            "columns": ", ".join(self.columns) or None,
            "versions of jaxdpbo": f"{self.versions[0]} to {self.versions[1]}, protocol {PROTOCOL}",
            "against the server and no silo": server.claim,
            "if all masks are broken": broken.claim,
        }
        return {name: of for name, of in terms.items() if of is not None}

    def _guarantee(self, shares: int) -> _guarantee.Guarantee:
        """The guarantee of all answers by the noise of so many shares."""
        members, widths = len(self.roster.members), self.share_widths
        level = self.sums.level(self.answers, [shares * sigma**2 for _, sigma in widths])
        drawn = sum(count * tables.gaussian_total_variation(sigma) for count, sigma in widths)
        added = noise_shares.share_total_variation(members, self.answers * (self.answer_size // 8))
        return composed_guarantee.guarantee_from_stages(
            [(self.sums.part, "gaussian", level)],
            self.sums.protects,
            assumptions=(
                assumptions.RANDOM_BITS,
                assumptions.PUBLIC_CONFIG,
                assumptions.SEPARABLE_LOSSES,
                *self.sums.assumptions,
                *((assumptions.MASKS,) if shares > 1 else ()),
                assumptions.ONE_SILO,
            ),
            total_variation=self.answers * members * drawn + added,
        )


def agree(
    run: str,
    algorithm: Algorithm,
    config: object,
    roster: Roster,
    *,
    answers: int | None = None,
    colluding: int = 1,
    versions: tuple[str, str] | None = None,
    columns: Sequence[str] = (),
) -> Agreement:
    """Check the terms of a run among silos.

    >>> import base64
    >>> from jaxdpbo import dp_gibo, silos
    >>> cards = [silos.Member(name, 100, base64.b64encode(name.encode() * 32).decode()) for name in "ABC"]
    >>> config = dp_gibo.config(users=300, steps=5, mu=1.0, bounds=[(0, 6)] * 3, clip_norm=1.0, memory="none")
    >>> agreement = silos.agree("march", dp_gibo.algorithm, config, silos.make_roster(cards))
    >>> agreement.guarantees.server.level < agreement.guarantees.colluding.level < 1.3
    True

    Args:
      run: a name for the run, new for each run.
      algorithm: ``dp_gibo.algorithm``, private evaluations of any inner algorithm, or ``private_linear.algorithm``.
      config: of the algorithm, for the users of all silos, with exact noise, and without memory of users.
      roster: of ``make_roster``.
      answers: the most sums that a silo takes part in, the steps of the config by default. A sum that fails because a
        silo is gone counts: give more than the steps to repeat such sums.
      colluding: the most silos that join what they know, 1 or more, for ``guarantees.colluding``.
      versions: the oldest and the newest version of jaxdpbo that a silo or the server may have, such as
        ("0.1.0", "0.1.9"); by default the version that is installed.
      columns: the names of the numbers that the loss reads of each user, for ``jaxdpbo silo run``.

    Raises:
      ValueError: a term out of range, an algorithm or a config that silos cannot run, other numbers of users, or a
        version of jaxdpbo outside of the agreed ones.
    """
    if not isinstance(run, str) or not run:
        raise ValueError(f"run must be a name, got {run!r}")
    sums = sums_of(algorithm, config)
    if sums.users != roster.users:
        raise ValueError(f"config must be of the {roster.users} users of all silos, got {sums.users}")
    answers = checks.size("answers", sums.steps if answers is None else answers, minimum=sums.steps)
    colluding = checks.size("colluding", colluding)
    agreement = Agreement(run, algorithm, config, roster, answers, colluding, _check_versions(versions), tuple(columns))
    if colluding >= agreement.shares:
        raise ValueError(f"colluding must be fewer than the {agreement.shares} silos of a sum, got {colluding}")
    _expect_no_memory(agreement)
    try:
        make_zeros(agreement, agreement.template)
    except ValueError:
        raise ValueError("algorithm must take one loss for each user and point, not a gradient") from None
    if agreement.answer_size >= LARGEST:
        raise ValueError(f"config must have sums below {LARGEST // 8:,} numbers, got {agreement.answer_size // 8:,}")
    _ = agreement.share_widths  # raises for more shares than the noise can be divided into
    return agreement


def make_zeros(agreement: Agreement, query: Query) -> Any:
    """The total of no user, from shapes alone.

    Raises:
      ValueError: the algorithm takes other values than one loss for each user and point.
    """
    stacked = jax.tree.map(lambda leaf: np.asarray(leaf)[None], query)
    shape = 1, len(query.points), *agreement.sums.numbers, table.BATCH
    values = jax.ShapeDtypeStruct(shape, query.points.dtype)
    present = jax.ShapeDtypeStruct((table.BATCH,), bool)
    total = jax.eval_shape(
        partial(table_scan.total_of_values, agreement.algorithm, False), agreement.config, stacked, values, present
    )
    return table_scan.zeros_of_shapes(total)


def _check_versions(versions: tuple[str, str] | None) -> tuple[str, str]:
    """The agreed range of versions. Raise a ValueError if the installed version is not inside."""
    own = version("jaxdpbo")
    oldest, newest = versions or (own, own)
    if not _read_version(oldest) <= _read_version(own) <= _read_version(newest):
        raise ValueError(
            f"this is jaxdpbo {own}, and the silos agreed on {oldest} to {newest}: install one of these, or agree on "
            "other versions, which costs nothing before the first sum"
        )
    return oldest, newest


def _read_version(text: object) -> tuple[int, ...]:
    if not isinstance(text, str) or not re.fullmatch(r"\d{1,9}(\.\d{1,9}){0,3}", text, re.ASCII):
        raise ValueError(f"versions must be two releases such as '0.1.0', got {text!r}")
    numbers = [int(part) for part in text.split(".")]
    return *numbers, *[0] * (4 - len(numbers))


def _expect_no_memory(agreement: Agreement) -> None:
    """Raise a ValueError if users must remember something between steps."""
    state = jax.jit(agreement.algorithm.init)(jax.random.key(0), agreement.config)
    types.history(agreement.algorithm, agreement.config, state, agreement.template)
