"""The keys and the parts of a step, each compiled whole: outside of jit, JAX compiles every operation separately."""

import jax

from jaxdpbo.drivers import compiled_run

run_keys = jax.jit(lambda key: tuple(jax.random.split(key, 3)))
step_keys = jax.jit(lambda loop_key, t: tuple(jax.random.split(jax.random.fold_in(loop_key, t))))
evaluation_key = jax.jit(jax.random.fold_in)
begin = jax.jit(compiled_run.begin, static_argnums=0)
ask = jax.jit(lambda algorithm, key, config, state: algorithm.ask(key, config, state), static_argnums=0)
learn = jax.jit(compiled_run.learn, static_argnums=0)
perturb_total = jax.jit(compiled_run.perturb_total, static_argnums=0)
tell = jax.jit(lambda algorithm, config, *given: algorithm.tell(config, *given), static_argnums=0)
recall = jax.jit(compiled_run.recall, static_argnums=0)
release = jax.jit(lambda algorithm, key, config, state: algorithm.release(key, config, state), static_argnums=0)
