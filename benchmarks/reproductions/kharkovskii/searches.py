"""Problems, as the paper normalises them, and searches over them: what every item of the paper is made of."""

import math
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.papers import curator_tables
from jaxdpbo import drivers, kernels, po_gp_ucb, transforms
from jaxdpbo.guarantee import guarantees
from jaxdpbo.problems import _gp_draws
from jaxdpbo.surrogate import gp, gp_fit

FIRST = {"draw": 0, "run": 1, "rows": 2}  # the keys that the seeds are folded into
RUNS = 64  # curated at once: every run has released rows of its own
UNPAID = (
    "the scale (a largest norm of 25) and the hyper-parameters are fitted to the private data, as in the paper: no "
    "guarantee here covers them"
)
PUBLIC = "the grid, its scale and the hyper-parameters are public"


class Problem(NamedTuple):
    """What the curator holds, in the units the paper's guarantee is in.

    Attributes:
      inputs: ``(n, d)``, of largest norm 25.
      lengthscale: in those units.
      truth: ``(runs, n)``, what regret is measured on, in standard deviations of the process.
      seen: ``(runs, n)``, what the modeler receives.
      noise_variance: of what it receives.
      source: of the records.
      flag: what of this a guarantee does not cover.
    """

    inputs: np.ndarray
    lengthscale: float
    truth: jax.Array
    seen: jax.Array
    noise_variance: float
    source: str
    flag: str

    @property
    def smallest_singular_value(self) -> float:
        """The smallest singular value of the centred inputs."""
        return float(np.linalg.svd(self.inputs - self.inputs.mean(axis=0), compute_uv=False)[-1])


def seed_settings(seeds: range) -> dict[str, int]:
    """The settings of these seeds: ranges of another start have no draw in common."""
    return {"first": seeds.start, "runs": len(seeds)}


def key_of(s: SimpleNamespace, what: str) -> jax.Array:
    return jax.random.fold_in(jax.random.key(FIRST[what]), s.first)


def problem_of(s: SimpleNamespace) -> Problem:
    """The data that the settings name."""
    if s.data == "synthetic":
        return synthetic_problem(s)
    tables = {"loans": curator_tables.loans, "properties": curator_tables.properties}
    return fit_table(s, curator_tables.branin_hoo(s.points) if s.data == "branin" else tables[s.data]())


def synthetic_problem(s: SimpleNamespace) -> Problem:
    """A draw of the process on a grid for each run, seen through noise."""
    inputs = _gp_draws.gp_grid(s.side, s.points)
    factor = s.largest_norm / np.linalg.norm(inputs, axis=1).max()
    draw_key, noise_key = jax.random.split(key_of(s, "draw"))
    truth = _gp_draws.gp_draws(draw_key, s.runs, side=s.side, points=s.points, lengthscale=s.lengthscale)
    noise = math.sqrt(s.noise_variance) * jax.random.normal(noise_key, truth.shape)
    source = (
        f"draws of a Gaussian process on a {s.points} x {s.points} grid, side {s.side:g}, lengthscale {s.lengthscale}"
    )
    return Problem(factor * inputs, factor * s.lengthscale, truth, truth + noise, s.noise_variance, source, PUBLIC)


def fit_table(s: SimpleNamespace, table: curator_tables.Table) -> Problem:
    """One table for all runs; the lengthscales make it isotropic, by marginal likelihood on random rows of it."""
    count, dimension = table.inputs.shape
    rows = np.random.default_rng(0).choice(count, min(s.fitted, count), replace=False)
    standard = (table.inputs - table.inputs.mean(axis=0)) / table.inputs.std(axis=0)
    middle, spread = table.outputs[rows].mean(), table.outputs[rows].std()
    values = (table.outputs - middle) / spread
    start = gp.GPModel(kernels.rbf, kernels.stationary_params(1.0, dimension), jnp.asarray(0.1))
    model = _fit(jax.random.key(0), start, jnp.asarray(standard[rows]), jnp.asarray(values[rows]))
    isotropic = standard / np.asarray(model.params.lengthscale)
    factor = s.largest_norm / np.linalg.norm(isotropic, axis=1).max()
    outputs = jnp.broadcast_to(jnp.asarray(values) / jnp.sqrt(model.params.variance), (s.runs, count))
    noise = float(model.noise_variance / model.params.variance)
    return Problem(factor * isotropic, factor, outputs, outputs, noise, f"{table.source}; n={count}", UNPAID)


@jax.jit
def _fit(key, model, points, values):
    return gp_fit.fit(key, model, points, values, jnp.ones(len(points), bool), num_restarts=4, steps=100)


def paper(problem: Problem, projected: int, epsilon: float, delta: float) -> transforms.Config:
    """The published transform."""
    dimension = problem.inputs.shape[1]
    return transforms.random_projection(dimension=dimension, projected=projected, epsilon=epsilon, delta=delta)


def regrets(
    s: SimpleNamespace, problem: Problem, chosen: transforms.Config | None, *, aware: bool = True
) -> np.ndarray:
    """Simple regret ``(runs, T)``: of the best row asked for so far, in standard deviations; None curates nothing.

    Run ``i`` meets the same function, the same first row and the same curator's key whatever the transform.
    """
    keys = jax.random.split(key_of(s, "run"), (s.runs, 2))
    return np.concatenate([_block_regrets(s, problem, chosen, aware, keys, start) for start in range(0, s.runs, RUNS)])


def _block_regrets(s, problem, chosen, aware, keys, start):
    """The runs from ``start`` on, ``RUNS`` of them."""
    block = slice(start, start + RUNS)
    configs = [
        po_gp_ucb.config(
            untransformed_rows(problem.inputs) if chosen is None else transforms.curate(key, chosen, problem.inputs),
            steps=s.steps,
            lengthscale=problem.lengthscale,
            noise_variance=max(problem.noise_variance, gp.jitter(problem.truth.dtype)),
            noise_aware=aware,
            delta=s.ucb_delta,
        )
        for key in keys[block, 0]
    ]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *configs)
    return np.asarray(
        drivers.distribute(simple_regret, (keys[block, 1], stacked, problem.truth[block], problem.seen[block]))
    )


def simple_regret(inputs: Any, shared: None) -> jax.Array:
    """The simple regret ``(T,)`` of one run."""
    key, config, truth, seen = inputs
    _, end, _ = drivers.pure_run(po_gp_ucb.algorithm, curator_tables.output, seen, config, key)
    return jnp.max(truth) - jax.lax.cummax(truth[end.state.raw.rows])


def random_regrets(s: SimpleNamespace, problem: Problem) -> np.ndarray:
    """The same of rows drawn at random."""
    rows = jax.random.randint(key_of(s, "rows"), (s.runs, s.steps), 0, len(problem.inputs))
    best = jax.lax.cummax(jnp.take_along_axis(problem.truth, rows, axis=1), axis=1)
    return np.asarray(jnp.max(problem.truth, axis=1, keepdims=True) - best)


def untransformed_rows(inputs: np.ndarray) -> transforms.CuratedRows:
    """No transform at all."""
    nothing = guarantees.no_guarantee(transforms.ROWS, "the rows are sent as they are")
    return transforms.CuratedRows(jnp.asarray(inputs), transforms.Metadata("identity", None, None, 1.0), nothing)


def mean_and_error(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Over runs, the leading axis."""
    return values.mean(axis=0), values.std(axis=0, ddof=1) / math.sqrt(len(values))


def format_mean(mean: float, error: float) -> str:
    return f"{mean:.4f} ({error:.4f})"


def flags(problems: Sequence[Problem]) -> list[str]:
    """Printed, and kept with the result."""
    notes = list(dict.fromkeys(problem.flag for problem in problems))
    print("\n".join(f"note: {flag}" for flag in notes))
    return notes
