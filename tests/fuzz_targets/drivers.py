"""Rows of ``jaxdpbo.drivers``."""

import itertools
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import strategies as st
from option_groups import group_options

import jaxdpbo
from fuzz_targets.objectives import loss_of_table, says_nothing, says_text, two_of_table, utility_of_table
from fuzz_targets.odd_values import odd_private
from fuzz_targets.target import OF_PATHS, Target, is_guarantee
from fuzz_targets.valid_values import (
    any_float,
    boxes,
    count,
    either,
    epsilon,
    few,
    floats_of,
    just,
    positive,
    private_rows,
    probability,
    secret,
    small,
    words,
)
from jaxdpbo import Space, dp_gd, drivers, gp_ucb, ledger, notes, separable, space
from jaxdpbo.algorithms import dp_gibo
from jaxdpbo.drivers import methods
from jaxdpbo.drivers.release_notes import path_notes
from jaxdpbo.guarantee import budget_calibration, guarantees

SPACE = Space({"x": space.real(0.1, 10.0, log=True), "k": space.integer(1, 5), "c": space.categorical("a", "b")})


def runners(folder: Path) -> dict[str, Target]:
    number = itertools.count()
    bounds = {"low": [-1.0, -1.0], "high": [1.0, 1.0]}
    config = dp_gibo.config(users=4, steps=2, mu=1.0, bounds=bounds, batch=2, polish_steps=1)
    objectives = either(loss_of_table)
    data = private_rows(rows=3, dimension=4)
    safe = {"key": secret(), "insecure_key": st.booleans()}
    odd_data = {
        "data": odd_private(),
        "objective": either(None, 5, "a", len, says_nothing, says_text, utility_of_table, two_of_table),
    }
    shared = {"objective": objectives, "data": data}
    refused = {
        "raises": (drivers.RunInterrupted, drivers.ObjectiveError, ledger.LedgerError),
        "private": ("data",),
        "nan": False,
    }
    known = (
        "len",
        "algorithm",
        "config",
        "objective",
        "data",
        "users",
        "values",
        "losses",
        "key",
        "ledger",
        "run",
        "state",
    )

    def losses_of(point, data):
        """For Python: as many numbers as there are, of whatever kind."""
        return data

    def scanned(algorithm, config, **options):
        return drivers.run_scan(algorithm, **group_options(config=config, **options)).release

    def looped(algorithm, config, **options):
        return drivers.run_loop(algorithm, losses_of, **group_options(config=config, **options)).release

    def scan_on_record(ledger, run, key, **options):
        place = folder / f"r{next(number)}" if ledger is None else ledger
        if ledger is None:
            jaxdpbo.ledger.ledger_file.create(
                place, notion="gdp", level=1, relation="replace_one", protects=guarantees.USERS, total_variation=1e-9
            )
        return drivers.run_scan(
            dp_gibo.algorithm, **group_options(config=config, ledger=drivers.Recording(place, run), key=key, **options)
        ).release

    axes = {"user_axes": either(-3, 7, "a", True, (0, 0), {}, 1.0)}
    apart = refused | {"raises": (separable.NotSeparable, *refused["raises"])}
    algorithms = {"algorithm": just(dp_gibo.algorithm), "config": just(config)}
    wrong_algorithms = {
        "algorithm": either(None, 5, "dp_gibo", dp_gibo, (1, 2, 3, 4, 5), dp_gd.algorithm, dict),
        "config": either(
            None, 5, "a", {}, gp_ucb.config(steps=2, bounds=bounds), SimpleNamespace(steps=2), dp_gibo.Config
        ),
    }
    stateless = {"resume": st.none(), "executor": st.none(), "progress": just(False)}
    one = st.builds(lambda seed: jax.random.split(jax.random.key(seed), 2), few)
    minimized = {
        "mu": small, "steps": just(2), "batch": just(2), "clip_norm": positive, "noise": just("exact"),
        "bounds": just(bounds),
        "start": st.none(), "users": st.none() | just(4),
    }  # fmt: skip
    return {
        "run_scan": Target(
            scanned, algorithms | shared | safe | {"user_axes": either(None, 1)},
            odd=odd_data | wrong_algorithms | axes,
            words=(*known, "user_axes"), weight=2, **apart,
        ),
        "run_scan on record": Target(
            scan_on_record, shared | {"ledger": st.none(), "run": words, "key": st.none()},
            odd=odd_data | {"ledger": either(5, "\x00", folder / "no" / "such", folder / "template", b"x", folder)},
            words=(*known, *OF_PATHS), **refused | {"raises": (OSError, *refused["raises"])},
            weight=0.3,
        ),
        "run_loop": Target(
            looped, algorithms | {"data": floats_of(4, elements=any_float)} | safe | stateless,
            odd={"data": odd_private(), "resume": either(5, "a", (), (1, 2), object(), SimpleNamespace(public=1)),
                 "executor": either(5, "a", object())} | wrong_algorithms,
            fixed=("progress",), words=known, weight=2, **refused,
        ),
        "minimize": Target(
            lambda objective, bounds, **options: drivers.minimize(
                objective, space=bounds, **group_options(**options)
            ).release,
            shared | minimized | safe | {"user_axes": either(None, 1)},
            tame=("steps", "batch", "users"),
            odd=odd_data | axes, words=(*known, "noise", "user_axes", "loss", "space", "start"), weight=2, **apart,
        ),
        "preview": Target(
            lambda **options: drivers.preview(**group_options(**options)),
            {"users": count, "space": boxes(), "mu": small, "epsilon": st.none(), "delta": st.none(),
             "steps": few, "batch": st.none() | few, "clip_norm": positive,
             "method": either("auto", *methods.METHODS), "loss_range": just((0.0, 2.0)),
             "estimate_share": either(0.0, 0.2), "noise": either("exact", "float")},
            words=("choice", "steps"), check=foretells, weight=2,
        ),
        "preview of an epsilon": Target(
            drivers.preview,
            {"users": count, "space": boxes(3), "mu": st.none(), "epsilon": epsilon, "delta": probability},
            check=foretells,
        ),
        "methods.plan": Target(
            lambda users, mu, space, loss_range, **search: methods.plan(methods.make_problem(
                drivers.Search(**search), users=users, budget=budget_calibration.check_budget(mu, users=1),
                space=space, loss_range=loss_range,
            )),
            {"method": either("auto", *methods.METHODS), "users": count, "mu": small, "space": boxes(3) | just(SPACE),
             "steps": st.integers(3, 9), "batch": st.none() | few, "clip_norm": positive,
             "loss_range": just((0.0, 2.0)), "estimate_share": either(0.0, 0.2), "noise": either("exact", "float")},
            tame=("steps", "batch"), words=("choice", "steps"), check=states, weight=2,
        ),
        "path_notes": Target(
            path_notes, {"path": floats_of(3, 2, elements=st.floats(-1, 1)), "config": just(config)},
            fixed=("path", "config"), check=lambda found, _: found in ((), notes.path_like_noise()), weight=0.3,
        ),
        "sweep": Target(
            lambda **options: drivers.sweep(dp_gibo.algorithm, **group_options(**options)).release,
            shared | {"configs": just(config), "seeds": just(1), "key": one, "policy": st.none() | just("map"),
                "user_axes": either(None, 1)},
            odd=odd_data | axes | {"configs": either(None, [], (), 5, "ab", [config, 5], [None])},
            words=(*known, "user_axes"), **apart,
        ),
        "distribute": Target(
            lambda inputs, policy: drivers.distribute(added_up, inputs, jnp.ones(()), policy=policy),
            {"inputs": floats_of(2), "policy": st.none() | just("map")},
            odd={"inputs": either(None, [], {}, 5.0, [np.zeros(2), np.zeros(3)], np.zeros((0, 2)), "ab", [object()],
                ())},
        ),
        "PrivateObjective of anything": Target(
            lambda losses: evaluated(losses), {"losses": floats_of(4, elements=any_float)},
            odd={"losses": odd_private()},
            private=("losses",), words=("loss",), raises=(drivers.ObjectiveError,),
        ),
    }  # fmt: skip


def states(found, _):
    return is_guarantee(found.algorithm.privacy(found.config), None)


def foretells(found, _):
    """Finite numbers, a guarantee, and a text of one line."""
    numbers = [number or 0.0 for number in (found.deviation, found.relative_noise, found.wander, found.loss_noise)]
    return is_guarantee(found.guarantee, None) and bool(np.all(np.isfinite(numbers))) and str(found).isprintable()


def added_up(each, shared):
    return each + shared


def evaluated(losses):
    objective = drivers.PrivateObjective(
        lambda point, data: data, losses, users=4, mu=1.0, evaluations=1, loss_range=(0.0, 1.0)
    )
    return objective(0)
