"""Every algorithm in one table: the protocol suite runs over it, and a new algorithm is one more row."""

import functools
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxdpbo import (
    Space,
    dp_gd,
    dp_gibo,
    dp_gp_ucb,
    dpareto,
    gp_ucb,
    phases,
    po_gp_ucb,
    private_choice,
    private_estimate,
    private_evaluations,
    private_linear,
    random_search,
    space,
    transforms,
)
from jaxdpbo.checks import low_high
from jaxdpbo.surrogate import box_search
from jaxdpbo.testing import protocol_checks, subject
from jaxdpbo.types import Algorithm, Objective

USERS, STEPS, DIMENSION = 6, 3, 2
BOUNDS = np.array([[-2.0, -1.0], [2.0, 3.0]])


def loss(point, data):
    """Per-user losses ``(n,)`` that touch only ``data[i]``."""
    return jnp.sum(jnp.square(jnp.asarray(data) - jnp.asarray(point)[None]), axis=1) * 0.2


def utility(point, data):
    """One number ``()``, to be maximised."""
    return -jnp.mean(loss(point, data))


def gains(point, data):
    """Per-user gains ``(n,)`` that touch only ``data[i]``."""
    return 9.0 - loss(point, data)


def rows_of(point, data):
    """Two features of a norm of 1 at most, and a target: ``(3, n)``; the point does not count."""
    del point
    features = jnp.asarray(data).T / 4
    return jnp.concatenate([features, features[:1]])


def utility_of_row(point, data):
    """The utility at a candidate, asked for by its number."""
    return utility(jnp.asarray(CANDIDATES, data.dtype)[jnp.asarray(point[0], int)], data)


class Case(NamedTuple):
    """``config(scale)``: same static sizes, other numbers.

    ``notion``: of its guarantee. ``draws``: two keys always give two points. ``shape``: of the values at one point.
    ``follows_values``: it does not promise that raw values do not steer it: it pays at the end, or for something else.
    ``box``: where its points lie. ``releases_values``: what was measured is its answer, and it says so.
    """

    algorithm: Algorithm
    config: Callable[[float], Any]
    notion: str
    draws: bool = True
    objective: Objective = loss
    shape: tuple[int, ...] = (USERS,)
    follows_values: bool = False
    box: np.ndarray = BOUNDS
    releases_values: bool = False

    @property
    def private(self) -> bool:
        return self.notion != "none"


def subject_of(case: Case) -> subject.Subject:
    """What ``testing.check_algorithm`` checks of it."""
    return protocol_checks.make_subject(case.algorithm, case.config(1.0), case.objective, records())


@functools.cache
def compiled(algorithm: Algorithm) -> Algorithm:
    """Every function of a step as one program; called as they are they would be one for each operation."""
    called = ("contribute", "perturb", "tell", "survey", "refine")
    made = {name: jax.jit(getattr(algorithm, name)) for name in called if getattr(algorithm, name) is not None}
    return algorithm._replace(**made)


def records(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(USERS, DIMENSION))


def _gibo(**static):
    def config(scale: float):
        return dp_gibo.config(
            users=USERS, steps=STEPS, bounds=low_high(BOUNDS * scale), mu=scale, step_size=0.3 * scale,
            noise_variance=1e-4 * scale, polish_steps=2,
            **({"box_units": False, "batch": 3, "noise": "float", "clip_norm": 0.5 * scale} | static),
        )  # fmt: skip

    return config


def _random(scale: float):
    return random_search.config(users=USERS, steps=STEPS, batch=2, bounds=low_high(BOUNDS * scale))


def _one_user(scale: float):
    return random_search.config(users=1, steps=STEPS, batch=2, bounds=low_high(BOUNDS * scale))


def _ucb(**static):
    box = {} if "candidates" in static else {"bounds": BOUNDS}

    def config(scale: float):
        places = {name: value * scale for name, value in static.items() if name == "candidates"}
        boxes = {name: low_high(value * scale) for name, value in box.items()}
        options = {"steps": STEPS, "noise_variance": 1e-3 * scale, "search": box_search.BoxSearch(8, 1, 1)}
        return gp_ucb.config(**(options | static | places | boxes))

    return config


def _gradient(scale: float):
    return dp_gd.config(
        users=USERS,
        steps=STEPS,
        bounds=low_high(BOUNDS * scale),
        mu=scale,
        step_size=0.3 * scale,
        clip_norm=0.5 * scale,
    )


def _linear(scale: float):
    return private_linear.config(users=USERS, features=DIMENSION, mu=scale, clip_norms=(0.5 * scale,) * (STEPS - 1))


def _dp_ucb(**static):
    def config(scale: float):
        make, place = dp_gp_ucb.finite_config, {"candidates": CANDIDATES * scale}
        if "bounds" in static:
            make, place = dp_gp_ucb.box_config, {"bounds": low_high(BOUNDS * scale), "grid": CANDIDATES * scale}
            place |= {"slope": (1.0, scale), "search": box_search.BoxSearch(8, 1, 1)}
        options = {"steps": STEPS, "delta": 0.01 * scale, "correlation": 0.9, "release": "both", "scale": scale}
        return make(epsilon=1e3 * scale, **(options | static | place))

    return config


def _gains(scale: float):
    return dp_gp_ucb.in_order_config(
        candidates=CANDIDATES[:STEPS] * scale, users=USERS, epsilon=scale, largest_gain=9.0, release="both"
    )


def _private(inner, algorithm, noise="exact"):
    def config(scale: float):
        return private_evaluations.config(
            algorithm, inner(scale), users=USERS, mu=scale, loss_range=(0.0, 3.0 * scale), noise=noise
        )

    return config


def _private_range(scale: float):
    inner = random_search.config(users=1, steps=STEPS - 1, batch=2, bounds=low_high(BOUNDS * scale))
    return private_evaluations.config(
        random_search.algorithm, inner, users=USERS, mu=scale, loss_range="private", design=CANDIDATES[:2] * scale
    )


def _part(scale: float, count: int) -> float:
    """Of a budget of ``scale`` that has so many."""
    return 0.9999 * scale / count**0.5


def _searched(inner=None):
    """Four points, two near the chosen one; with DP-GIBO two, a step and its answers."""

    def config(scale: float):
        fresh, kept = CANDIDATES[:2] * scale, np.array([[True, False], [False, True]])
        each = _part(scale, STEPS if inner is None else 3)
        around = {
            "users": USERS, "bounds": low_high(BOUNDS * scale), "loss_range": (0.0, 3.0 * scale), "batch": 2, "mu": each
        }  # fmt: skip
        first = private_choice.design_config(points=fresh, **around)
        if inner is None:
            near = private_choice.near_config(points=np.where(kept, 0.1 * fresh, fresh), kept=kept, **around)
            return phases.config(first, *[near] * (STEPS - 1))
        return phases.config(first, inner(scale, STEPS - 2, each), private_choice.answers_config(**around))

    return config


def _descent(scale: float, steps: int, mu: float):
    return dp_gibo.config(users=USERS, steps=steps, bounds=low_high(BOUNDS * scale), mu=mu, batch=2, polish_steps=2)


MIXED = Space({"x": space.real(0, 1), "n": space.integer(1, 3)})


def _holding(scale: float):
    """A choice among two points, then a descent along the real coordinate of the chosen one."""
    half = _part(scale, 2)
    first = private_choice.design_config(
        users=USERS, bounds=MIXED, loss_range=(0.0, 3.0 * scale), batch=2, mu=half, points=np.full((2, 2), 0.4 * scale)
    )
    options = {"users": USERS, "steps": STEPS - 1, "mu": half, "batch": 2, "polish_steps": 2, "clip_norm": scale}
    return phases.config(first, dp_gibo.holding_config(bounds=MIXED, **options))


def loss_of_mixed(params, records):
    """Of parameters, and of a point where a test calls it itself."""
    if isinstance(params, dict):
        params = jnp.stack([jnp.asarray(params[name], float) for name in ("x", "n")])
    return loss(params, records)


def _estimated(scale: float):
    half = _part(scale, 2)
    inner = _descent(scale, STEPS - 1, half)
    return phases.config(
        inner,
        private_estimate.config(users=USERS, mu=half, bounds=low_high(BOUNDS * scale), loss_range=(0.0, 3.0 * scale)),
    )


def _outsourced(scale: float):
    transform = transforms.product_laplace(centre=np.zeros(DIMENSION), scale=1.0, epsilon=scale, radius=3.0)
    curated = transforms.curate(
        jax.random.key(3), transform, CANDIDATES, insecure_key=True
    )  # the same rows at every call
    curated = curated._replace(guarantee=transform.guarantee)  # as if the operating system had drawn the key
    return po_gp_ucb.config(curated, steps=STEPS, lengthscale=1.0, noise_variance=1e-3 * scale)


def _front(scale: float):
    return dpareto.config(
        bounds=low_high(BOUNDS * scale), initial_design=CANDIDATES[:2] * scale, proposals=STEPS - 2,
        reference=(10.0 * scale, 0.9), search=box_search.BoxSearch(8, 1, 1), fit_steps=1,
    )  # fmt: skip


def trade_off(point, data):
    """An epsilon and an error."""
    loss = utility(point, data)
    return jnp.stack([jnp.exp(loss), jax.nn.sigmoid(-loss)])


CANDIDATES = BOUNDS[0] + (BOUNDS[1] - BOUNDS[0]) * np.random.default_rng(5).uniform(size=(9, DIMENSION))
SCALAR = {"objective": utility, "shape": ()}
LATE = SCALAR | {"follows_values": True}
AVERAGED = "prior_averaged_dp"
ROWS = np.array([[0.0], [8.0]])
CASES = {
    "dp_gibo": Case(dp_gibo.algorithm, _gibo(noise="exact"), "gdp"),
    "dp_gibo, few points": Case(dp_gibo.algorithm, _gibo(batch=1, output="last_half_mean"), "gdp"),
    "dp_gibo, adaptive": Case(dp_gibo.algorithm, _gibo(tolerance=0.05), "gdp"),
    "dp_gibo, nearest": Case(dp_gibo.algorithm, _gibo(memory="nearest", remembered=2), "gdp"),
    "dp_gibo, none": Case(dp_gibo.algorithm, _gibo(memory="none"), "gdp"),
    "dp_gibo, recent, private clip": Case(
        dp_gibo.algorithm, _gibo(memory="recent", remembered=3, noise="exact", clip_norm="private"), "gdp"
    ),
    "dpareto": Case(
        dpareto.algorithm, _front, "none", False, **LATE | {"objective": trade_off, "shape": (2,)}, releases_values=True
    ),
    "dp_gd": Case(
        dp_gd.algorithm, _gradient, "gdp", objective=dp_gd.gradient_objective(loss), shape=(DIMENSION, USERS)
    ),
    "gp_ucb, box": Case(gp_ucb.algorithm, _ucb(), "none", False, **SCALAR),
    "gp_ucb, box, users, refit": Case(gp_ucb.algorithm, _ucb(users=USERS, refit_every=2, fit_steps=1), "none", False),
    "gp_ucb, candidates": Case(gp_ucb.algorithm, _ucb(candidates=CANDIDATES), "none", False, **SCALAR),
    "gp_ucb, box, batch": Case(gp_ucb.algorithm, _ucb(batch=2), "none", False, **SCALAR),
    "dp_gp_ucb": Case(dp_gp_ucb.algorithm, _dp_ucb(noise_variance=0.1), AVERAGED, False, **LATE),
    "dp_gp_ucb, exact utilities": Case(dp_gp_ucb.algorithm, _dp_ucb(noise="float"), AVERAGED, False, **LATE),
    "dp_gp_ucb, box": Case(
        dp_gp_ucb.algorithm, _dp_ucb(noise_variance=0.1, bounds=BOUNDS, noise="float"), AVERAGED, False, **LATE
    ),
    "dp_gp_ucb, in order": Case(dp_gp_ucb.algorithm, _gains, "dp", False, objective=gains, follows_values=True),
    "private evaluations": Case(
        private_evaluations.make_algorithm(gp_ucb.algorithm),
        _private(_ucb(candidates=CANDIDATES), gp_ucb.algorithm),
        "gdp",
        False,
    ),
    "private evaluations, batch": Case(
        private_evaluations.make_algorithm(gp_ucb.algorithm),
        _private(_ucb(candidates=CANDIDATES, batch=2), gp_ucb.algorithm),
        "gdp",
        False,
    ),
    "private evaluations, random search": Case(
        private_evaluations.make_algorithm(random_search.algorithm),
        _private(_one_user, random_search.algorithm, "float"),
        "gdp",
    ),
    "private evaluations, private range": Case(
        private_evaluations.make_algorithm(random_search.algorithm), _private_range, "gdp"
    ),
    "private choices": Case(
        phases.make_algorithm(private_choice.design, *[private_choice.near] * (STEPS - 1)), _searched(), "gdp", False
    ),
    "choices around DP-GIBO": Case(
        phases.make_algorithm(private_choice.design, dp_gibo.from_point, private_choice.at_answers),
        _searched(_descent),
        "gdp",
        False,
    ),
    "DP-GIBO that holds coordinates": Case(
        phases.make_algorithm(private_choice.design, dp_gibo.holding),
        _holding,
        "gdp",
        False,
        loss_of_mixed,
        box=np.array([[0.0, 0.0], [1.0, 1.0]]),
    ),
    "DP-GIBO, then an estimate": Case(
        phases.make_algorithm(phases.Phase(dp_gibo.algorithm), private_estimate.at_answer), _estimated, "gdp"
    ),
    "private_linear": Case(
        private_linear.algorithm, _linear, "gdp", False, rows_of, (DIMENSION + 1, USERS), box=np.zeros((2, 1))
    ),
    "po_gp_ucb": Case(
        po_gp_ucb.algorithm, _outsourced, "dp", False, **LATE | {"objective": utility_of_row, "box": ROWS}
    ),
    "random_search": Case(random_search.algorithm, _random, "none"),
}


@functools.cache
def _families() -> dict[str, type]:
    """When asked: a config holds arrays, and before ``jax.distributed`` begins (tests/mesh_cases.py) there are none."""
    return {name: type(case.config(1.0)) for name, case in CASES.items()}


def by_turns(*turns: int, names: Iterable[str] = CASES) -> list[str]:
    """One case of each family in each turn: the daily run's, where every case has a turn in some test."""
    families: dict[type, list[str]] = {}
    for name in names:
        families.setdefault(_families()[name], []).append(name)
    return list(dict.fromkeys(family[turn % len(family)] for turn in turns for family in families.values()))
