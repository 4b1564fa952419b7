"""Every public function that takes or makes keys, in one table, and a generator that notes what is done to each key.

A key may be used once: its bits drawn, or split, or folded with data as often as one likes. The notes are of values, so
a key that two rows of a ``vmap`` or two configs share is a key used twice, wherever it is copied.
"""

import importlib
import inspect
import json
import pkgutil
import re
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable
from fractions import Fraction
from hashlib import blake2b
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optuna
from jax.experimental import io_callback
from jax.extend.random import define_prng_impl
from option_groups import group_options
from protocol_cases import BOUNDS, CANDIDATES, CASES, USERS, _searched, low_high, records
from sklearn.dummy import DummyClassifier
from training_cases import Trivial

import jaxdpbo
from jaxdpbo import dp_gd, dp_gibo, drivers, input_noise, kernels, outsourcing, space, surrogate, transforms, tuning
from jaxdpbo.accounting import stage
from jaxdpbo.algorithms import dpareto
from jaxdpbo.algorithms.dpareto import predictions
from jaxdpbo.guarantee import guarantees, release_key
from jaxdpbo.integrations.optuna import private_study
from jaxdpbo.integrations.sklearn import PrivateClassifier, PrivateRegressor, PrivateSearchCV
from jaxdpbo.noise import calibration, choice, keys, mechanisms, private_mean, private_scale
from jaxdpbo.noise.mechanisms import tables
from jaxdpbo.outsourcing import protocol
from jaxdpbo.problems import _gp_draws
from jaxdpbo.training import dp_optim, models, objectives, oracles, permutation_sgd
from jaxdpbo.tuning import other_trainings

USES: list[tuple[bytes, str, bytes]] = []  # of which key, what, with which data


def _noted(key: Any, use: str, count: int, dtype: Any = np.uint32, data: Any = b"") -> np.ndarray:
    """Words that follow from all of it, as a generator's do."""
    key, data = np.asarray(key).tobytes(), np.asarray(data).tobytes()
    USES.append((key, use, data))
    label = blake2b(key + use.encode() + data, digest_size=16).digest()
    generator = np.random.Generator(np.random.Philox(key=int.from_bytes(label, "little")))
    return np.frombuffer(generator.bytes(count * np.dtype(dtype).itemsize), dtype)


def _bits(key: jax.Array, width: int, shape: tuple[int, ...]) -> jax.Array:
    kind = jax.ShapeDtypeStruct(shape, f"uint{width}")
    return io_callback(lambda key: _noted(key, "bits", kind.size, kind.dtype).reshape(shape), kind, key)


def _split(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    kind = jax.ShapeDtypeStruct((*shape, keys.WORDS), jnp.uint32)
    return io_callback(lambda key: _noted(key, "split", kind.size).reshape(kind.shape), kind, key)


def _fold_in(key: jax.Array, data: jax.Array) -> jax.Array:
    kind = jax.ShapeDtypeStruct((keys.WORDS,), jnp.uint32)
    return io_callback(lambda key, data: _noted(key, "fold_in", keys.WORDS, data=data), kind, key, data)


def _seed(seed: jax.Array) -> jax.Array:
    raise TypeError("no seeds")


noting = define_prng_impl(
    key_shape=(keys.WORDS,), seed=_seed, split=_split, random_bits=_bits, fold_in=_fold_in, name="noting", tag="noting"
)


def key_of(name: str) -> jax.Array:
    """One for each name."""
    return jax.random.wrap_key_data(jnp.asarray(words_of(blake2b(name.encode(), digest_size=32).digest())), impl=noting)


def words_of(key: bytes) -> np.ndarray:
    return np.frombuffer(key, "<u4").astype(np.uint32)


def used_twice() -> list[tuple[str, Counter]]:
    """Keys by their first word, with what was done to them, where that was more than once."""
    of_key: dict[bytes, Counter] = defaultdict(Counter)
    for key, use, _ in USES:
        of_key[key][use] += 1
    return [
        (key.hex()[:8], uses)
        for key, uses in of_key.items()
        if uses["bits"] + uses["split"] > 1 or (uses["fold_in"] and len(uses) > 1)
    ]


def constants_of(text: str) -> frozenset[int]:
    """All 32-bit words that stand in a program's text: as decimals, or within the bytes of a table."""
    numbers = [int(number) % 2**64 for number in set(re.findall(r"-?\b\d{6,20}\b", text))]
    halves = [half for number in numbers for half in (number % 2**32, number >> 32)]
    blobs = [bytes.fromhex(blob) for blob in set(re.findall(r'"0x([0-9A-Fa-f]+)"', text))]
    tables_of = [np.frombuffer(blob[: len(blob) // 4 * 4], "<u4") for blob in blobs]
    return frozenset(halves).union(*(table.tolist() for table in tables_of))


def found_in(constants: frozenset[int], key: bytes) -> bool:
    """Whether a key is among them: two of its eight words, since one may be there by chance."""
    return sum(word in constants for word in words_of(key).tolist()) >= 2


def public_functions() -> dict[str, Any]:
    """All that take a key by that name, or within an ``Execution`` of the drivers, or make one."""
    found = {}
    for module in (importlib.import_module(info.name) for info in pkgutil.walk_packages(jaxdpbo.__path__, "jaxdpbo.")):
        for name, value in vars(module).items():
            if name.startswith("_") or not callable(value) or getattr(value, "__module__", None) != module.__name__:
                continue
            try:
                parameters = inspect.signature(value).parameters.values()
                taken = any(
                    re.fullmatch(r"(.*_)?keys?", each.name) or "Execution" in str(each.annotation)
                    for each in parameters
                )
                makes = {"for_release", "secret_key", "key_from_bytes"} & set(code_of(value).co_names)
            except (AttributeError, TypeError, ValueError):
                continue
            if taken or makes or name in ("secret_key", "key_from_bytes"):
                found[f"{module.__name__}.{name}".removeprefix("jaxdpbo.")] = value
    return found


def code_of(function: Any) -> CodeType:
    function = inspect.unwrap(function)
    if inspect.isclass(function):
        function = function.__new__ if issubclass(function, tuple) else function.__init__
    return function.__code__


class Case(NamedTuple):
    """``run(key)`` enters every function of ``names``; ``draws``: it uses keys at all."""

    run: Callable[[jax.Array], Any]
    names: tuple[str, ...]
    draws: bool = True


def _protocol(case, driver=drivers.run_scan):
    def run(key):
        execution = {"key": key, "insecure_key": True}
        driver(case.algorithm, case.objective, records(), case.config(1.0), **execution)

    return run


def _on_a_table(key):
    """With a survey, whose noise has a key of its own."""
    config = dp_gibo.config(
        users=len(records()), steps=2, mu=1.0, bounds=[(0.0, 1.0)], clip_norm="private", memory="none"
    )
    drivers.run_loop(
        dp_gibo.algorithm, lambda point, batch: jnp.square(batch["x"] - point[0]),
        jaxdpbo.tables.arrays({"x": records()[:, 0]}), config, key=key, insecure_key=True,
    )  # fmt: skip


def _in_parts(key):
    case = CASES["dp_gd"]
    with tempfile.TemporaryDirectory() as folder:
        drivers.run_scan(
            case.algorithm, case.objective, records(), case.config(1.0),
            key=key, insecure_key=True, checkpoint=Path(folder) / "run.npz",
        )  # fmt: skip


def _minimize(key):
    return drivers.minimize(
        first_losses,
        jnp.asarray(records()),
        BOUNDS[:, :1],
        mu=1.0,
        search=drivers.Search(steps=2, batch=2),
        key=key,
        insecure_key=True,
    )


def first_losses(point, data):
    return jnp.square(data[:, 0] - point[0])


def _sweep(key):
    configs = [CASES["dp_gd"].config(scale) for scale in (0.7, 1.0)]
    arguments = CASES["dp_gd"].algorithm, CASES["dp_gd"].objective, records(), configs
    drivers.sweep(*arguments, seeds=2, key=key)


POINTS = np.array([[0.3, 1.0], [-0.7, 0.2], [1.5, -0.5]])
PUBLIC = {"centre": np.zeros(2), "scale": 1.0, "epsilon": 2.0}


def _curate(key):
    chosen = [
        transforms.random_projection(dimension=2, projected=1, epsilon=1.0, delta=1e-3),
        transforms.product_laplace(**PUBLIC),
        transforms.private_projection(**PUBLIC, projected=1, delta=1e-3),
        transforms.randomised_response(**PUBLIC, cells=POINTS[:2]),
        transforms.planar_laplace(**PUBLIC, noise="float"),
        transforms.private_projection(**PUBLIC, projected=1, delta=1e-3, noise="float"),
        transforms.randomised_response(**PUBLIC, cells=POINTS[:2], noise="float"),
    ]
    key, rest = jax.random.split(key)
    for own, config in zip(jax.random.split(rest, len(chosen)), chosen, strict=True):
        transforms.curate(own, config, POINTS, insecure_key=True)
    transforms.project(key, chosen[0], POINTS)


def _objective(key):
    objective = drivers.PrivateObjective(
        first_losses,
        records(),
        users=USERS,
        mu=1.0,
        evaluations=3,
        loss_range=(0.0, 3.0),
        key=key,
        insecure_key=True,
    )
    return [objective(point) for point in np.zeros((3, 1))]  # one point thrice: other noise each time


def _study(key):
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    options = {"users": USERS, "mu": 1.0, "evaluations": 3, "loss_range": (0.0, 3.0), "key": key, "insecure_key": True}
    private = private_study(
        optuna.create_study(),
        lambda trial: {},
        lambda _, data: first_losses(np.zeros(1), data),
        records(),
        **group_options(**options),
    )
    private.optimize()
    return [trial.value for trial in private.study.trials]  # one setting thrice: other noise each time


def _search_cv(key):
    inputs, targets = np.arange(12.0).reshape(-1, 1), np.arange(12) % 2
    search = PrivateSearchCV(
        DummyClassifier(),
        {"strategy": ["prior", "most_frequent"]},
        mu=1.0,
        n_iter=2,
        search=drivers.Search(method="in_order"),
        key=key,
        insecure_key=True,
    )
    return search.fit(inputs, targets).release_.point


def _models_of_a_table(key):
    inputs, first, second = np.linspace(0, 1, 40).reshape(-1, 1), *jax.random.split(key)
    setting = {"hidden": (), "learning_rate": 1.0, "batch": 32, "epochs": 1, "clip_norm": 1.0}
    options = {"columns": space.real(0, 1), "epsilon": 5.0, "delta": 1e-3}
    execution, ranges = {"key": first, "insecure_key": True}, {"columns": "private", "private_range": 0.1}
    classifier = PrivateClassifier(classes=(0, 1), **execution, **options | ranges).fit(inputs, np.arange(40) % 2)
    options |= {"key": second, "insecure_key": True, "settings": [setting]}
    regressor = PrivateRegressor(target_range=(0, 1), **options).fit(inputs, inputs[:, 0])
    return classifier.error_, regressor.error_


def _selection(key):
    def run(setting, key):
        return None, float(jax.random.normal(key))

    costs = {"them": stage.gaussian_stage(0.5)}
    return tuning.private_selection(run, [0, 1], mean=4.0, eta=3.0, costs=costs, delta=1e-3, key=key, insecure_key=True)


class Drawing(Trivial):
    """A training that draws a number."""

    def fit(self, setting, noise, rows, key):
        return float(jax.random.normal(key))


def _tuned(key):
    rows = np.zeros((40, 2)), np.zeros(40, int)
    options = {"epsilon": 3.0, "delta": 1e-3, "mean": 4.0, "insecure_key": True}
    return tuning.tune_and_train(Drawing(), rows, [0, 1], key=key, **options).setting


def _least(key):
    rows = np.zeros((40, 2)), np.zeros(40, int)
    options = {"error": 0.5, "epsilons": (1.0, 3.0), "delta": 1e-3, "mean": 4.0, "insecure_key": True}
    return tuning.least_epsilon(Drawing(), rows, [0, 1], key=key, **options).epsilon


def _front(key):
    rows = np.zeros((40, 2)), np.zeros(40, int)
    options = {"epsilon": 3.0, "delta": 1e-3, "count": 6, "insecure_key": True}
    return len(tuning.private_front(Drawing(), rows, [0, 1, 2], key=key, **options).errors)


def published() -> outsourcing.Publication:
    """Rows as they are, which is nothing to a modeler."""
    metadata = transforms.Metadata("product_laplace", input_noise.distribution("product_laplace", 0.1, 2), None, 1.0)
    statement = guarantees.no_guarantee("rows", "they are no one's")
    return outsourcing.Publication(transforms.CuratedRows(jnp.asarray(CANDIDATES), metadata, statement), "digest")


def said(sent: list[str], queries: int = 2):
    """A curator's lines, in answer to what it was sent."""
    greeting = {"schema": protocol.SCHEMA, "version": protocol.VERSION, "released": "digest"}
    yield json.dumps(greeting | {"rows": len(CANDIDATES), "queries": queries, "answers": []})
    for _ in range(queries):
        yield json.dumps(json.loads(sent[-1]) | {"output": 0.5})


def _search(key):
    sent: list[str] = []
    return outsourcing.search(published(), said(sent), sent.append, key=key, lengthscale=1.0, noise_variance=0.1)


def _wanted(key):
    case, large = CASES["dpareto"], (predictions.RAW_SAMPLES, predictions.NUM_RESTARTS, predictions.STEPS)
    released = jax.eval_shape(
        lambda key: case.algorithm.release(key, case.config(1.0), case.algorithm.init(key, case.config(1.0))), key
    )
    released = jax.tree.map(lambda leaf: jnp.ones(leaf.shape, leaf.dtype), released)
    predictions.RAW_SAMPLES, predictions.NUM_RESTARTS, predictions.STEPS = 4, 1, 1
    try:
        return dpareto.best_setting(
            key, case.config(1.0), released._replace(failed=jnp.full_like(released.failed, dpareto.USABLE)), epsilon=1.0
        )
    finally:
        predictions.RAW_SAMPLES, predictions.NUM_RESTARTS, predictions.STEPS = large


THIRDS = (Fraction(1, 3),) * 3
CHOSEN = choice.choice_noise(1.0, "exact", dtype=float)
SOUGHT = private_scale.scale_noise(1.0, "exact", dtype=float)
NOISED = calibration.sum_noise(1.0, "exact", users=5, steps=2, dimension=1, releases=2, dtype=float)
PRIOR = surrogate.GPModel(kernels.rbf, kernels.stationary_params(1.0, 2), jnp.asarray(0.1))


@jax.jit
def _pure(key):
    """One program for all that are pure: each has a key of its own."""
    fresh = iter(jax.random.split(key, 30))
    scores, rate = jnp.arange(5, dtype=jnp.int32), Fraction(1, 64)
    table = jnp.asarray(tables.geometric(rate))
    shape = (2,)
    drawn = [
        mechanisms.rounded_gaussian(next(fresh), shape, 64), mechanisms.geometric(next(fresh), shape, rate),
        mechanisms.rounded_gaussian(next(fresh), shape, 65536), mechanisms.discrete_gaussian(next(fresh), shape, 200),
        mechanisms.geometric_from_table(next(fresh), shape, table),
        mechanisms.discrete_laplace(next(fresh), shape, rate),
        mechanisms.discrete_laplace_from_table(next(fresh), shape, table),
        mechanisms.outcome(next(fresh), shape, THIRDS),
        mechanisms.planar_laplace(next(fresh), 2, Fraction(1)),
        mechanisms.noisy_argmax(next(fresh), scores, rate), mechanisms.exact_exponential(next(fresh), scores, rate),
        mechanisms.gaussian(next(fresh), jnp.zeros(2), 1.0), mechanisms.laplace(next(fresh), jnp.zeros(2), 1.0),
        mechanisms.exponential(next(fresh), jnp.zeros(2), 1.0, 1.0),
        private_scale.median(next(fresh), SOUGHT, jnp.arange(5.0)),
        private_mean.noisy_mean_loss(next(fresh), NOISED, jnp.ones((2, 5)), jnp.asarray(0.0), jnp.asarray(1.0)),
        choice.choose_row(next(fresh), CHOSEN, jnp.arange(6.0).reshape(3, 2), jnp.asarray(1.0)),
        *(
            input_noise.draw_noise(next(fresh), input_noise.distribution(kind, 1.0, 2), 2)
            for kind in input_noise.KINDS
        ),
        surrogate.sample_posterior(
            next(fresh), PRIOR, surrogate.condition(PRIOR, jnp.asarray(POINTS)), jnp.ones(3), jnp.zeros((1, 2)), count=1
        ),
        _gp_draws.gp_draws(next(fresh), 2, side=1.0, points=2, lengthscale=1.0),
        models.init_params(next(fresh), models.mlp(2, (3,), 2)),
        oracles.sparse_vector_errors(jax.random.split(next(fresh), 2), jnp.asarray(2.0), jnp.asarray(1.0)),
        permutation_sgd.train_by_permutation(
            next(fresh), jnp.asarray(POINTS), jnp.arange(3) % 2, jnp.asarray(0.1), jnp.asarray(1.0), passes=2
        ),
    ]  # fmt: skip
    return drawn


@jax.jit
def _trained(key):
    """Two trainings side by side, with batches that are drawn sparsely."""
    features = jnp.asarray(np.random.default_rng(0).normal(size=(70, 2)))
    rows = models.examples(features, jnp.arange(70) % 2)
    settings = dp_optim.settings(steps=3, batch=2, learning_rate=0.1, noise_multiplier=1.0, clip_norm=1.0)
    return oracles.training_errors(
        jax.random.split(key, 2), models.logistic_regression(2), rows, (features, jnp.arange(70) % 2), settings,
        largest=8,
    )  # fmt: skip


def _measured(key):
    """An objective at two settings, which draw keys of their own."""
    features = jnp.asarray(np.random.default_rng(0).normal(size=(9, 2)))
    data = objectives.Data(models.examples(features, jnp.arange(9) % 2), (features, jnp.arange(9) % 2), key)
    measure = objectives.objective(models.logistic_regression(2), delta=0.1, largest=3, repeats=2)
    return [measure(jnp.array([1.0, 3.0, 0.1, noise, 1.0]), data) for noise in (1.0, 2.0)]


def _made(key):
    """Keys themselves: none is used, no two are alike."""
    del key
    first, second = keys.secret_key(), keys.secret_key()
    given, _ = release_key.for_release(None, guarantees.no_guarantee("rows", "a test"), False)
    several = [first, second, given, *keys.secret_key((2,))]
    assert len({np.asarray(jax.random.key_data(each)).tobytes() for each in several}) == len(several)
    assert all(map(keys.is_secret_kind, several))
    assert keys.generator(keys.key_from_bytes(bytes(32))) == "chacha20"


def _of(module: str, *names: str) -> tuple[str, ...]:
    return tuple(f"{module}.{name}" for name in names)


FUNCTIONS = ("init", "ask", "perturb", "release")
TOLD = ("init", "ask", "tell", "release")  # one value for all users
ENTERED = {
    "dp_gibo": (*_of("algorithms.dp_gibo.run", "init", "ask", "release"), "algorithms.dp_gibo.contribution.perturb"),
    "dp_gibo, recent, private clip": ("algorithms.dp_gibo.contribution.refine",),
    "dp_gd": (
        *_of("algorithms.dp_gd", *FUNCTIONS), "noise.private_mean.perturb_vectors", "drivers.scan.run_scan",
        "drivers.scan.scan_prepared",
        *_of("drivers.compiled_run", "begin", "learn", "perturb_total", "pure_run", "run_steps"),
        "drivers.result.expect_host",
    ),
    "dpareto": (
        *_of("algorithms.dpareto.run", *TOLD), "algorithms.dpareto.surrogates.propose"
    ),
    "dp_gp_ucb": _of("algorithms.dp_gp_ucb.run", *TOLD),
    "gp_ucb, box, users, refit": (
        *_of("algorithms.gp_ucb", *TOLD), "surrogate.gp_fit.fit", "surrogate.box_search.multi_start",
        "surrogate.box_search.search_box",
    ),
    "private evaluations": (
        *_of("algorithms.private_evaluations.run", "perturb", "NoisyEvaluation"),
        "noise.private_mean.perturb_losses"
    ),
    "private choices": ("noise.choice.draw",),
    "private_linear": _of("algorithms.private_linear", *FUNCTIONS),
    "po_gp_ucb": _of("algorithms.po_gp_ucb", *TOLD),
    "random_search": _of("algorithms.random_search", *TOLD),
}  # fmt: skip
# Hand their key to drivers that have cases; one key serves several methods on purpose, on public records.
COMPARED = (
    *_of("commands.demo", "run_seed", "run_gibo", "run_evaluations", "run_random_search"),
    *_of("testing.subject", "first_snapshot", "take_step", "take_steps", "perturb", "whole_run"),
    *_of("testing.tape", "Noise"),
    *_of("tables.hashed_ids", "HashedIds", "hashed", "siphash"),  # of a hash, not of noise
)


def _seeking_descent(scale, steps, mu):
    options = {"users": USERS, "batch": 2, "polish_steps": 2, "clip_norm": "private"}
    return dp_gibo.config(steps=steps, mu=mu, bounds=low_high(BOUNDS), **options)


def _seeking_gradients(scale):
    options = {"users": USERS, "steps": 2, "mu": scale, "clip_norm": "private"}
    return dp_gd.config(bounds=low_high(BOUNDS), **options)


KEY_CASES = {
    "dp_gd, private clip": Case(
        _protocol(CASES["dp_gd"]._replace(config=_seeking_gradients)), ("algorithms.dp_gd.refine",)
    ),
    "choices around DP-GIBO, private clip": Case(
        _protocol(CASES["choices around DP-GIBO"]._replace(config=_searched(_seeking_descent))), ()
    ),
    **{name: Case(_protocol(case), ENTERED.get(name, ())) for name, case in CASES.items()},
    "run_scan, in parts": Case(
        _in_parts, ("drivers.checkpoint.begin_checkpoint", "drivers.checkpoint.CheckpointedRun")
    ),
    "run_loop": Case(
        _protocol(CASES["dp_gd"], drivers.run_loop),
        (
            *_of("drivers.loop", "run_loop", "loop_prepared", "refuse_on_table"),
            "drivers.execution.refuse_options",
            "drivers.users.make_users",
            *_of("drivers.compiled_steps", "run_keys", "step_keys", "ask", "release"),
        ),
    ),
    "run_loop, a table": Case(_on_a_table, ("drivers.compiled_run.finish",)),
    "minimize": Case(
        _minimize,
        (
            "drivers.minimization.minimize",
            *_of("drivers.execution", "Execution", "is_set"),
        ),
    ),
    "PrivateSearchCV": Case(_search_cv, ("integrations.sklearn.search.PrivateSearchCV",)),
    "sweep": Case(_sweep, ("drivers.seed_sweep.sweep", "drivers.sharding.share_keys")),
    "curate": Case(_curate, ("transforms.curation.curate", "transforms.curation.project")),
    "PrivateClassifier, PrivateRegressor": Case(
        _models_of_a_table,
        (
            *_of("integrations.sklearn.private_models", "PrivateClassifier", "PrivateRegressor"),
            "tuning.joint_tuning.tune_table",
            "tuning.private_steps.train_by_steps",
            "tuning.private_steps.train",
            "tuning.measured_error.draw_noise",
            "tuning.private_ranges.draw_noise",
        ),
    ),
    "private_selection": Case(
        _selection, _of("tuning.selection", "private_selection", "select", "SelectionExecution", "seed_globals")
    ),
    "tune_and_train": Case(
        _tuned,
        (
            "tuning.joint_tuning.tune_and_train",
            *_of("tuning.fitting", "TuningArguments", "release_score", "measure_unseen"),
        ),
    ),
    "a seed for another library": Case(
        lambda key: other_trainings.seed_words(key, 8), ("tuning.other_trainings.seed_words",)
    ),
    "least_epsilon": Case(_least, ("tuning.least_epsilon_search.least_epsilon", *_of("tuning.selection", "best_run"))),
    "private_front": Case(
        _front, ("tuning.front.private_front", *_of("tuning.fitting", "fit_silently", "release_score_silently"))
    ),
    "private_study": Case(_study, ("integrations.optuna.study.private_study",)),
    "PrivateObjective": Case(_objective, ("drivers.private_objective.PrivateObjective",)),
    "search": Case(_search, ("outsourcing.modeler.search",)),
    "best_setting": Case(
        _wanted, ("algorithms.dpareto.predictions.best_setting", "surrogate.box_search.sample_and_ascend")
    ),
    "pure functions": Case(
        _pure,
        (
            *_of("noise.mechanisms.discrete_noise", "rounded_gaussian", "geometric", "geometric_from_table"),
            *_of("noise.mechanisms.discrete_noise", "discrete_laplace", "discrete_laplace_from_table"),
            *_of("noise.mechanisms.discrete_noise", "discrete_gaussian", "planar_laplace", "outcome"),
            *_of("noise.mechanisms.selection", "noisy_argmax", "exact_exponential"),
            *_of("noise.mechanisms.float_noise", "gaussian", "laplace", "exponential"),
            "noise.choice.choose_row",
            *_of("noise.private_scale", "median", "median_of_counts"),
            "noise.private_mean.noisy_mean_loss",
            "surrogate.gp.sample_posterior",
            "problems._gp_draws.gp_draws",
            "input_noise.draw_noise",
            "training.models.init_params",
            "training.oracles.sparse_vector_errors",
            "training.permutation_sgd.train_by_permutation",
        ),
    ),
    "training": Case(
        _trained,
        _of(
            "training",
            "oracles.training_errors",
            "dp_optim.train",
            "sampling.random_words",
            "sampling.draw_batches",
        ),
    ),
    "objective": Case(_measured, ("training.objectives.Data",)),
    "keys": Case(
        _made,
        (
            *_of("noise.keys", "secret_key", "key_from_bytes", "is_secret_kind", "generator"),
            "guarantee.release_key.for_release",
        ),
        draws=False,
    ),
}
