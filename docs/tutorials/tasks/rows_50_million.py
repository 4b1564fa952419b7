"""Place a depot for 50 million customers in memory: DP-GIBO keeps no losses between its steps."""

import jax.numpy as jnp
import numpy as np
import optax

from jaxdpbo import dp_gibo, report, run_scan

rng = np.random.default_rng(0)
customers = np.array([3.0, 1.5], np.float32) + rng.standard_normal((50_000_000, 2), np.float32)


def distances(depot, customers):
    return jnp.sqrt(1 + jnp.sum(jnp.square(customers - depot), axis=1)) - 1


config = dp_gibo.config(
    users=len(customers),
    steps=25,
    batch=3,
    mu=0.02,
    clip_norm=2.0,
    bounds={"low": [0, 0], "high": [10, 5]},
    optimizer=optax.adagrad,
    memory="none",
)
run = run_scan(dp_gibo.algorithm, distances, customers, config, user_axes=0)
print(run.release.point)
print(report.report("the place of a depot", (run.guarantee,), release=run.release).save("record.html").sentences[0])
