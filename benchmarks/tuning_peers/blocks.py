"""The route "blocks": blocks of rows try every setting, one private choice, one private training with the rest."""

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import jax
import numpy as np

from benchmarks.tuning_peers.trainings import InBlocks
from jaxdpbo import accounting, phases, private_choice, separable, silence
from jaxdpbo.accounting import stage
from jaxdpbo.drivers import run_loop
from jaxdpbo.guarantee import assumptions, composed_guarantee, guarantees, release_key
from jaxdpbo.tuning import fitting, selection
from jaxdpbo.tuning.training import Rows

SEARCH_SHARE = 0.15  # of mu^2, for the search


def tune(asked: fitting.TuningArguments, rows: Rows, k: int | None = None) -> fitting.TuningResult:
    """Of ``k`` blocks; where not given a 30th of the rows, at most 100."""
    training = asked.training
    if not isinstance(training, InBlocks):
        raise TypeError("training must have block_losses() for route='blocks', as InBlocks has")
    records = len(rows[1])
    whole = accounting.gdp_mu(asked.epsilon, asked.delta)
    of_search, of_training = np.sqrt(SEARCH_SHARE) * whole, np.sqrt(1 - SEARCH_SHARE) * whole
    count = separable.usual_count(records) if k is None else k
    separable.cut(records, count)  # what it refuses, it refuses before anything is charged
    points = np.arange(len(asked.settings), dtype=float)[:, None]
    config = phases.config(
        private_choice.design_config(
            users=count,
            bounds={"low": [-0.5], "high": [len(points) - 0.5]},
            loss_range=(0.0, 1.0),
            points=points,
            mu=float(of_search),
            batch=1,
            noise=fitting.NOISE,
        )
    )
    algorithm = phases.make_algorithm(private_choice.design)
    search = algorithm.privacy(config)

    def stages(costs: Sequence[stage.Stage]) -> list[stage.Stage]:
        return [stage.gaussian_stage(search.level, "the search"), fitting.worst_stage("the training", costs)]

    noises, costs = fitting.calibrate(
        asked,
        records,
        accounting.gdp_epsilon(float(of_training), asked.delta),
        asked.delta,
        lambda training_costs: accounting.total(stages(training_costs), asked.delta).epsilon,
    )
    variation = (
        max(asked.training.total_variation(setting, records) for setting in asked.settings) + search.total_variation
    )
    stated = composed_guarantee.guarantee_from_total(
        accounting.total(stages(costs), asked.delta),
        guarantees.ALL_ROWS,
        assumptions=(assumptions.RANDOM_BITS, assumptions.FAILS_BY_NOISE, assumptions.BLOCKS_APART),
        total_variation=variation,
    )
    stated = stated.assuming(*asked.training.assumptions())
    secret, stated = release_key.for_release(asked.key, stated, asked.insecure_key)
    of_run, of_blocks, of_last, of_globals = jax.random.split(secret, 4)

    selection.charge_selection(asked.ledgers, (stated,), "tune and train by blocks", asked.settings)
    table = _block_losses(training, asked, rows, noises, count, of_blocks)
    release = run_loop(algorithm, _look_up, table, config, key=of_run, insecure_key=True).release
    chosen = round(float(release.point[0]))
    model = fitting.fit_silently(asked, asked.settings[chosen], noises[chosen], rows, of_last, of_globals)
    return fitting.TuningResult(model, asked.settings[chosen], noises[chosen], (stated,))


def _block_losses(
    training: InBlocks, asked: fitting.TuningArguments, rows: Rows, noises: Sequence[float], count: int, key: jax.Array
) -> np.ndarray:
    """The loss of each block by each setting ``(settings, k)``: column ``j`` by the rows of block ``j`` alone.

    One program trains all blocks, which have one size. Its output is silenced; if it fails, every loss is the largest.
    """
    partition = separable.cut(len(rows[1]), count)
    train, held_out = (tuple(leaf[np.stack(indices)] for leaf in rows) for indices in zip(*partition, strict=True))
    settings = deepcopy(asked.settings)
    with silence.isolate():
        try:
            losses = np.asarray(training.block_losses(settings, noises, train, held_out, len(rows[1]), key), float)
        except silence.STOPS:
            raise
        except BaseException:
            if asked.on_error == "raise":
                raise
            losses = np.ones((len(settings), count))
    if losses.shape != (len(asked.settings), count):
        raise ValueError(f"block_losses must have shape {(len(asked.settings), count)}, got {losses.shape}")
    return losses


def _look_up(point: Any, table: np.ndarray) -> np.ndarray:
    return table[round(float(point[0]))]
