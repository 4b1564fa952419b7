"""``testing.check_algorithm`` passes every algorithm here, and says of planted faults what to mend."""

from dataclasses import replace
from fractions import Fraction

import jax
import jax.numpy as jnp
import pytest
from dp_optimisers import evolution_strategies
from protocol_cases import CASES, USERS, records

from jaxdpbo import parts, testing
from jaxdpbo.noise import choice, mechanisms, totals, wide_integers
from jaxdpbo.testing import tape

BOX = {"low": [-2.0, -1.0], "high": [2.0, 3.0]}
CONFIG = evolution_strategies.config(users=USERS, steps=3, mu=1.0, bounds=BOX, members=4)
HONEST = evolution_strategies.algorithm


def losses(point, data):
    return jnp.sum((data - point[None]) ** 2, axis=1)


@pytest.mark.daily("dp_gd")  # test_dependents has a mean
@pytest.mark.parametrize("name", CASES)
def test_every_algorithm_passes(name):
    case = CASES[name]
    testing.check_algorithm(case.algorithm, case.config(1.0), case.objective, records())


def shape_fitness_across_users():
    """Ranks among users at a point: what one user loses moves what another adds."""

    def contribute(config, query, memory, values, present=None):
        ranks = jnp.argsort(jnp.argsort(values, axis=-1), axis=-1) / values.shape[-1]
        return HONEST.contribute(config, query, memory, ranks, present)

    return HONEST._replace(contribute=contribute)


def standardise_across_users():
    """As a mean over users, which is zero for a user alone."""

    def contribute(config, query, memory, values, present=None):
        here = jnp.ones(values.shape[-1], bool) if present is None else present
        middle = jnp.sum(jnp.where(here, values, 0), axis=-1, keepdims=True) / jnp.maximum(
            jnp.sum(here, dtype=values.dtype), 1
        )
        return HONEST.contribute(config, query, memory, values - middle, present)

    return HONEST._replace(contribute=contribute)


def draw_half_of_the_noise():
    def perturb(key, config, query, whole):
        noise = replace(config.noise, sigma=config.noise.sigma // 2)
        return HONEST.perturb(key, replace(config, noise=noise), query, whole)

    return HONEST._replace(perturb=perturb)


def draw_noise_of_its_own():
    def perturb(key, config, query, whole):
        noise = jnp.rint(config.noise.sigma * jax.random.normal(key, whole.low.shape)).astype(jnp.int32)
        return totals.only_if(query.active, totals.add(whole, wide_integers.widen(noise)))

    return HONEST._replace(perturb=perturb)


def steps_alone():
    """The functions of the algorithm without their guard."""
    given = ("init", "ask", "tell", "release", "privacy", "contribute", "perturb")
    return HONEST._replace(**{name: getattr(evolution_strategies, name) for name in given})


def go_on_after_step_t():
    """Guarded against another budget alone."""

    def tell(config, state, query, released):
        public = state.public
        after = evolution_strategies.tell(config, state, query, released)
        same = jnp.all(public.noise.mu == config.noise.mu)
        return state._replace(public=jax.tree.map(lambda new, old: jnp.where(same, new, old), after.public, public))

    return HONEST._replace(tell=tell)


def go_on_under_another_budget():
    def settings(config):
        return parts.noise_settings(config.noise, config.clip_norm)

    def forget(state):
        return state._replace(public=state.public._replace(noise=settings(CONFIG)))

    return HONEST._replace(
        ask=lambda key, config, state: HONEST.ask(key, config, forget(state)),
        tell=lambda config, state, query, released: HONEST.tell(config, forget(state), query, released),
    )


def compare_mu_alone():
    """Of all that sets the noise."""

    def forget(state):
        given = parts.noise_settings(CONFIG.noise, CONFIG.clip_norm)
        return state._replace(public=state.public._replace(noise=given._replace(mu=state.public.noise.mu)))

    return HONEST._replace(
        ask=lambda key, config, state: HONEST.ask(key, config, forget(state)),
        tell=lambda config, state, query, released: HONEST.tell(config, forget(state), query, released),
    )


def guarded(steps):
    return parts.guard_noise(steps, evolution_strategies.settings)


def pass_the_raw_total_on():
    """Beside the noise, where ``tell`` reads it."""

    def perturb(key, config, query, whole):
        return evolution_strategies.perturb(key, config, query, whole), whole

    def tell(config, state, query, released):
        noisy, raw = released
        after = evolution_strategies.tell(config, state, query, noisy)
        mean = parts.mean_of_vectors(config.noise, raw, config.clip_norm)
        return after._replace(public=after.public._replace(mean=after.public.mean + 1e-3 * mean))

    return guarded(steps_alone()._replace(perturb=perturb, tell=tell))


def keep_the_raw_total_unread():
    """In what is released, though no state follows from it."""

    def perturb(key, config, query, whole):
        return evolution_strategies.perturb(key, config, query, whole), whole

    def tell(config, state, query, released):
        return evolution_strategies.tell(config, state, query, released[0])

    return guarded(steps_alone()._replace(perturb=perturb, tell=tell))


def restate(factor):
    def privacy(config):
        stated = HONEST.privacy(config)
        return replace(stated, level=factor * stated.level, parts=(), stages=(), also=None)

    return HONEST._replace(privacy=privacy)


def state_nothing():
    return HONEST._replace(privacy=lambda config: CASES["random_search"].algorithm.privacy(None))


def draw_among_users():
    def contribute(config, query, memory, values, present=None):
        noise = jax.random.normal(jax.random.key(0), values.shape)
        return HONEST.contribute(config, query, memory, values + noise, present)

    return HONEST._replace(contribute=contribute)


def keep_users_in_the_state():
    def init(key, config):
        return HONEST.init(key, config)._replace(raw=jnp.zeros(USERS))

    return HONEST._replace(init=init)


def take_any_shape():
    def contribute(config, query, memory, values, present=None):
        return HONEST.contribute(config, query, memory, values.reshape(*values.shape[:1], -1)[:, :USERS], present)

    return HONEST._replace(contribute=contribute)


def remember_between_calls():
    seen = []

    def release(key, config, state):
        seen.append(None)
        released = HONEST.release(key, config, state)
        return released._replace(point=released.point + 0.1 * len(seen))

    return HONEST._replace(release=release)


def count_no_steps():
    def tell(config, state, query, released):
        after = HONEST.tell(config, state, query, released)
        return after._replace(public=after.public._replace(step=state.public.step))

    return HONEST._replace(tell=tell)


PLANTS = {
    "fitness is shaped across users": (
        shape_fitness_across_users, "a part of each user that depends on that user alone"
    ),
    "fitness is standardised across users": (
        standardise_across_users, "a part of each user that depends on that user alone"
    ),
    "half of the noise": (draw_half_of_the_noise, "more than privacy states"),
    "noise of its own": (draw_noise_of_its_own, "must draw its noise by a mechanism of jaxdpbo"),
    "no guard": (steps_alone, "apply parts.guard_noise"),
    "it goes on after step T": (go_on_after_step_t, "after step T.*apply parts.guard_noise"),
    "it goes on under another budget": (
        go_on_under_another_budget, "under other noise than at the start: apply parts.guard_noise"
    ),
    "of its budget it compares mu alone": (
        compare_mu_alone,
        "under other noise than at the start: apply parts.guard_noise",
    ),
    "the raw total is passed on": (pass_the_raw_total_on, "follows from a user's values beside the draws"),
    "the raw total is released unread": (
        keep_the_raw_total_unread, "the result of perturb of step 0 follows from a user's values beside the draws"
    ),
    "the guarantee is understated": (lambda: restate(0.8), "more than privacy states"),
    "the guarantee is understated a little": (lambda: restate(0.99), "more than privacy states"),
    "users draw": (draw_among_users, "contribute must draw nothing"),
    "users in the state": (keep_users_in_the_state, "State.raw must be"),
    "values of any shape": (take_any_shape, "contribute must refuse values of shape"),
    "a memory of its own": (remember_between_calls, "no hidden state|what the same steps do"),
    "steps are not counted": (count_no_steps, "must count the steps taken"),
    "another kind": (lambda: "dp_gd", "algorithm must be an Algorithm"),
    "no perturb": (lambda: HONEST._replace(perturb=None), "both contribute and perturb"),
    "no guarantee": (
        state_nothing, "privacy must state gdp or dp to be checked"
    ),
}  # fmt: skip


def test_noise_of_less_than_its_scale_is_seen_by_the_attack(monkeypatch):
    """Planted in the mechanism, where its draws are recorded at the scale that they should have."""
    honest = mechanisms.rounded_gaussian
    monkeypatch.setattr(mechanisms, "rounded_gaussian", lambda key, shape, sigma: honest(key, shape, sigma) // 3)
    jax.clear_caches()
    try:
        with pytest.raises(AssertionError, match="an attack on the results of perturb shows mu"):
            testing.check_algorithm(HONEST, CONFIG, losses, records())
    finally:
        monkeypatch.undo()
        jax.clear_caches()


@pytest.mark.daily(*(PLANTS.keys() - {"the guarantee is understated"}))
@pytest.mark.parametrize("plant", PLANTS)
def test_a_planted_fault_is_seen(plant):
    make, said = PLANTS[plant]
    with pytest.raises(AssertionError, match=said) as raised:
        testing.check_algorithm(make(), CONFIG, losses, records())
    assert "\n" not in str(raised.value)


def test_a_tape_hears_every_mechanism_however_it_is_called():
    """By keywords, as their docstrings do; noise on the left of a sum; a choice with noise in floats."""
    key, total = jax.random.key(0), jnp.arange(3, dtype=jnp.int32)
    scores = jnp.array([0.0, 1.0])
    draws = [
        lambda key: mechanisms.rounded_gaussian(key, shape=(3,), sigma=4, bits=64) + total,
        lambda key: total + mechanisms.discrete_laplace(key, (3,), rate=Fraction(1, 4)),
        lambda key: mechanisms.planar_laplace(key=key, count=3, rate=Fraction(1, 4)) + jnp.zeros((3, 2), jnp.int32),
        lambda key: mechanisms.gaussian(key, scores, standard_deviation=2.0),
        lambda key: mechanisms.laplace(key, value=scores, scale=2.0),
        lambda key: mechanisms.exponential(key, scores, epsilon=1.0, sensitivity=1.0),
        lambda key: mechanisms.exact_exponential(key, scores=total, rate=Fraction(1, 4)),
        lambda key: mechanisms.noisy_argmax(key, total, rate=Fraction(1, 4)),
        lambda key: choice.choose_row(
            key, choice.choice_noise(1.0, "float", dtype=float), jnp.ones((2, 6)), jnp.ones(())
        ),
    ]
    with tape.running() as fresh:
        for number, draw in enumerate(draws):
            _, (noted,) = fresh().record(draw, jax.random.fold_in(key, number))
            assert noted.scale > 0
