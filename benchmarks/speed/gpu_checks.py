"""What ``scripts/bench gpu`` computes on a device and compares, with a CPU or with what must hold on every machine.

Integers and draws must have the same bits everywhere. Users' floats are rounded once to integers, so a user on the edge
between two integers may move by one: such sums, and the releases, are compared within a tolerance. What bounds a
user's move is checked exactly, on the device: no rounded user is longer than the radius.
"""

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from benchmarks.speed import gpu_problem as problem
from benchmarks.speed import ours_pareto
from benchmarks.speed.ours_gibo import loss
from jaxdpbo import dp_gibo, dp_gp_ucb, dpareto, drivers, kernels, mechanisms, po_gp_ucb, separable, transforms
from jaxdpbo.drivers import sharding
from jaxdpbo.noise import choice, clipping, wide_integers
from jaxdpbo.noise import mechanisms as _mechanisms
from jaxdpbo.noise.keys import chacha20_test
from jaxdpbo.training import integer_sums, models

REFUSED = -1
RATE = Fraction(1, 2**12)
BOX = np.array([[-2.0, -1.0], [2.0, 3.0]])
CANDIDATES = BOX[0] + (BOX[1] - BOX[0]) * np.random.default_rng(5).uniform(size=(50, 2))


class Check(NamedTuple):
    """``compute(size)`` on the device, compared.

    Attributes:
      name: for a reader.
      compute: returns a pytree of arrays.
      sizes: full and quick.
      tolerance: by the size, of the largest difference between floats; None compares every bit.
      double: in float64.
      expected: by the platform, what must come out; None compares with a CPU.
    """

    name: str
    compute: Callable[[int], Any]
    sizes: tuple[int, int] = problem.USERS
    tolerance: Callable[[int], float] | None = None
    double: bool = False
    expected: Callable[[str], Any] | None = None


def key(number: int) -> jax.Array:
    return jax.random.key(number)


# Draws and sums of integers


def draws(draw: Callable[[jax.Array, int], jax.Array], generator: str | None, size: int) -> jax.Array:
    return jax.jit(draw, static_argnums=1)(jax.random.key(11, impl=generator), size)


def picks(size: int) -> list[jax.Array]:
    """Rows that the exact choices pick, among scores with ties and at both ends of the integers."""
    scores = jnp.asarray(np.random.default_rng(0).integers(-(2**20), 2**20, 300), jnp.int32)
    scores = scores.at[:4].set(jnp.asarray([2**31 - 1, -(2**31), 0, 0], jnp.int32))
    several = jax.random.split(key(12), size)
    return [
        jax.jit(jax.vmap(pick))(several)
        for pick in (
            lambda key: mechanisms.noisy_argmax(key, scores, RATE),
            lambda key: _mechanisms.exact_exponential(key, scores % 64, Fraction(1, 4)),
        )
    ]


def sums(size: int) -> list[Any]:
    """64-bit sums of integers as long as are allowed."""
    rng, found = np.random.default_rng(1), []
    for bits in (16, 30):
        whole = rng.integers(-(2**bits), 2**bits, (4, size), endpoint=True).astype(np.int32)
        whole[0] = 2**bits  # carries into the second word
        found.append(jax.jit(wide_integers.total, static_argnums=1)(jnp.asarray(whole), bits))
    return found


def masked(size: int) -> jax.Array:
    """How many words of a sum of masked parts are not those of the plain sum: the masks cancel modulo 2^64."""
    rng = np.random.default_rng(2)
    parts = rng.integers(-(2**60), 2**60, (7, size))
    masks = rng.integers(-(2**63), 2**63, (7, size))
    masks[-1] = 0 - np.sum(masks[:-1], axis=0)

    @jax.jit
    def differences(parts: Any, masks: Any) -> jax.Array:
        plain, hidden = ([jax.tree.map(lambda word, i=i: word[i], words) for i in range(7)]
                         for words in (parts, wide_integers.add(parts, masks)))  # fmt: skip
        totals = []
        for of in (plain, hidden):
            total = of[0]
            for one in of[1:]:
                total = wide_integers.add(total, one)
            totals.append(total)
        return jnp.sum((totals[0].low != totals[1].low) | (totals[0].high != totals[1].high))

    return differences(wide_integers.from_int64(parts), wide_integers.from_int64(masks))


# Users as integers


def odd_columns(size: int, dimension: int, clip_norm: float) -> np.ndarray:
    """Users that mean harm: on the sphere, just beyond, huge, subnormal, not finite, zero."""
    rng, info = np.random.default_rng(3), np.finfo(np.float32)
    direction = rng.normal(size=(dimension, size))
    direction /= np.linalg.norm(direction, axis=0)
    lengths = clip_norm * rng.choice([0.5, 1.0, 1.0 + 2.0**-20, 1.5, 1e3, 1e15, 1e30], size)
    columns = direction * lengths
    odd = rng.choice([np.nan, np.inf, -np.inf, info.max, info.smallest_subnormal, info.tiny, 0.0, -0.0], size)
    columns[0] = np.where(rng.uniform(size=size) < 0.3, odd, columns[0])
    return columns.astype(np.float32)


def quantised(vectors: np.ndarray, clip_norm: float, radius: int) -> np.ndarray:
    """Users' integers, by what all sums of gradients are made with."""

    @jax.jit
    def counted(vectors: jax.Array, clip_norm: jax.Array, radius: jax.Array) -> jax.Array:
        clipped = clipping.clip_by_l2_norm(vectors, clip_norm)[0]
        return clipping.quantise(clipped, clip_norm, radius)

    return np.asarray(counted(jnp.asarray(vectors), jnp.float32(clip_norm), jnp.int32(radius)))


def edges(size: int) -> list[jax.Array]:
    """Columns with integers that no rounding of floats decides: halves, and users who count as zero."""
    radius, info = 2**15 + 1, np.finfo(np.float32)
    values = np.float32([1.0, -1.0, 0.0, -0.0, info.smallest_subnormal, info.tiny, np.nan, np.inf, -np.inf, info.max])
    columns = np.zeros((4, size), np.float32)
    columns[np.arange(size) % 4, np.arange(size)] = values[np.arange(size) // 4 % len(values)]
    return [jnp.asarray(quantised(columns * np.float32(clip), clip, radius)) for clip in (1.0, 0.25)]


def beyond_radius(size: int) -> jax.Array:
    """How many users' integers are longer than the radius, or not zero though a number of theirs is not finite."""
    wrong = 0
    for dimension, radii in ((1, (32, 65_535)), (4, (56, 32_769)), (40, (203, 10_362))):
        for radius in radii:
            for clip_norm in (0.3, 4.0):
                vectors = odd_columns(size // 40, dimension, clip_norm)
                whole = quantised(vectors, clip_norm, radius).astype(np.int64)
                wrong += np.sum(np.sum(whole**2, axis=0) > radius**2)
                wrong += np.sum(np.any(whole != 0, axis=0) & ~np.all(np.isfinite(vectors), axis=0))
    return jnp.asarray(wrong)


def losses(size: int) -> tuple[jax.Array, jax.Array]:
    rng = np.random.default_rng(4)
    weights = rng.normal(size=(problem.POINTS, 3)).astype(np.float32)
    return jnp.asarray(weights), jnp.asarray(rng.normal(size=(problem.POINTS, size)).astype(np.float32))


def wide_to_float(wide: Any) -> np.ndarray:
    """Below 2^53, so exact."""
    return wide_integers.to_int64(wide).astype(float)


def clipped_sum(size: int) -> np.ndarray:
    def total(weights: jax.Array, losses: jax.Array) -> Any:
        return clipping.weighted_clipped_sum(weights, losses, jnp.float32(1.0), jnp.int32(problem.RADIUS))[0]

    return wide_to_float(jax.jit(total)(*losses(size)))


def spread_sum(size: int) -> np.ndarray:
    """With users on all devices of the kind that computes, minus the sum on one."""
    weights, several = losses(size - size % len(jax.devices()))
    mesh = jax.make_mesh((len(jax.devices()),), ("devices",))

    def total(weights: jax.Array, losses: jax.Array) -> Any:
        def own(weights: jax.Array, losses: jax.Array) -> Any:
            radius = jnp.int32(problem.RADIUS)
            return clipping.weighted_clipped_sum(weights, losses, jnp.float32(1.0), radius)[0], ()

        return sharding.sum_over_users(own, weights, losses)[0]

    place = NamedSharding(mesh, PartitionSpec(None, "devices"))
    spread = sharding.place_users(jax.device_put(np.asarray(several), place))
    with sharding.use_mesh(sharding.find_mesh(spread)):
        found = wide_to_float(jax.jit(total)(np.asarray(weights), spread))
    return found - wide_to_float(jax.jit(total)(weights, several))


def chosen_row(size: int) -> list[jax.Array]:
    noise = choice.choice_noise(1.0, "exact", dtype=jnp.float32)
    given = jax.random.uniform(key(13), (64, size), jnp.float32).at[0, :3].set(jnp.asarray([jnp.nan, jnp.inf, 5.0]))
    choose = jax.jit(choice.choose_row)
    return [choose(key(number), noise, given, jnp.float32(1.0)) for number in range(5)]


# The sums of DP-SGD


def training_sum(size: int) -> Any:
    """The whole sum, and the sums of two parts of the examples, as vectors."""
    rng, model = np.random.default_rng(6), models.mlp(20, (30,), 3)
    features = rng.normal(size=(size, 20)).astype(np.float32)
    features[::97] *= 1e30
    features[5::101, 3] = np.nan
    given = models.examples(jnp.asarray(features), jnp.asarray(rng.integers(0, 3, size)))
    params, radius = models.init_params(key(14), model, jnp.float32), jnp.int32(2_000)

    @jax.jit
    def total(params: Any, given: Any, mask: jax.Array) -> jax.Array:
        prepared = integer_sums.integer_examples(given, model, radius)
        found = integer_sums.exact_gradient_sum(model, params, prepared, mask, jnp.float32(0.5), radius)
        return jnp.concatenate([leaf.reshape(-1) for leaf in jax.tree.leaves(found)])

    some = jnp.asarray(rng.uniform(size=size) < 0.3)
    return total(params, given, jnp.ones(size, bool)), total(params, given, some), total(params, given, ~some)


def outer_products(size: int) -> jax.Array:
    """How many sums of whole outer products are not NumPy's: products in TF32 keep 11 of the 12 bits here."""
    rng = np.random.default_rng(10)
    counts, whole = rng.integers(-7, 7, (size, 20)), rng.integers(-(2**12), 2**12, (size, 3))
    given = [jnp.asarray(numbers, jnp.float32) for numbers in (whole, counts)]

    @jax.jit
    def total(whole: jax.Array, counts: jax.Array) -> Any:
        layer = integer_sums._Layer(whole, whole, counts, jnp.ones(size, jnp.float32))
        return integer_sums._sum_groups(jnp.float32(jnp.inf), jnp.ones(size, bool), [layer])

    (found,) = total(*given)
    return jnp.asarray(np.sum(np.asarray(found.weights) != counts.T @ whole))


def parts_of_training(size: int) -> jax.Array:
    """By how much the sums over two parts miss the whole."""
    whole, some, others = training_sum(size)
    return jnp.max(jnp.abs(some + others - whole))


# Releases


def utility_of_row(point: jax.Array, data: jax.Array) -> jax.Array:
    candidates, records = data
    return -jnp.mean(loss(candidates[jnp.asarray(point[0], int)], records))


def utility(point: jax.Array, data: jax.Array) -> jax.Array:
    return -jnp.mean(loss(point, data))


def records(users: int) -> np.ndarray:
    return np.random.default_rng(7).normal(size=(users, 2)) * 0.5


def release_of(algorithm: Any, objective: Any, data: Any, config: Any) -> Any:
    execution = {"key": key(15), "insecure_key": True}
    return drivers.run_scan(algorithm, objective, data, config, **execution).release


def gibo(users: int) -> Any:
    config = dp_gibo.config(users=users, steps=8, mu=1.0, step_size=0.3, bounds={"low": BOX[0], "high": BOX[1]})
    release = release_of(dp_gibo.algorithm, loss, jnp.asarray(records(users)), config)
    return [release.point, release.trace]


def gp_ucb(users: int) -> Any:
    config = dp_gp_ucb.finite_config(
        steps=10, epsilon=1e3, delta=1e-2, correlation=0.9, candidates=CANDIDATES, noise_variance=0.1, release="both",
        kernel_params=kernels.stationary_params(1.0, 2),
    )  # fmt: skip
    return release_of(dp_gp_ucb.algorithm, utility, jnp.asarray(records(users)), config)


def outsourced(users: int) -> Any:
    transform = transforms.product_laplace(centre=np.zeros(2), scale=1.0, epsilon=1.0, radius=3.0)
    curated = transforms.curate(key(16), transform, CANDIDATES, insecure_key=True)
    config = po_gp_ucb.config(curated, steps=10, lengthscale=1.0, noise_variance=1e-3)
    data = jnp.asarray(CANDIDATES), jnp.asarray(records(users))
    return [curated.z, release_of(po_gp_ucb.algorithm, utility_of_row, data, config)]


def front(proposals: int) -> Any:
    config = dpareto.config(
        bounds=np.stack([np.zeros(3), np.ones(3)]),
        initial_design=np.random.default_rng(8).uniform(size=(8, 3)),
        proposals=proposals,
        reference=(10.0, 0.999),
    )
    release = release_of(dpareto.algorithm, ours_pareto.oracle, jnp.asarray([0.3, 0.6]), config)
    return [release.points, release.values]


# Users apart


def of_matrices(function: Callable[[jax.Array], jax.Array]) -> Callable[[Any, Any], Any]:
    """A loss of each user's own 4 x 4 matrix."""

    def loss(point: jax.Array, data: jax.Array) -> jax.Array:
        square = data.reshape(-1, 4, 4)
        symmetric = jnp.matmul(square, jnp.swapaxes(square, 1, 2)) + (1.0 + point**2) * jnp.eye(4)[None]
        return jnp.sum(function(symmetric), axis=tuple(range(1, function(symmetric).ndim)))

    return loss


LOSSES: dict[str, tuple[Callable[[Any, Any], Any], Callable[[str], int]]] = {  # refused or not, by the platform
    "squares": (lambda point, data: jnp.sum(jnp.square(data - point), axis=1), lambda _: 0),
    "a product with weights": (lambda point, data: jnp.tanh(data @ jnp.cos(point + jnp.arange(16.0))), lambda _: 0),
    "sorting a record": (lambda point, data: jnp.sort(data, axis=1)[:, 3] * point, lambda _: 0),
    "Cholesky factors": (of_matrices(jnp.linalg.cholesky), lambda _: 0),
    "eigenvalues": (of_matrices(jnp.linalg.eigvalsh), lambda platform: 0 if platform == "cpu" else REFUSED),
    "ranks": (lambda point, data: jnp.argsort(jnp.argsort(data[:, 0])).astype(data.dtype) * point, lambda _: REFUSED),
}


def moved(loss: Callable[[Any, Any], Any], users: int) -> jax.Array:
    """How many pairs of users the audit finds where the record of one moves a bit of the other's loss."""
    data = np.random.default_rng(9).normal(size=(users, 16)).astype(np.float32)

    def spoil(data: np.ndarray, row: int) -> np.ndarray:
        spoiled = data.copy()
        spoiled[row] = [np.nan, np.inf, 1e30, 0.0] * 4
        return spoiled

    try:
        checked = separable.check_separable(loss, jnp.float32(0.5), data, public_constants=True)
    except separable.NotSeparable:
        return jnp.asarray(REFUSED)
    points = [jnp.float32(0.5), jnp.float32(-3.0)]
    mixed = [
        separable.audit_separable(checked, points, data, users, replace=replace).mixed for replace in (None, spoil)
    ]
    return jnp.asarray(sum(map(len, mixed)))


def zero(_: str) -> int:
    return 0


def one_user_in_a_hundred(size: int) -> float:
    """Moves by one, from one integer to the next."""
    return size / 100


def rounding(_: int) -> float:
    """A hundred times what two ways of compiling for one CPU differ by, or more."""
    return 1e-5


def _draw(name: str, draw: Callable[[jax.Array, int], jax.Array], generator: str | None = None) -> Check:
    return Check(f"draws: {name}", partial(draws, draw, generator), problem.DRAWS)


CHECKS = (
    _draw("rounded Gaussian, width 4096", lambda key, n: mechanisms.rounded_gaussian(key, (n,), 4096)),
    _draw(
        "rounded Gaussian, width 65536, ChaCha20",
        lambda key, n: mechanisms.rounded_gaussian(key, (n,), 65_536),
        chacha20_test,
    ),
    _draw("discrete Gaussian, width 4096", lambda key, n: _mechanisms.discrete_gaussian(key, (n,), 4096)),
    _draw("discrete Laplace, rate 2^-12", lambda key, n: mechanisms.discrete_laplace(key, (n,), RATE)),
    _draw("planar Laplace, rate 1", lambda key, n: mechanisms.planar_laplace(key, n, Fraction(1))),
    Check("rows that exact choices pick", picks, problem.PICKS),
    Check("sums of integers", sums),
    Check("masks cancel in a sum: words that differ", masked, expected=zero),
    Check("users as integers: halves, subnormals, not finite", edges),
    Check("users as integers: beyond the radius", beyond_radius, expected=zero),
    Check("clipped sum of users, in units", clipped_sum, tolerance=one_user_in_a_hundred),
    Check(
        "the same on all devices, minus on one",
        spread_sum,
        tolerance=one_user_in_a_hundred,
        expected=lambda _: np.zeros(3),
    ),
    Check("a private choice among 64, by user losses", chosen_row, (100_000, 1_000)),
    Check("DP-SGD: sums of outer products that are not NumPy's", outer_products, (20_000, 2_000), expected=zero),
    Check("DP-SGD: two parts of a batch, minus the whole", parts_of_training, (20_000, 2_000), expected=zero),
    Check(
        "DP-SGD: a clipped sum, in units",
        lambda size: training_sum(size)[0].astype(float),
        (20_000, 2_000),
        one_user_in_a_hundred,
    ),
    Check("release of DP-GIBO", gibo, (5_000, 500), rounding, double=True),
    Check("release of DP-GP-UCB", gp_ucb, (5_000, 500), rounding, double=True),
    Check("release of PO-GP-UCB", outsourced, (5_000, 500), rounding, double=True),
    Check("release of DPareto", front, (8, 4), rounding, double=True),
    *(
        Check(f"users apart: {name}", partial(moved, loss), (1_000, 50), expected=expected)
        for name, (loss, expected) in LOSSES.items()
    ),
)
