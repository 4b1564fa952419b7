"""Rows of accounting, guarantees, keys and mechanisms."""

from fractions import Fraction
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import strategies as st

from fuzz_targets.odd_values import anything
from fuzz_targets.target import Target, at_least_zero, finite, is_guarantee, unit, whole
from fuzz_targets.valid_values import (
    any_float,
    count,
    either,
    epsilon,
    few,
    floats_of,
    just,
    key,
    positive,
    probability,
    rate,
    secret,
    small,
    words,
)
from jaxdpbo import accounting, sensitivity, separable
from jaxdpbo.accounting import noise_shares, regret, requested_budget
from jaxdpbo.guarantee import budget_calibration, composed_guarantee, guarantees, release_key
from jaxdpbo.noise import calibration, choice, keys, mechanisms, private_scale
from jaxdpbo.noise.mechanisms import tables


def printed_lines(found, assumptions):
    """How many lines a printed guarantee has, by what it begins with."""
    head = 1 if not found.startswith("epsilon = ") else 4 if "\ndoes NOT protect: " in found else 3
    return head + (1 + len(assumptions) if assumptions else 0)


def accountants() -> dict[str, Target]:
    a = accounting
    sampled = {"rate": st.floats(1e-4, 1.0), "noise_multiplier": st.floats(0.3, 10), "steps": st.integers(0, 500)}
    training = st.lists(st.tuples(st.floats(0.01, 1.0), st.floats(0.5, 5.0), st.integers(0, 50)), max_size=2)
    return {
        "compose_gdp": Target(a.compose_gdp, {"mus": st.lists(positive, max_size=4)}, words=("mu",),
            check=at_least_zero),
        "compose_epsilon": Target(
            a.compose_epsilon, {"trainings": training, "delta": probability},
            words=("rate", "noise_multiplier", "steps"),
            check=at_least_zero, weight=0.3,
        ),
        "rounded_gaussian_mu": Target(
            a.rounded_gaussian_mu, {"distance": positive, "sigma": st.integers(1, 10**5), "releases": count},
            check=at_least_zero,
        ),
        "discrete_gaussian_mu": Target(
            noise_shares.discrete_gaussian_mu,
            {"distance": st.integers(1, 10**5), "variance": st.integers(2**14, 2**40), "releases": count},
            check=at_least_zero,
        ),
        "gaussian_variance": Target(
            noise_shares.gaussian_variance, {"variance": st.integers(2**14, 2**40)}, check=at_least_zero
        ),
        "share_total_variation": Target(
            noise_shares.share_total_variation, {"shares": count, "numbers": count}, check=at_least_zero
        ),
        "share_sigma": Target(
            noise_shares.share_sigma, {"sigma": st.integers(2**11, 2**20), "shares": st.integers(1, 100)},
            check=lambda found, given: found >= 128,
        ),
        "bounded_range_mu": Target(a.bounded_range_mu, {"eta": positive}, check=at_least_zero),
        "bounded_range_eta": Target(a.bounded_range_eta, {"mu": positive}, words=("range",), check=at_least_zero),
        "compose_gdp_rounded_up": Target(
            a.compose_gdp_rounded_up, {"levels": positive}, words=("level",), check=at_least_zero
        ),
        "dp_event": Target(a.dp_event, {"mu": positive, "steps": count}),
        "gaussian_mu": Target(
            a.gaussian_mu, {"sensitivity": positive, "standard_deviation": positive}, check=at_least_zero
        ),
        "gaussian_standard_deviation": Target(
            a.gaussian_standard_deviation, {"sensitivity": positive, "mu": positive}, check=at_least_zero
        ),
        "gdp_delta": Target(a.gdp_delta, {"mu": positive, "epsilon": epsilon}, check=unit),
        "gdp_epsilon": Target(a.gdp_epsilon, {"mu": positive, "delta": probability}, check=at_least_zero),
        "gdp_mu": Target(a.gdp_mu, {"epsilon": epsilon, "delta": probability}, check=at_least_zero),
        "least_regret": Target(
            regret.least_regret, {"candidates": st.integers(2, 10**6), "users": count, "mu": positive,
                "epsilon": positive, "delta": probability}, check=unit,
        ),
        "users_for_regret": Target(
            regret.users_for_regret, {"regret": st.floats(1e-6, 0.5), "candidates": st.integers(2, 10**6),
                "mu": positive, "epsilon": positive, "delta": probability}, tame=("regret", "mu", "epsilon"),
            check=whole, weight=0.3,
        ),
        "largest_distance": Target(
            a.largest_distance, {"mu": positive, "sigma": st.integers(1, 10**5), "releases": count}, check=whole
        ),
        "learner_epsilon": Target(
            a.learner_epsilon, {"sensitivity": positive, "standard_deviation": positive, "delta": probability},
            check=at_least_zero,
        ),
        "permutation_sgd": Target(
            sensitivity.permutation_sgd,
            {"regularisation": positive, "records": st.integers(10, 10**5), "batch": few,
                "bound": either("tight", "paper")},
            check=at_least_zero,
        ),
        "sampled_gaussian_epsilon": Target(
            a.sampled_gaussian_epsilon, sampled | {"delta": probability},
            check=lambda found, _: at_least_zero(found.epsilon, None), weight=0.5,
        ),
        "sampled_gaussian_epsilons": Target(
            a.sampled_gaussian_epsilons,
            {"rates": floats_of(2, elements=sampled["rate"]), "delta": probability,
                "noise_multipliers": floats_of(2, elements=sampled["noise_multiplier"]),
                "steps": st.lists(sampled["steps"], min_size=2, max_size=2)},
            check=lambda found, _: found.shape == (2,) and bool(np.all(found >= 0)), weight=0.3,
        ),
        "sparse_vector_epsilon": Target(
            a.sparse_vector_epsilon, {"noise": positive, "answers": count}, check=at_least_zero
        ),
        "split_gdp": Target(a.split_gdp, {"mu": positive, "steps": count}, check=at_least_zero),
        "split_noise": Target(a.split_noise, {"noise": positive, "answers": count}),
    }  # fmt: skip


def selections() -> dict[str, Target]:
    a = accounting
    repetitions = st.builds(a.repetitions, eta=st.floats(-0.9, 5.0), mean=st.floats(1.5, 100.0))
    profile = st.floats(0.1, 3.0).map(lambda mu: partial(a.gdp_delta, mu))
    selection = {"repetitions": repetitions, "profile": profile}
    fixed = tuple(selection)
    return {
        "repetitions": Target(a.repetitions, {"eta": st.floats(-0.9, 5.0), "mean": st.floats(1.5, 100.0)},
            check=lambda found, _: 0 < found.gamma < 1 < found.mean),
        "repetition_probabilities": Target(a.repetition_probabilities, {"repetitions": repetitions, "largest": few},
            fixed=("repetitions",), tame=("largest",),
            check=lambda found, _: bool(np.all(found >= 0)) and float(np.sum(found)) <= 1 + 1e-9),
        "tail_probability": Target(a.tail_probability, {"repetitions": repetitions, "largest": count},
            fixed=("repetitions",), check=unit),
        "selection_epsilon": Target(a.selection_epsilon, selection | {"delta": probability}, fixed=fixed,
            check=at_least_zero),
        "attained_selection_epsilon": Target(a.attained_selection_epsilon, selection | {"delta": probability},
            fixed=fixed, check=at_least_zero, weight=0.1),
        "ex_post_epsilons": Target(a.ex_post_epsilons, {"repetitions": repetitions, "weights": just([0.25, 0.75]),
            "profiles": st.lists(profile, min_size=2, max_size=2), "delta": probability},
            fixed=("repetitions", "profiles"), check=lambda found, _: 0 <= min(found.epsilons) <= found.largest,
            weight=0.1),
        "selection_profile": Target(a.selection_profile, selection, fixed=fixed, check=is_profile),
    }  # fmt: skip


def compositions() -> dict[str, Target]:
    a, s = accounting, accounting.stage
    sampled = {"rate": st.floats(1e-4, 1.0), "noise_multiplier": st.floats(0.3, 10), "steps": st.integers(0, 500)}
    repetitions = st.builds(a.repetitions, eta=st.floats(-0.9, 5.0), mean=st.floats(1.5, 100.0))
    made = st.builds(s.gaussian_stage, small) | st.builds(s.pure_stage, small) | st.builds(s.bounded_range_stage, small)
    made |= st.builds(s.approximate_stage, small, st.floats(1e-9, 0.1)) | st.builds(s.sampled_gaussian_stage, **sampled)
    profile = made.map(lambda one: one.profile)
    made |= st.builds(s.selection_stage, repetitions, made) | st.builds(s.foreign_stage, profile, either(*s.RELATIONS))
    stages = st.lists(made | st.builds(s.curve_stage, profile), max_size=3)
    odd = {"stages": anything() | st.lists(anything(), max_size=2)}
    wrong = anything().filter(lambda value: not callable(value))
    text = {"description": words}
    return {
        "total": Target(a.total, {"stages": stages, "delta": probability}, odd=odd, weight=0.3,
            check=lambda found, _: at_least_zero(found.epsilon, None)),
        "gdp_level": Target(a.gdp_level, {"stages": stages, "delta": probability}, odd=odd, weight=0.3,
            check=at_least_zero),
        "from_total": Target(
            lambda stages, delta: composed_guarantee.guarantee_from_total(a.total(stages, delta), "them"),
            {"stages": stages, "delta": probability}, odd=odd, weight=0.3, check=is_guarantee),
        "compose_profile": Target(a.compose_profile, {"stages": stages}, odd=odd, weight=0.3, check=is_profile),
        "sampled_gaussian_profile": Target(a.sampled_gaussian_profile, sampled, tame=("steps",), weight=0.3,
            check=is_profile),
        "average_profile": Target(a.average_profile, {"weights": just([0.25, 0.75]),
            "profiles": st.lists(profile, min_size=2, max_size=2)}, odd={"profiles": wrong}, check=is_profile),
        "worst_profile": Target(a.worst_profile, {"profiles": st.lists(profile, min_size=1, max_size=3)},
            odd={"profiles": wrong}, check=is_profile),
        "stage.gaussian": Target(s.gaussian_stage, {"mu": positive} | text, check=is_stage),
        "stage.pure": Target(s.pure_stage, {"epsilon": epsilon} | text, check=is_stage),
        "stage.approximate": Target(
            s.approximate_stage, {"epsilon": epsilon, "delta": probability} | text, check=is_stage),
        "stage.bounded_range": Target(s.bounded_range_stage, {"eta": positive} | text, check=is_stage),
        "stage.sampled_gaussian": Target(s.sampled_gaussian_stage, sampled | text, check=is_stage, weight=0.3,
            tame=("steps",)),
        "stage.selection": Target(
            s.selection_stage, {"repetitions": repetitions, "run": made} | text, odd={"run": wrong}, check=is_stage),
        "stage.from_curve": Target(s.curve_stage, {"curve": profile} | text, odd={"curve": wrong}, check=is_stage),
        "stage.foreign": Target(s.foreign_stage, {"event_or_profile": profile, "relation": either(*s.RELATIONS)} | text,
            odd={"event_or_profile": wrong}, check=is_stage, weight=0.3),
    }  # fmt: skip


def is_profile(value, _):
    return all(unit(float(value(at)), None) for at in (0.0, 0.5, 3.0))


def is_stage(value, _):
    return is_profile(value.profile, None) and at_least_zero(value.epsilon(1e-5), None)


def statements() -> dict[str, Target]:
    options = {
        "assumptions": st.lists(words, max_size=2).map(tuple),
        "delta": st.floats(0, 0.5),
        "total_variation": st.floats(0, 1e-20),
    }
    full = {
        "notion": either(*(notion for notion in guarantees.NOTIONS[:-1] if notion != "ex_post_dp")),
        "level": positive,
        "relation": just("replace_one"),
        "unit": st.none(),
    }
    distant = full | {"relation": just("unit_distance"), "unit": positive}
    paid = full | {"notion": just("ex_post_dp"), "level": st.floats(1e-3, 1.0), "largest": st.floats(1.0, 50.0)}
    made = st.one_of(
        st.builds(guarantees.guarantee, **each, protects=words, **options) for each in (full, full, distant, paid)
    )
    ideal = st.builds(
        lambda level: guarantees.guarantee("gdp", level, "replace_one", "them", total_variation=1e-25), positive
    )
    fields = made.map(lambda one: one.to_dict())
    fields_of_stage = st.tuples(words, either("gaussian", "bounded_range"), small)
    odd_stage = st.tuples(words, either("gaussian", "bounded_range", "pure", None), any_float)

    @st.composite
    def wrong_fields(draw):
        some = dict(draw(fields))
        name = draw(st.sampled_from([*some, "more"]))
        if draw(st.booleans()):
            some.pop(name, None)
        else:
            some[name] = draw(anything())
        return some

    names = tuple(guarantees.Guarantee.__dataclass_fields__) + ("guarantee", "of the JSON")
    return {
        "guarantee": Target(guarantees.guarantee, full | {"protects": words} | options, check=is_guarantee),
        "guarantee of a release": Target(
            guarantees.guarantee, paid | {"protects": words} | options, check=is_guarantee
        ),
        "guarantee of a unit": Target(
            guarantees.guarantee, distant | {"protects": words} | options, check=is_guarantee
        ),
        "no_guarantee": Target(
            guarantees.no_guarantee, {"protects": words, "no_guarantee_reason": words}, check=is_guarantee),
        "from_dict": Target(
            guarantees.guarantee_from_dict, {"fields": fields},
            odd={"fields": wrong_fields() | anything()}, words=names,
            check=is_guarantee,
        ),
        "Guarantee.epsilon": Target(
            lambda one, delta: one.epsilon(delta), {"one": ideal, "delta": probability}, fixed=("one",),
            check=at_least_zero,
        ),
        "Guarantee.to_dp": Target(
            lambda one, delta: one.to_dp(delta), {"one": ideal, "delta": probability}, fixed=("one",),
            words=("guarantee",), check=is_guarantee,
        ),
        "guarantee_from_stages": Target(
            composed_guarantee.guarantee_from_stages, {"stages": st.lists(fields_of_stage, min_size=1, max_size=3),
                "protects": words}, odd={"stages": st.lists(odd_stage, min_size=1, max_size=3)}, weight=0.3,
            words=("eta", "level", "mu", "kind", "assumptions"), check=is_guarantee,
        ),
        "stage_from_fields": Target(
            accounting.stage_from_fields, {"description": words, "kind": either("gaussian", "bounded_range"),
                "level": positive}, words=("eta", "mu"), check=lambda found, given: found.kind == given["kind"],
        ),
        "stages_epsilon": Target(
            accounting.stages_epsilon, {"stages": st.lists(fields_of_stage, max_size=3).map(tuple),
                "delta": probability}, fixed=("stages", "delta"), check=at_least_zero, weight=0.3,
        ),
        "Guarantee of anything, printed": Target(
            lambda **fields: str(guarantees.guarantee(**fields)), distant | {"protects": words} | options,
            check=lambda found, given: [line.isprintable() for line in found.splitlines()]
            == [True] * printed_lines(found, given.get("assumptions", ())),
        ),
        "row_distance": Target(sensitivity.row_distance, {"radius": st.none() | positive}, check=at_least_zero),
        "sum_noise": Target(
            calibration.sum_noise,
            {"mu": small, "noise": either(*calibration.NOISES), "dimension": few, "steps": few, "releases": few,
             "users": count, "dtype": either(np.float64, np.float32), "find_scale": st.booleans()},
            fixed=("dimension", "releases", "dtype"),
        ),
        "scale_noise": Target(
            private_scale.scale_noise,
            {"mu": small, "noise": just("exact"), "users": count, "dtype": either(np.float64, np.float32)},
            fixed=("noise", "dtype"), words=("scale",),
        ),
        "choice_noise": Target(
            choice.choice_noise,
            {"mu": small, "noise": just("exact"), "users": count, "dtype": either(np.float64, np.float32)},
            fixed=("noise", "dtype"), words=("choice",),
        ),
        "choice.sharpness": Target(
            choice.choice_sharpness, {"mu": small, "width": positive, "users": count}, check=at_least_zero
        ),
        "requested_mu": Target(
            requested_budget.requested_mu,
            {"mu": st.none(), "epsilon": epsilon, "delta": st.floats(1e-9, 0.9),
             "total_variation": either(requested_budget.TOTAL_VARIATION, 2.0**-64),
             "dtype": either(np.float64, np.float32)},
            fixed=("total_variation", "dtype"), check=at_least_zero,
        ),
        "expect_small_delta": Target(
            requested_budget.expect_small_delta,
            {"delta": probability | probability.map(requested_budget.LargeDelta), "users": count},
            fixed=("delta", "users"),
        ),
        "requested_mu mu": Target(
            requested_budget.requested_mu, {"mu": positive, "epsilon": st.none(), "delta": st.none()},
            check=at_least_zero
        ),
        "check_budget": Target(
            budget_calibration.check_budget, {
                "epsilon": epsilon, "delta": probability.map(requested_budget.LargeDelta), "mu": st.none(),
                "users": count,
            }, fixed=("delta", "users"), check=lambda found, _: found.mu > 0,
        ),
        "secret_key": Target(
            keys.secret_key, {"shape": either((), (2,), (1, 2))}, tame=("shape",),
            odd={"shape": st.sampled_from([None, -1, 3, (-1,), ("a",), (1.5,), (True,), 2.5, "ab", [2], (0,), (None,),
                b"a"])},
        ),
        "key_from_bytes": Target(
            keys.key_from_bytes, {"data": st.binary(min_size=32, max_size=32)}, private=("data",),
            odd={"data": st.sampled_from([b"8642097531", "8642097531", 8642097531, bytearray(b"86420" * 7), None,
                [86420]])},
        ),
        "for_release": Target(
            release_key.for_release, {"key": secret(), "guarantee": ideal, "insecure_key": st.booleans()},
            fixed=("guarantee",), check=lambda found, _: is_guarantee(found[1], None),
        ),
    }  # fmt: skip


def groupings() -> dict[str, Target]:
    rows = st.lists(st.integers(0, 5), min_size=1, max_size=4).map(np.asarray)
    return {
        "by_person": Target(
            separable.by_person,
            {
                "objective": just(lambda point, rows: rows), "person_of_row": rows, "persons": either(6, 9),
                "average": st.booleans(),
            },
            check=lambda found, _: found.persons > found.person_of_row.max() and found.person_of_row.min() >= 0,
        ),
        "blocks": Target(
            lambda **options: separable.blocks(mean_of_block, **options),
            {
                "rows": just(12), "k": either(2, 3, 6), "groups": either(None, np.arange(12) // 2),
                "traceable": just(False), "on_error": either("worst", "raise"),
                "seed": st.integers(0, 9),
            },
            tame=("rows", "k"), words=("rows",),
            check=lambda found, _: np.shape(found(np.zeros(1), np.ones((12, 2)))) == (found.count,),
        ),
    }  # fmt: skip


def mean_of_block(params, train, held_out):
    return np.mean(train) + np.mean(held_out)


def noises() -> dict[str, Target]:
    m, shape = mechanisms, either((), (3,))
    scores = floats_of(5, elements=any_float).map(jnp.asarray)
    whole_scores = st.lists(st.integers(-(2**31), 2**31 - 1), min_size=5, max_size=5).map(
        lambda x: jnp.asarray(x, jnp.int32)
    )
    row = {"check": lambda found, _: 0 <= int(found) < 5}
    probabilities = either((Fraction(1, 2), Fraction(1, 2)), (Fraction(1),), (Fraction(1, 3), Fraction(2, 3)))
    wrong = anything() | either((Fraction(-1), Fraction(2)), (Fraction(0),), (0.5, 0.5), ("a",), (Fraction(1, 2),))
    wrong_shapes = st.sampled_from([None, -1, (-1,), "ab", ("a",), (1.5,), 2.5, (None,), b"a"])
    plain = {"key": key(), "shape": shape}
    odd = {"shape": wrong_shapes}
    logs = jax.jit(m.exponential_log_probabilities)
    return {
        "rounded_gaussian": Target(
            m.rounded_gaussian, plain | {"sigma": either(4, 40)}, tame=("sigma",), odd=odd, words=("shape",),
            weight=0.2,
        ),
        "discrete_gaussian": Target(
            m.discrete_gaussian, plain | {"sigma": either(128, 200)}, tame=("sigma",), odd=odd, words=("shape",),
            weight=0.2,
        ),
        "discrete_laplace": Target(m.discrete_laplace, plain | {"rate": rate}, odd=odd, weight=0.2),
        "geometric": Target(m.geometric, plain | {"rate": rate}, odd=odd, weight=0.2),
        "outcome": Target(
            m.outcome, plain | {"probabilities": probabilities}, odd=odd | {"probabilities": wrong}, weight=0.2),
        "mechanisms.planar_laplace": Target(
            m.planar_laplace, {"key": key(), "count": either(1, 4), "rate": either(Fraction(1), Fraction(2))},
            tame=("count",), weight=0.2,
        ),
        "noisy_argmax": Target(m.noisy_argmax, {"key": key(), "scores": whole_scores, "rate": rate}, fixed=("scores",),
            **row),
        "exact_exponential": Target(
            m.exact_exponential, {"key": key(), "scores": whole_scores, "rate": rate}, fixed=("scores",), weight=0.2,
            **row
        ),
        "largest_score": Target(m.largest_score, {"rate": rate}, check=whole),
        "top": Target(m.top, {"rate": rate}, check=whole),
        "exponential_log_probabilities": Target(
            logs, {"scores": scores, "epsilon": positive, "sensitivity": positive},
            fixed=("scores", "epsilon", "sensitivity"),
            check=finite,
        ),
        "exponential": Target(
            m.exponential, {"key": key(), "scores": scores, "epsilon": positive, "sensitivity": positive},
            fixed=("scores", "epsilon", "sensitivity"), named=False, **row,
        ),
        "gaussian, in floats": Target(
            jax.jit(m.gaussian), {"key": key(), "value": scores, "standard_deviation": positive},
            fixed=("key", "value", "standard_deviation"), nan=True,
        ),
        "laplace, in floats": Target(
            jax.jit(m.laplace), {"key": key(), "value": scores, "scale": positive}, fixed=("key", "value", "scale"),
            nan=True
        ),
        "tables.digits": Target(tables.digits, {"rate": rate}, check=whole),
        "tables.geometric": Target(tables.geometric, {"rate": rate}),
        "tables.pad_geometric": Target(tables.pad_geometric, {"rate": rate}),
        "tables.geometric_variation": Target(tables.geometric_total_variation, {"rate": rate}, check=unit),
        "tables.gaussian_variation": Target(
            tables.gaussian_total_variation, {"sigma": either(1, 4, 31, 32, 4096)}, tame=("sigma",), check=unit
        ),
        "tables.ladder": Target(tables.ladder, {"rate": rate}),
        "tables.planar_variation": Target(tables.planar_total_variation, {"rate": either(Fraction(1), Fraction(2))},
            check=unit),
        "tables.choice": Target(tables.choice, {"probabilities": probabilities}, odd={"probabilities": wrong}),
    }  # fmt: skip
