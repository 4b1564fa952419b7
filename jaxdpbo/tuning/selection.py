"""Private selection: run a random number of private runs, and release the best alone.

Publishing many private models costs many times the budget of one. A selection hides the cost of the losers by keeping
the number of runs secret (Liu and Talwar 2019; Papernot and Steinke 2022; the bound is ours, docs/theorems.md). So the
number of runs, the losers, their number and their order appear nowhere: not in a result, a log, a progress bar, a
ledger or an exception. Running time reveals them to anyone who can time the call (docs/threat-model.md).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxdpbo import accounting, checks, silence
from jaxdpbo.accounting import stage
from jaxdpbo.guarantee import assumptions as _assumptions
from jaxdpbo.guarantee import guarantees as _guarantee
from jaxdpbo.guarantee import recording as records
from jaxdpbo.guarantee import release_key
from jaxdpbo.noise import keys
from jaxdpbo.tuning import repetition

ON_ERROR = ("worst", "raise")
STAGES_OF_NUMBERS = ("gaussian", "pure", "bounded_range", "approximate", "sampled_gaussian")  # equal by their numbers
MAX_CACHED = 512
_EPSILONS: dict[Any, float] = {}  # of public numbers alone
MOST_CUT = 1e-3  # of delta: the most probability that the number of runs exceeds a cap
Profile = Callable[[float], float]
Run = Callable[[Any, jax.Array], tuple[Any, float]]
Cost = stage.Stage | Sequence[stage.Stage]


class AllRunsFailed(RuntimeError):
    """Every run failed: the best one has no output and the score inf. The budget is spent, and nothing is released.

    This follows from the model and the score of the best run, which a release would show (``FAILS_BY_NOISE``).

    Attributes:
      guarantees: what was spent, for each set of rows.
    """

    def __init__(self, guarantees: tuple[_guarantee.Guarantee, ...]):
        """Keep the guarantees."""
        super().__init__(guarantees)
        self.guarantees = guarantees

    def __str__(self) -> str:
        """What was spent, and what to do."""
        spent = "; ".join(guarantee.claim for guarantee in self.guarantees)
        return (
            "no model was released: every run failed. Exceptions are hidden because they may quote rows. The budget is "
            f"spent: {spent}. Find the cause on public rows of the same shapes, with the same settings"
        )


class SelectionResult(NamedTuple):
    """Everything you may publish.

    Attributes:
      setting: of the best run.
      output: of the best run, such as its model.
      score: of the best run, as returned: noised if measured on protected rows.
      guarantees: a guarantee for each set of rows.
    """

    setting: Any
    output: Any
    score: float
    guarantees: tuple[_guarantee.Guarantee, ...]


def private_selection(
    train_and_score: Run,
    settings: Sequence[Any],
    *,
    mean: float,
    costs: Mapping[str, Cost],
    delta: float,
    eta: float = 0.0,
    run_total_variation: float = 0.0,
    cap: int | None = None,
    assumptions: tuple[str, ...] = (),
    on_error: str = "worst",
    ledgers: Mapping[str, records.Recording] | None = None,
    key: jax.Array | None = None,
    insecure_key: bool = False,
) -> SelectionResult:
    """Run a private training with random settings, a random number of times, and return the best run alone.

    Formal guarantee: for each set of rows in ``costs``, ``(epsilon, delta)``-DP, replace-one, of everything returned,
    with ``epsilon`` the ``accounting.selection_epsilon`` of the average profile of the settings; beside it
    ``attained``, the lower bound of ``accounting.attained_selection_epsilon``. Assumptions, by name in the guarantee:
    ``costs`` covers one run, its score included; the number of runs stays unknown; failure of a run depends only on
    noised values.

    >>> import jax
    >>> from jaxdpbo import accounting, tuning
    >>> def count(setting, key):  # a count of 40 people, noised; the best setting has the least
    ...     noised = 40 + setting + 4 * float(jax.random.normal(key))  # floats are for examples alone
    ...     return noised, noised
    >>> cost = accounting.gaussian_stage(0.25, "one count")
    >>> selected = tuning.private_selection(count, [0, 50], mean=10, costs={"the people": cost}, delta=1e-5)
    >>> selected.setting in (0, 50)  # 0, unless none of a random number of runs tried it
    True
    >>> round(selected.guarantees[0].level, 1)
    1.4

    Args:
      train_and_score: ``(setting, key) -> (output, score)``, a private mechanism: everything that depends on protected
        rows, the score too, is noised with ``key``. Lower scores are better; NaN is the worst. The output is copied,
        so runs may share an estimator or a buffer; a run with an output that ``copy.deepcopy`` refuses has failed.
      settings: a public list of a fixed length, drawn from uniformly, with replacement. To search a box, pass a fixed
        sample of it.
      mean: mean number of runs, above 1.
      costs: the cost of ONE run to each set of rows, by the name of the set: a ``stage`` for all settings, or a
        sequence with a stage for each. Rows that train and rows that score have separate guarantees; rows in both roles
        have one cost, composed (``accounting.curve_stage(accounting.compose_profile([...]))``).
      delta: of each guarantee.
      eta: shape of the truncated negative binomial distribution of the number of runs: 0 is logarithmic, 1 geometric. A
        smaller ``eta`` gives a single run more often and costs less privacy at the same mean.
      run_total_variation: bound on the total variation between one run's noise and ideal noise.
      cap: always run this many times and throw away the runs beyond the random number, so that running time does not
        reveal that number. A random number above ``cap`` has a small probability, which the guarantee includes as total
        variation. None: stop after the random number of runs.
      assumptions: of one run's cost, by name: ``assumptions.IDEAL_NOISE`` for noise in floats.
      on_error: "worst": a run that raises loses. "raise": for debugging on data without privacy needs.
      ledgers: for each set of rows, where its guarantee is charged before the first run. No result is returned
        again: a second call under the same name is refused.
      key: see ``minimize``.
      insecure_key: see ``minimize``.

    Raises:
      ValueError: no settings, no costs, a number out of range, nothing proved at this ``delta``.
      TypeError: an argument of the wrong kind.
      AllRunsFailed: every run raised an exception, or returned None with the score inf; the budget is spent.
      ledger.LedgerError: a budget does not suffice, or a name belongs to another or an earlier selection.
    """
    if not callable(train_and_score):
        raise TypeError(f"train_and_score must be a function, got {type(train_and_score).__name__}")
    settings = check_settings(settings)
    keys.refuse_trace("the key of private_selection()")
    repetitions = accounting.repetitions(eta, mean)
    if cap is not None:
        cap = check_cap(
            repetitions, cap, delta, max(base.level for base in base_guarantees(repetitions, settings, costs, delta))
        )
    guarantees = selection_guarantees(repetitions, settings, costs, delta, run_total_variation, cap, assumptions)
    execution = SelectionExecution(cap, on_error, ledgers, key, insecure_key)
    return select(train_and_score, settings, repetitions, guarantees, execution)


class SelectionExecution(NamedTuple):
    """How a selection runs: the arguments of ``private_selection`` with these names."""

    cap: int | None
    on_error: str
    ledgers: Mapping[str, records.Recording] | None
    key: jax.Array | None
    insecure_key: bool


def selection_guarantees(
    repetitions: accounting.Repetitions,
    settings: Sequence[Any],
    costs: Mapping[str, Cost],
    delta: float,
    run_total_variation: float,
    cap: int | None,
    assumptions: tuple[str, ...],
) -> tuple[_guarantee.Guarantee, ...]:
    """Compute the whole guarantee of a selection for each set of rows, its lower bound included; no data."""
    times = repetitions.mean * checks.nonnegative("run_total_variation", run_total_variation)
    variation = times + repetition.table(repetitions, cap).total_variation
    guarantees = base_guarantees(repetitions, settings, costs, delta, variation)
    guarantees = add_attained(guarantees, repetitions, costs)
    return tuple(guarantee.assuming(timing_assumption(cap), *assumptions) for guarantee in guarantees)


def select(
    train_and_score: Run,
    settings: tuple[Any, ...],
    repetitions: accounting.Repetitions,
    guarantees: tuple[_guarantee.Guarantee, ...],
    execution: SelectionExecution,
) -> SelectionResult:
    """Charge the ledgers, run, and return the best run with its guarantees."""
    keep = checks.one_of("on_error", execution.on_error, ON_ERROR) == "worst"
    secret, first = release_key.for_release(execution.key, guarantees[0], execution.insecure_key)
    guarantees = (first, *(other.assuming(*first.assumptions) for other in guarantees[1:]))
    charge_selection(execution.ledgers, guarantees, "private selection", repetitions, settings, execution.cap)
    table = repetition.table(repetitions, execution.cap)
    setting, output, score = best_run(train_and_score, settings, table, secret, keep=keep, cap=execution.cap)
    if output is None and score == np.inf:
        raise AllRunsFailed(guarantees)
    return SelectionResult(setting, output, score, guarantees)


def check_cap(repetitions: accounting.Repetitions, cap: int | None, delta: float, epsilon: float) -> int | None:
    """Check a number of runs that the random number seldom exceeds.

    Raises:
      ValueError: ``cap`` is no positive number, or is exceeded too often: then the total variation takes more than
        ``MOST_CUT`` of ``delta``.
    """
    if cap is None:
        return None
    cap, delta = checks.size("cap", cap), delta * math.exp(-epsilon)
    if accounting.tail_probability(repetitions, cap) > MOST_CUT * delta:
        longer = range(cap, repetition.LONGEST)
        least = next(
            (k for k in longer if accounting.tail_probability(repetitions, k) <= MOST_CUT * delta), longer.stop
        )
        raise ValueError(f"cap must be at least {least} for this mean, eta and delta, got {cap}")
    return cap


def timing_assumption(cap: int | None) -> str:
    """The assumption about what running time reveals."""
    return _assumptions.RUNS_UNKNOWN if cap is None else _assumptions.LOSERS_UNKNOWN


def base_guarantees(
    repetitions: accounting.Repetitions,
    settings: Sequence[Any],
    costs: Mapping[str, Cost],
    delta: float,
    variation: float = 0.0,
) -> tuple[_guarantee.Guarantee, ...]:
    """Compute the guarantee of a selection for each set of rows, without its lower bound; host arithmetic, no data.

    Raises:
      ValueError: no costs, a number of stages other than 1 or the number of settings, or nothing proved at this
        ``delta``.
      TypeError: a cost is not a stage.
    """
    if not isinstance(costs, Mapping) or not costs:
        raise ValueError(f"costs must map each set of rows to the cost of one run, got {costs!r}")
    guarantees = []
    for name, cost in costs.items():
        of_one = (cost,) if isinstance(cost, stage.Stage) else tuple(cost) if isinstance(cost, Sequence) else ()
        if not of_one or not all(isinstance(part, stage.Stage) for part in of_one):
            raise TypeError(f"costs must be stages of jaxdpbo.accounting, got {cost!r} for {name!r}")
        if len(of_one) not in (1, len(settings)):
            raise ValueError(f"costs must be one stage, or one for each of {len(settings)} settings, got {len(of_one)}")
        epsilon = _cached(accounting.selection_epsilon, repetitions, of_one, delta)
        if not np.isfinite(epsilon):
            raise ValueError(f"costs must be smaller: nothing is proved for {name!r} at delta={delta:g}")
        rests = (_assumptions.RANDOM_BITS, _assumptions.PUBLIC_CONFIG, _assumptions.RUN_COST)
        guarantees.append(
            _guarantee.guarantee(
                "dp",
                max(epsilon, np.finfo(float).tiny),
                "replace_one",
                name,
                assumptions=(*rests, _assumptions.FAILS_BY_NOISE),
                delta=delta,
                total_variation=variation,
            )
        )
    return tuple(guarantees)


def add_attained(
    guarantees: Sequence[_guarantee.Guarantee], repetitions: accounting.Repetitions, costs: Mapping[str, Cost]
) -> tuple[_guarantee.Guarantee, ...]:
    """State a lower bound beside each epsilon, so that you see how much a better proof could gain."""
    with_bounds = []
    for guarantee in guarantees:
        cost = costs[guarantee.protects]
        run = (cost,) if isinstance(cost, stage.Stage) else tuple(cost)
        bound = _cached(accounting.attained_selection_epsilon, repetitions, run, guarantee.delta)
        with_bounds.append(replace(guarantee, attained=min(bound, guarantee.level)))
    return tuple(with_bounds)


def _cached(
    epsilon: Callable[[accounting.Repetitions, Profile, float], float],
    repetitions: accounting.Repetitions,
    run: tuple[stage.Stage, ...],
    delta: float,
) -> float:
    """The ``epsilon`` of a run's average profile, once for equal stages: a search is often called with other rows."""
    if not all(part.kind in STAGES_OF_NUMBERS for part in run):
        return epsilon(repetitions, _average([part.profile for part in run]), delta)
    fields = epsilon, repetitions, tuple((part.kind, part.arguments) for part in run), delta
    if fields not in _EPSILONS:
        if len(_EPSILONS) >= MAX_CACHED:
            _EPSILONS.clear()
        _EPSILONS[fields] = epsilon(repetitions, _average([part.profile for part in run]), delta)
    return _EPSILONS[fields]


def _average(profiles: Sequence[Profile]) -> Profile:
    """Profile of a run with a setting drawn uniformly, from the profile of each setting."""
    return accounting.average_profile([1 / len(profiles)] * len(profiles), profiles)


def check_settings(settings: Sequence[Any]) -> tuple[Any, ...]:
    """Check a list of one or more settings."""
    if isinstance(settings, (str, Mapping)) or not isinstance(settings, Sequence) or not settings:
        raise ValueError(f"settings must be a list of one or more, got {settings!r}")
    return tuple(settings)


def charge_selection(
    ledgers: Any, guarantees: Sequence[_guarantee.Guarantee], what: str, *public: object
) -> dict[str, records.Recording]:
    """Charge the ledgers for the whole selection, before the first run; no result is returned again.

    Returns:
      The checked recordings, by set of rows.

    Raises:
      ValueError: a set of rows without a guarantee.
      ledger.LedgerError: a budget does not suffice, or a name was used before.
    """
    checked = {} if ledgers is None else {name: records.check_recording(value) for name, value in dict(ledgers).items()}
    by_rows = {guarantee.protects: guarantee for guarantee in guarantees}
    if unknown := set(checked) - set(by_rows):
        names = ", ".join(map(repr, by_rows))
        raise ValueError(f"ledgers must be of {names}, got {', '.join(map(repr, sorted(unknown)))}")
    if checked:
        records.charge_together({name: (checked[name], by_rows[name]) for name in checked}, what, *public)
    return checked


def best_run(
    train_and_score: Run,
    settings: tuple[Any, ...],
    table: repetition.Table,
    key: jax.Array,
    *,
    keep: bool,
    cap: int | None = None,
    rank: Callable[[Any, float], Any] = lambda setting, score: score,
) -> tuple[Any, ...]:
    """Setting, output and score of the best run, of the least rank; the first of equal runs.

    Args:
      train_and_score: see ``private_selection``.
      settings: drawn from uniformly.
      table: of the number of runs.
      key: of all draws.
      keep: a run that raises loses; otherwise its exception ends the selection.
      cap: run this often, and ignore what comes after the random number of runs.
      rank: ``(setting, score) ->`` what to compare, without rows.
    """
    first, rest = jax.random.split(key)
    best: tuple[Any, ...] = ()
    with silence.isolate():
        count = table.runs(_uniform(first))
        for number in range(count if cap is None else cap):
            of_setting, of_run, of_globals = _keys_of(rest, number)
            setting = settings[_uniform(of_setting) * len(settings) >> repetition.BITS]
            try:
                seed_globals(of_globals)
                output, score = train_and_score(
                    deepcopy(setting), of_run
                )  # changes to a setting would reach the next run
                output, score = own_output(output), float(score)
            except silence.STOPS:
                raise
            except BaseException:
                if not keep:
                    raise
                output, score = None, np.inf
            score = np.inf if np.isnan(score) else score
            if number < count and (not best or rank(setting, score) < rank(best[0], best[2])):
                best = setting, output, score
    return best


def seed_globals(key: jax.Array) -> None:
    """Seed NumPy's and Python's generators for one run: ``isolate`` restores them, so all runs would draw the same."""
    silence.seed_generators(np.asarray(jax.random.key_data(key)))


def own_output(output: object) -> Any:
    """Wait for the output of a run, as a JAX program may fail after its function returned, and copy it.

    A later run may fit the same estimator, or fill the same buffer: the guarantee covers the best run's output alone.
    Arrays inside an object that is not a pytree are not waited for.
    """
    jax.block_until_ready(_leaves(output))
    return deepcopy(output)


def _leaves(output: Any) -> list[Any]:
    try:
        return jax.tree.leaves(output)
    except (TypeError, ValueError):  # a dict inside has keys without an order
        inside = output.values() if isinstance(output, dict) else output if isinstance(output, (list, tuple)) else ()
        return [leaf for item in inside for leaf in _leaves(item)]


def _uniform(key: jax.Array) -> int:
    """Draw a number of ``repetition.BITS`` bits."""
    return int.from_bytes(np.asarray(_bits(key)).tobytes(), "little")


_bits = jax.jit(lambda key: jax.random.bits(key, (repetition.BITS // 32,), "uint32"))
_keys_of = jax.jit(lambda key, number: tuple(jax.random.split(jax.random.fold_in(key, number), 3)))
