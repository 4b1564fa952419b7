"""Our side of ``scripts/bench dp_gibo``, one function a measurement; each returns plain numbers."""

import resource
import time
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.scipy.linalg import cho_solve
from jax.sharding import NamedSharding, PartitionSpec

from benchmarks.speed import gibo_problem as problem
from benchmarks.speed.worker import serve
from jaxdpbo import dp_gibo, drivers, kernels, mechanisms
from jaxdpbo.drivers import compiled_run, sharding
from jaxdpbo.noise import clipping
from jaxdpbo.noise.keys import chacha20_test
from jaxdpbo.surrogate import gp


def loss(point, data):
    return jnp.sqrt(1.0 + jnp.sum(jnp.square(data - point[None]), axis=1)) - 1.0


def config(mu: float = problem.SETTINGS["mu"], noise: str = "float") -> dp_gibo.Config:
    half_width = np.full(problem.DIMENSION, problem.SETTINGS["half_width"])
    return dp_gibo.config(
        box_units=False,
        noise=noise,
        users=problem.USERS,
        steps=problem.STEPS,
        batch=problem.BATCH,
        mu=mu,
        bounds=np.stack([-half_width, half_width]),
        clip_norm=problem.SETTINGS["clip_norm"],
        step_size=problem.SETTINGS["step_size"],
        optimizer=optax.adagrad,
        kernel_params=kernels.stationary_params(problem.SETTINGS["lengthscale"], problem.DIMENSION),
        noise_variance=problem.SETTINGS["noise_variance"],
    )


def run(seed: int) -> dict:
    """One run by ``run_scan``: seconds, configuration and checks included."""
    data = problem.records()
    start = time.perf_counter()
    done = drivers.run_scan(dp_gibo.algorithm, loss, data, config(), key=jax.random.key(seed))
    jax.block_until_ready(done.release)
    return {"seconds": time.perf_counter() - start}


def sweep(
    first: int, seeds: int, policy: str | None = None, budgets: int = 1, noise: str = "float", generator: str = "fry"
) -> dict:
    """``seeds`` runs from the seed ``first`` under each of ``_calibration`` budgets; final losses of the first budget.

    ``generator``: of the keys, "fry" or "chacha20".
    """
    data, lowered = jnp.asarray(problem.records()), []

    def listen(event, duration, **_):
        if event == "/jax/core/compile/backend_compile_duration" and duration > 0.5:
            lowered.append(duration)

    jax.monitoring.register_event_duration_secs_listener(listen)
    start = time.perf_counter()
    key = jax.random.key(first, impl=chacha20_test if generator == "chacha20" else None)
    configs = [config(mu, noise) for mu in np.linspace(problem.SETTINGS["mu"], 2.0, budgets)]
    options = {"common_random_numbers": True, "policy": policy, "key": key}
    swept = drivers.sweep(dp_gibo.algorithm, loss, data, configs, seeds=seeds, **options)  # released nowhere
    point, trace = jax.block_until_ready((swept.release.point[0], swept.release.trace[0]))
    seconds = time.perf_counter() - start
    jax.monitoring.unregister_event_duration_listener(listen)
    return {
        "seconds": seconds,
        "loss": jax.lax.map(lambda theta: jnp.mean(loss(theta, data)), point).tolist(),
        "trace": np.mean(trace, axis=1).tolist(),
        "large_compilations": len(lowered),
        "failed": int(jnp.sum(swept.failed)),
    }


def step_parts(rounds: int) -> dict[str, float]:
    """Mean seconds of each part of a step over ``rounds`` runs, from Python, on one device; compiled before.

    ``gradients`` are a part of ``tell``: the clipped gradients of all users and their sum, as many rows as it takes.
    """
    data, chosen = jnp.asarray(problem.records()), config()
    algorithm = dp_gibo.algorithm

    def contribute(config, memory, query, values):
        return algorithm.contribute(config, query, memory, values)

    def tell(key, config, state, query, whole):
        return algorithm.tell(config, state, query, algorithm.perturb(key, config, query, whole))

    parts = {
        "ask": jax.jit(algorithm.ask),
        "losses": jax.jit(lambda points: jax.lax.map(lambda point: loss(point, data), points)),
        "contribute": jax.jit(contribute, donate_argnums=1),  # in a compiled run too the losses are written in place
        "tell": jax.jit(tell),
        "gradients": jax.jit(clipping.weighted_clipped_sum),
    }
    rng, taken = np.random.default_rng(0), {name: [] for name in parts}
    capacity = problem.STEPS * problem.BATCH
    weights = {
        rows: jnp.asarray(rng.normal(size=(rows, problem.DIMENSION))) for rows in gp.stages(capacity, problem.BATCH)
    }

    def time_part(name, *arguments):
        start = time.perf_counter()
        result = jax.block_until_ready(parts[name](*arguments))
        taken[name].append(time.perf_counter() - start)
        return result

    for turn in range(rounds + 1):
        if turn == 1:  # the first compiles
            taken.update({name: [] for name in parts})
        keys = jax.random.split(jax.random.key(turn), problem.STEPS)
        state, memory = compiled_run.begin(algorithm, keys[0], chosen)
        for step, key in enumerate(keys, 1):
            query = time_part("ask", key, chosen, state)
            values = time_part("losses", query.points)
            total, memory = time_part("contribute", chosen, memory, query, values)
            state = time_part("tell", key, chosen, state, query, total.whole)
            rows = min(rows for rows in weights if rows >= step * problem.BATCH)
            time_part("gradients", weights[rows], memory, chosen.clip_norm)
    return {name: float(np.mean(values)) for name, values in taken.items()}


def peak_memory() -> float:
    """Of this process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def clipped_gradient(users: int, dimension: int, dtype: str, repeats: int) -> dict:
    """The per-user gradient step at 275 points, and the ceilings of the machine, interleaved; seconds, and bytes.

    ``roof`` is the larger of the time to read the losses once and the time of the flops at the speed of a large
    matrix product, both measured here. In a process of several host devices users are spread over them.
    """
    points, precise = 275, jnp.dtype(dtype)
    rng = np.random.default_rng(0)
    losses = jax.block_until_ready(jnp.asarray(rng.standard_normal((points, users), np.float32), precise))
    spread = NamedSharding(jax.make_mesh((jax.device_count(),), ("devices",)), PartitionSpec(None, "devices"))
    losses = sharding.place_users(jax.device_put(losses, spread) if jax.device_count() > 1 else losses)
    weights = jnp.asarray(rng.normal(size=(points, dimension)), precise)
    square = jnp.asarray(rng.normal(size=(2048, 2048)), precise)
    # A constant that XLA cannot know: a read that is not folded away.
    timed = {
        "step": (jax.jit(sum_gradients), (weights, losses)),
        "read": (jax.jit(lambda block: jnp.max(block)), (losses,)),
        "product": (jax.jit(jnp.matmul), (square, square)),
    }
    with sharding.use_mesh(sharding.find_mesh(losses)):
        compiled = {name: function.lower(*arguments).compile() for name, (function, arguments) in timed.items()}
        seconds = _median_seconds({name: (compiled[name], timed[name][1]) for name in timed}, repeats)
    flops = 2.0 * points * users * dimension
    rate = 2.0 * 2048**3 / seconds["product"]
    roof = max(seconds["read"], flops / rate)
    memory = compiled["step"].memory_analysis()
    return {
        "seconds": seconds["step"],
        "roof": roof,
        "share_of_roof": roof / seconds["step"],
        "read_gb_per_s": losses.nbytes / seconds["read"] / 1e9,
        "product_gflop_per_s": rate / 1e9,
        "bound": "reading" if roof == seconds["read"] else "arithmetic",
        "temporary_bytes": memory.temp_size_in_bytes,
        "n_by_d_bytes": users * dimension * precise.itemsize,
    }


def sum_gradients(weights: jax.Array, losses: jax.Array) -> jax.Array:
    """Over users, spread over the devices where there are several."""

    def sum_shard(weights: jax.Array, losses: jax.Array) -> tuple[jax.Array, tuple[()]]:
        return clipping.weighted_clipped_sum(weights, losses, jnp.ones((), weights.dtype))[0], ()

    return sharding.sum_over_users(sum_shard, weights, losses)[0]


def per_user_solve(dimension: int, dtype: str, repeats: int) -> dict:
    """The step at 4,500 users, the weights included, beside a solve for every user: in turn, and by ``vmap``.

    JAX merges the solves that ``vmap`` maps over users into one with 4,500 right-hand sides. Each side is given the
    factorisation it keeps from step to step: the whitening, or the Cholesky factor.
    """
    points, users, precise = 275, 4500, jnp.dtype(dtype)
    rng = np.random.default_rng(0)
    losses = jnp.asarray(rng.normal(size=(points, users)), precise)
    cross = jnp.asarray(rng.normal(size=(points, dimension)), precise)
    spread = rng.normal(size=(points, points))
    factor = jnp.asarray(np.linalg.cholesky(spread @ spread.T / points + np.eye(points)), precise)

    def make_solve(mapped):
        def step(factor, cross, losses):
            gradients = mapped(lambda user_losses: cross.T @ cho_solve((factor, True), user_losses), losses.T)
            return jnp.mean(clipping.clip_by_l2_norm(gradients.T, 1.0)[0], axis=1)

        return jax.jit(step), (factor, cross, losses)

    def ours(whitening, cross, losses):
        weights = gp.matmul(whitening.T, gp.matmul(whitening, cross))
        return clipping.weighted_clipped_sum(weights, losses, jnp.asarray(1.0, precise))[0] / users

    whitening = jnp.asarray(np.linalg.inv(np.asarray(factor)))
    calls = {
        "ours": (jax.jit(ours), (whitening, cross, losses)),
        "in_turn": make_solve(jax.lax.map),
        "vmapped": make_solve(lambda function, users: jax.vmap(function)(users)),
    }
    outputs = {name: function(*arguments) for name, (function, arguments) in calls.items()}
    difference = jnp.max(jnp.abs(outputs["ours"] - outputs["in_turn"]))
    return _median_seconds(calls, repeats) | {"difference": float(difference)}


def draws(count: int, repeats: int) -> dict:
    """Seconds of one call for ``count`` draws of each noise, ChaCha20 keys for the exact ones, interleaved."""
    slow, quick = jax.random.key(0, impl=chacha20_test), jax.random.key(0)
    rate = Fraction(1, 2**12)
    calls = {
        "float Gaussian, threefry": (lambda key: jax.random.normal(key, (count,)), quick),
        "float Gaussian, ChaCha20": (lambda key: jax.random.normal(key, (count,)), slow),
        "rounded Gaussian, width 4096": (lambda key: mechanisms.rounded_gaussian(key, (count,), 4096), slow),
        "rounded Gaussian, width 65536": (lambda key: mechanisms.rounded_gaussian(key, (count,), 65536), slow),
        "discrete Laplace, rate 2^-12": (lambda key: mechanisms.discrete_laplace(key, (count,), rate), slow),
        "noisy argmax, rate 2^-12": (
            lambda key: mechanisms.noisy_argmax(key, jnp.zeros(count, jnp.int32), rate), slow,
        ),
    }  # fmt: skip
    return _median_seconds({name: (jax.jit(function), (key,)) for name, (function, key) in calls.items()}, repeats)


def _median_seconds(calls, repeats: int) -> dict:
    """Median seconds of each call, the calls taking turns."""
    seen = {name: [] for name in calls}
    for function, arguments in calls.values():
        jax.block_until_ready(function(*arguments))
    for _ in range(repeats):
        for name, (function, arguments) in calls.items():
            start = time.perf_counter()
            jax.block_until_ready(function(*arguments))
            seen[name].append(time.perf_counter() - start)
    return {name: float(np.median(values)) for name, values in seen.items()}


if __name__ == "__main__":
    serve(run, sweep, step_parts, peak_memory, clipped_gradient, per_user_solve, draws)
