"""What a row is, how its trials are run, and what is said of it."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxdpbo import audit as _auditing
from jaxdpbo.guarantee import guarantees

BLOCK = 2_000  # trials in one call of a compiled program

Scores = tuple[np.ndarray, np.ndarray]


class Row(NamedTuple):
    """A claim and an attack on it.

    Attributes:
      name: of what is attacked.
      statement: the claim; of a row that must fail, the claim that somebody made.
      scores: ``trials -> (first, second)``: scores under each of two neighbours, so many each.
      distance: of the neighbours, where the claim is metric.
      least: the share of a claim that the attack must show: with less it has gone blind.
      holds: False where the attack must succeed: what is shown is that there is no such guarantee.
      slower: by how much a trial costs more than others: so many fewer are run.
      audit: in place of ``scores``, a whole audit without trials.
    """

    name: str
    statement: guarantees.Guarantee
    scores: Callable[[int], Scores] | None = None
    distance: float = 1.0
    least: float = 0.5
    holds: bool = True
    slower: int = 1
    audit: Callable[[], _auditing.Audit] | None = None

    @property
    def claimed_level(self) -> float:
        """The level that the neighbours' distance allows."""
        return self.statement.level * (self.distance if self.statement.notion == "metric_dp" else 1.0)

    @property
    def level_name(self) -> str:
        return "mu" if self.statement.notion == "gdp" else "epsilon"


class Found(NamedTuple):
    """What was measured, and what to make of it: "holds", "EXCEEDED", "BLIND" or "broken, as it must be"."""

    row: Row
    audit: _auditing.Audit
    curve: _auditing.TradeOff
    verdict: str

    @property
    def measured_level(self) -> float:
        return self.audit.mu if self.row.level_name == "mu" else self.audit.epsilon

    @property
    def is_right(self) -> bool:
        """Whether it came out as it must."""
        return self.verdict in ("holds", "broken, as it must be")


def measure_row(row: Row, trials: int) -> Found:
    """Half of ``trials`` choose the attack, the other half judge it."""
    if row.audit is not None:
        audit = row.audit()
        curve = _auditing.TradeOff(np.zeros(0), np.zeros(0))
    else:
        assert row.scores is not None
        scores = row.scores(max(100, trials // row.slower))
        audit = _auditing.threshold_audit(*scores, delta=row.statement.delta, bound=row.level_name)
        curve = _auditing.trade_off(*scores)
    result = Found(row, audit, curve, "")
    if row.holds:
        refuted = _auditing.is_refuted(audit, row.statement, distance=row.distance)
        blind = result.measured_level < row.least * row.claimed_level
        return result._replace(verdict="EXCEEDED" if refuted else "BLIND" if blind else "holds")
    return result._replace(verdict="broken, as it must be" if result.measured_level > row.claimed_level else "BLIND")


def claim(notion: str, level: float, **more: Any) -> guarantees.Guarantee:
    """A claim about the neighbours of a row."""
    return guarantees.guarantee(notion, level, more.pop("relation", "replace_one"), "one of two neighbours", **more)


def simulate(
    release: Callable[[jax.Array, Any], Any], first: Any, second: Any, trials: int, *, together: bool = True
) -> tuple[Any, Any]:
    """``release(key, data)`` of both neighbours under ``trials`` keys each, all different.

    Rows share these keys: those whose noise is the same are lucky or unlucky together.
    One compilation: the data are an argument. ``together``: a block of keys side by side, otherwise in turn, as batched
    factorisations want it on a CPU.
    """

    @jax.jit
    def block(seed, number, data):
        keys = jax.random.split(jax.random.fold_in(jax.random.key(seed), number), BLOCK)
        if together:
            return jax.vmap(lambda key: release(key, data))(keys)
        return jax.lax.map(lambda key: release(key, data), keys)

    def run_trials(seed, data):
        data = jax.tree.map(jnp.asarray, data)
        parts = [jax.tree.map(np.asarray, block(seed, i, data)) for i in range(-(-trials // BLOCK))]
        return jax.tree.map(lambda *blocks: np.concatenate(blocks)[:trials], *parts)

    return run_trials(0, first), run_trials(1, second)


def score_both(score: Callable[..., np.ndarray], drawn: tuple[Any, Any]) -> Scores:
    """One score of what was released, under either."""
    return score(drawn[0]), score(drawn[1])
