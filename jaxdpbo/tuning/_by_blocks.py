"""The route "blocks": blocks of rows try every setting, one private choice, one private training with the rest."""

from collections.abc import Sequence
from copy import deepcopy
from functools import partial
from typing import Any

import jax
import numpy as np

from jaxdpbo import _quiet
from jaxdpbo.algorithms import private_search
from jaxdpbo.drivers import run_loop
from jaxdpbo.privacy import accounting, guarantee, keys, separable
from jaxdpbo.privacy.accounting import stage
from jaxdpbo.tuning import _routes, selection
from jaxdpbo.tuning.training import InBlocks, Rows, Vmapped

NAME = "blocks"
SEARCH_SHARE = 0.15  # of mu^2, for the search


def tuned(asked: _routes.Asked, rows: Rows, k: int | None) -> _routes.Tuned:
    """As ``tune_and_train`` says."""
    training = asked.training
    if isinstance(training, Vmapped):
        fitted = partial(_at_once, training)
    elif isinstance(training, InBlocks):
        fitted = partial(_one_by_one, training)
    else:
        raise TypeError(f"training must have fit_block() or block_losses() for route={NAME!r}, as InBlocks has")
    records = len(rows[1])
    whole = accounting.gdp_mu(asked.epsilon, asked.delta)
    of_search, of_training = np.sqrt(SEARCH_SHARE) * whole, np.sqrt(1 - SEARCH_SHARE) * whole
    count = separable.usual_count(records) if k is None else k
    separable.cut(records, count)  # what it refuses, it refuses before anything is charged
    points = np.arange(len(asked.settings), dtype=float)[:, None]
    design = private_search.Round(points, 0 * points, np.zeros(points.shape, bool))
    config = private_search.config(
        users=count,
        bounds={"low": [-0.5], "high": [len(points) - 0.5]},
        loss_range=(0.0, 1.0),
        rounds=[design],
        choice_mu=[float(of_search)],
        batch=1,
        noise=_routes.NOISE,
    )
    algorithm = private_search.algorithm_of()
    search = algorithm.privacy(config)

    def stages(costs: Sequence[stage.Stage]) -> list[stage.Stage]:
        return [stage.gaussian(search.level, "the search"), _routes.any_of("the training", costs)]

    noises, costs = _routes.calibrated(
        asked,
        records,
        accounting.gdp_epsilon(float(of_training), asked.delta),
        asked.delta,
        lambda of: accounting.total(stages(of), asked.delta).epsilon,
    )
    variation = max(asked.training.total_variation(each, records) for each in asked.settings) + search.total_variation
    stated = guarantee.of_total(
        accounting.total(stages(costs), asked.delta),
        guarantee.ALL_ROWS,
        assumptions=(guarantee.RANDOM_BITS, guarantee.FAILS_BY_NOISE, guarantee.BLOCKS_APART),
        total_variation=variation,
    )
    stated = stated.assuming(*asked.training.assumptions())
    secret, stated = keys.for_release(asked.key, stated, asked.insecure_key)
    of_run, of_blocks, of_last, of_globals = jax.random.split(secret, 4)

    selection.charge(asked.recordings, (stated,), "tune and train by blocks", asked.settings)
    table = fitted(asked, rows, noises, count, of_blocks)
    found = run_loop(algorithm, _looked_up, table, config, key=of_run, insecure_key=True).release
    chosen = round(float(found.point[0]))
    model = _routes.fitted(asked, asked.settings[chosen], noises[chosen], rows, of_last, of_globals)
    return _routes.Tuned(model, asked.settings[chosen], noises[chosen], (stated,), NAME)


def _one_by_one(
    training: InBlocks, asked: _routes.Asked, rows: Rows, noises: Sequence[float], count: int, key: jax.Array
) -> np.ndarray:
    """The loss of each block by each setting ``(settings, k)``: column ``j`` by the rows of block ``j`` alone."""
    records = len(rows[1])

    def learner(number: int, train: Rows, held_out: Rows) -> float:
        own = jax.random.fold_in(key, np.random.randint(2**31))  # noqa: NPY002 (seeded for the block and setting)
        model = training.fit_block(deepcopy(asked.settings[number]), noises[number], train, records, own)
        lost = np.asarray(training.losses(model, held_out), float)
        return float(np.mean(np.clip(np.where(np.isnan(lost), 0.5, lost), 0.0, 1.0)))

    objective = separable.blocks(learner, records, count, on_error=asked.on_error)
    return np.array([objective(number, rows) for number in range(len(asked.settings))])


def _at_once(
    training: Vmapped, asked: _routes.Asked, rows: Rows, noises: Sequence[float], count: int, key: jax.Array
) -> np.ndarray:
    """The same by one program, whose blocks are of one size: unheard, and where it fails every loss is the largest."""
    partition = separable.cut(len(rows[1]), count)
    train, held_out = (tuple(leaf[np.stack(of)] for leaf in rows) for of in zip(*partition, strict=True))
    settings = deepcopy(asked.settings)
    with _quiet.unheard():
        try:
            found = np.asarray(training.block_losses(settings, noises, train, held_out, len(rows[1]), key), float)
        except _quiet.STOPS:
            raise
        except BaseException:
            if asked.on_error == "raise":
                raise
            found = np.ones((len(settings), count))
    if found.shape != (len(asked.settings), count):
        raise ValueError(f"block_losses must have shape {(len(asked.settings), count)}, got {found.shape}")
    return found


def _looked_up(point: Any, table: np.ndarray) -> np.ndarray:
    return table[round(float(point[0]))]
