"""Rows of ``jaxdpbo.surrogate`` and ``jaxdpbo.noise.clipping``."""

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import strategies as st
from oracles import integers

from fuzz_targets.odd_values import anything
from fuzz_targets.target import Target, finite
from fuzz_targets.valid_values import any_float, either, few, floats_of, just, positive, probability
from jaxdpbo import input_noise
from jaxdpbo.noise import clipping
from jaxdpbo.surrogate import acquisition, box_search, gp, gp_fit, kernels, noisy_inputs, pareto, preprocessing


def surrogates() -> dict[str, Target]:
    one = kernels.stationary_params(1.0, 2)
    fitting = {"kernel": just(kernels.rbf), "params": just(one), "dimension": just(2)}
    points, mask = floats_of(4, 2, elements=any_float).map(jnp.asarray), just(jnp.asarray([True, True, True, False]))
    values = floats_of(4, 2, elements=any_float).map(jnp.asarray)

    def pure(function, check=None, nan=True, **arguments):
        """Takes clean arrays: only their numbers are odd."""
        return Target(function, arguments, fixed=tuple(arguments), check=check, nan=nan, named=False)

    clipped = jax.jit(clipping.clip_by_l2_norm)

    def bounded(found, given):
        return finite(found[0], None) and np.all(np.linalg.norm(found[0], axis=0) <= given["clip_norm"] * (1 + 1e-9))

    return {
        "kernels.stationary_params": Target(
            kernels.stationary_params, {"lengthscale": positive | floats_of(2, elements=positive), "dimension": just(2),
                "variance": positive},
            tame=("dimension",),
        ),
        "kernels.polynomial_params": Target(
            kernels.polynomial_params, {"degree": few, "offset": positive, "variance": positive}
        ),
        "kernels.check": Target(kernels.check, fitting, tame=("dimension",), words=("kernel_params",)),
        "noisy_inputs": Target(
            noisy_inputs.noisy_inputs, {"distribution": just(input_noise.distribution("gaussian", 1.0, 2)),
            "lengthscale": positive}, fixed=("distribution",)
        ),
        "cell_covariance": Target(
            noisy_inputs.cell_covariance,
            {"response": just(input_noise.response([[0.0], [1.0]], 0.5)), "lengthscale": positive},
            fixed=("response",),
        ),
        "gp.fit": Target(
            lambda **o: gp_fit.fit(
                jax.random.key(0), gp.GPModel(kernels.rbf, one, jnp.asarray(0.1)), jnp.zeros((2, 2)),
                jnp.zeros(2), jnp.ones(2, bool), **o),
            {"num_restarts": either(0, -1), "steps": just(1), "scale": just(1.0)},
            tame=("num_restarts", "steps"),
            fixed=("num_restarts",), weight=0.2,
        ),
        "pareto.hypervolume": Target(
            pareto.hypervolume, {"values": either(jnp.zeros((4, 1)), jnp.zeros((4, 4))), "mask": mask,
                "reference": just(jnp.ones(2))},
            fixed=("values", "mask", "reference"), weight=0.2,
        ),
        "pareto.is_non_dominated": pure(jax.jit(pareto.is_non_dominated), values=values, mask=mask),
        "pareto.undominated_strips": pure(
            jax.jit(pareto.undominated_strips), values=values, mask=mask, reference=just(jnp.ones(2))
        ),
        "pareto.hypervolume of anything": pure(
            jax.jit(pareto.hypervolume), values=values, mask=mask, reference=just(jnp.ones(2))
        ),
        "maximize.make_search": Target(
            box_search.make_search, {"search": st.builds(box_search.BoxSearch, either(8, 9), either(1, 2), few)},
            odd={"search": st.builds(box_search.BoxSearch, anything(), anything(), anything()) | anything()},
            words=box_search.BoxSearch._fields,
        ),
        "first_of_largest": pure(
            jax.jit(box_search.first_of_largest), lambda found, _: 0 <= int(found[0]) < 5,
            utilities=floats_of(5, elements=any_float).map(jnp.asarray), start=st.integers(0, 4),
        ),
        "preprocessing.repair": pure(
            jax.jit(preprocessing.repair), finite, utilities=floats_of(4, elements=any_float).map(jnp.asarray),
            mask=mask
        ),
        "preprocessing.standardize": pure(
            jax.jit(preprocessing.standardize), finite,
            values=floats_of(4, elements=st.floats(allow_nan=False, allow_infinity=False)).map(jnp.asarray), mask=mask
        ),
        "preprocessing.rank_lower_half": pure(
            jax.jit(preprocessing.rank_lower_half), finite,
            values=floats_of(4, elements=st.floats(allow_nan=False, allow_infinity=False)).map(jnp.asarray), mask=mask
        ),
        "preprocessing.mean_loss": pure(
            jax.jit(preprocessing.finite_mean_loss), losses=floats_of(4, 2, elements=any_float).map(jnp.asarray),
            mask=mask, nan=False
        ),
        "preprocessing.to_standard_units": pure(
            jax.jit(preprocessing.to_standard_units), finite, values=floats_of(4, elements=any_float).map(jnp.asarray),
            mask=mask,
            centre=just(jnp.asarray(1.0)), scale=just(jnp.asarray(2.0)), limits=just(jnp.asarray([-1e3, 1e3])),
        ),
        "acquisition.beta_of_candidates": pure(
            jax.jit(acquisition.beta_of_candidates, static_argnames="candidates"), finite, t=few, candidates=just(5),
            delta=probability
        ),
        "acquisition.beta_of_box": pure(jax.jit(acquisition.beta_of_box, static_argnames="dimension"), finite, t=few,
            dimension=just(5)),
        "clip_by_l2_norm": pure(clipped, bounded, vectors=floats_of(2, 4, elements=any_float).map(jnp.asarray),
            clip_norm=positive),
        "weighted_clipped_sum": pure(
            jax.jit(clipping.weighted_clipped_sum), lambda found, _: finite(found[0], None),
            weights=floats_of(4, 2).map(jnp.asarray),
            losses=floats_of(4, 3, elements=any_float).map(jnp.asarray), clip_norm=positive,
        ),
        "clipped_sum on the grid": pure(
            jax.jit(clipping.weighted_clipped_sum),
            lambda found, _: np.linalg.norm(integers.value(*found[0]).astype(float)) <= 3 * 900,
            weights=floats_of(4, 2).map(jnp.asarray),
            losses=floats_of(4, 3, elements=any_float).map(jnp.asarray), clip_norm=positive,
            radius=just(jnp.asarray(900, jnp.int32)),
        ),
        "gp.condition": pure(
            jax.jit(lambda points, mask: gp.condition(gp.GPModel(kernels.rbf, one, jnp.asarray(0.1)), points, mask)),
            points=points, mask=mask,
        ),
    }  # fmt: skip
