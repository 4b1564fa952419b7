"""The register: what the four papers say, item by item, and how each claim is decided.

A row's rule, unit and margin were committed before the runs that the page counts, and a result holds these terms; the
page marks rows without such a run. Seeds of most first sets had been measured before, so the second and third sets
alone are blind. The page: docs/results/reproduction.md.
"""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from benchmarks.papers import measures, rules
from benchmarks.papers.rules import (
    BUILT,
    CORRECTED,
    FALSE,
    MENDED,
    PROVED,
    UNMEASURED,
    UNTRIED,
    Rule,
    above,
    at,
    at_most,
    below,
    every,
    negative,
)


class Claim(NamedTuple):
    """A sentence, a number, a theorem or an algorithm of a paper.

    Attributes:
      item: where the paper says so.
      says: what the paper says, in our words or its own.
      unit: what was drawn independently; "" for a row that no run decides.
      margin: the smallest difference that matters, in the units of the measurement.
      results: names of the results that the rule reads.
      rule: gives the measurement and the verdict; None for a row that no run decides.
      verdict: of a row that no run decides.
      why: the reason, or the counterexample.
      tests: the tests that show it, as ``file::function``.
    """

    item: str
    says: str
    unit: str = ""
    margin: float = 0.0
    results: tuple[str, ...] = ()
    rule: Rule | None = None
    verdict: str = ""
    why: str = ""
    tests: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """The name of the claim in a result's file."""
        return f"{self.item}: {self.says}"

    @property
    def terms(self) -> dict[str, object]:
        """What a run must not change: a result holds the terms that stood in the register when it ran."""
        return {"rule": self.rule.__name__ if self.rule else "", "unit": self.unit, "margin": self.margin}


def terms(result: str) -> dict[str, dict[str, object]]:
    """The terms of the claims that a result decides, by ``Claim.key``."""
    return {claim.key: claim.terms for claims in REGISTER.values() for claim in claims if result in claim.results}


def settle(item: str, says: str, verdict: str, why: str = "", *tests: str) -> Claim:
    """A row that no run decides."""
    return Claim(item, says, verdict=verdict, why=why, tests=tuple(map(_path, tests)))


def _path(test: str) -> str:
    """Of a test of the benchmarks, or of the package."""
    own = Path(__file__).parent.parent / "tests" / test.partition("::")[0]
    return f"benchmarks/tests/{test}" if own.exists() else f"tests/{test}"


def _fig4_row(first: str, second: str, margin: float, item: str, says: str) -> Claim:
    """Of figure 4, after the paper's 265 evaluations."""
    rule = below(at("final", first, "265"), at("final", second, "265"), margin)
    return Claim(item, says, "seed", margin, ("sopa_fig4",), rule)


def _fig3_row(first: str, second: str, item: str, says: str) -> Claim:
    rule = below(measures.last_losses(first), measures.last_losses(second), 0.05)
    return Claim(item, says, "split of the records", 0.05, ("sopa_fig3",), rule)


def _fig5_row(first: str, second: str, says: str) -> Claim:
    ends = [at("final", f"one Z for all users: {name}") for name in (first, second)]
    return Claim("figure 5", says, "seed", 0.02, ("sopa_fig5",), below(*ends, 0.02))


def _seed_values(name: str, mu: str) -> rules.Values:
    return at("by_seed", mu, name)


SEARCH, RIGHT, OVER, UNDER = "random search", "sigma=0.01", "sigma=1", "sigma=0.0001"
GIBO, FREE = "DP-GIBO, mu=1", "DP-GIBO, mu=inf"
START, END, LOSS = "distance at the start", "distance at the end", "excess loss at the end"
SOPA = (
    settle("theorem 2.4", "Gaussian noise of deviation GS / mu is mu-GDP", PROVED, "Dong et al. 2022",
           "test_accounting.py::test_delta_is_the_hockey_stick_divergence"),
    settle("corollary 2.5", "levels mu_t compose to the root of the sum of their squares", PROVED, "Dong et al. 2022",
           "test_accounting.py::test_composition_is_the_root_of_the_sum_of_squares_in_any_order"),
    settle("remark 2.6", "only the validation records are protected", PROVED, "the guarantee of a run says so",
           "test_guarantee.py"),
    settle("algorithm 1", "DP-GIBO", BUILT, "", "test_dp_gibo.py::test_a_run_is_the_oracles_step_by_step"),
    settle("lemma 3.1", "algorithm 1 is mu-GDP, for any losses", PROVED, "no attack measures more than mu",
           "test_dp_gibo.py::test_a_whole_run_leaks_mu_and_no_more"),
    settle("theorem 3.2", "the first term is 2 F_0 L / T for any step size up to 1 / L", FALSE,
           "a parabola and a small step; 2 F_0 / (step size T) is proved",
           "test_theory.py::test_theorem_3_2_holds_on_a_parabola_and_its_printed_form_does_not"),
    settle("theorem 3.3", "F_T falls geometrically to a radius", PROVED, "from lemma B.1",
           "test_theory.py::test_the_bounds_hold_over_noisy_biased_runs_and_need_their_noise_term"),
    settle("section 3.2", "for b > d each trace is 0", FALSE,
           "the trace is 0 only in the limit of vanishing distances",
           "test_gradient_design.py::test_without_noise_more_than_d_points_leave_a_trace_that_falls_with_their_distance"),
    settle("corollary 3.4", "the distance is at most sqrt(F_T / tau)", FALSE,
           "a parabola; sqrt(2 F_T / tau) is proved",
           "test_theory.py::test_corollary_3_4_holds_on_a_parabola_and_its_printed_form_does_not"),
    settle("remark 3.5", "under local assumptions the proofs reach a local minimum", UNTRIED,
           "no statement to check: no radius of a local assumption is given"),
    settle("algorithm 2", "the batch that reaches a tolerance", CORRECTED, "with a cap on the batch",
           "test_dp_gibo.py::test_algorithm_2_takes_the_smallest_batch_under_the_tolerance"),
    settle("section 3.2", "the trace generally decreases, and falls for points near earlier ones", UNTRIED,
           "nothing printed to compare with"),
    settle("section 3.3", "certainly b <= d + 1 in each iteration of algorithm 2", FALSE,
           "true only without noise, in the limit of vanishing distances",
           "test_dp_gibo.py::test_algorithm_2_flags_a_cap_that_binds"),
    settle("corollary 3.6", "theorems 3.2 and 3.3 with the tolerance for the traces", FALSE,
           "its first term is theorem 3.2's; with the proof's term it holds where no cap binds",
           "test_theory.py::test_corollary_3_6_bounds_every_run_whose_traces_keep_the_tolerance"),
    settle("section 3.4", "each of b T trainings has to be mu / (b sqrt(T))-GDP", FALSE,
           "mu / sqrt(b T) composes to mu by corollary 2.5, with sqrt(b) times less noise",
           "test_theory.py::test_trainings_of_section_3_4_compose_to_mu_with_less_noise_than_printed"),
    settle("section 3.4", "sigma^2 on the diagonal takes noisy losses into account", BUILT, "",
           "test_gradient.py::test_mean_is_a_dense_solve_for_each_user"),
    settle("remark 4.1", "AdaGrad on private gradients keeps the level", PROVED, "post-processing",
           "test_dp_gibo.py::test_adagrad_reads_the_private_gradients_alone_and_keeps_the_level"),
    settle("lemma A.1", "clipping brings a gradient no further from a true one in the ball", PROVED, "a projection",
           "test_theory.py::test_a_clipped_gradient_is_no_further_from_a_true_one"),
    settle("lemma A.2", "the bias is at most C sqrt(trace)", PROVED, "the bound is attained",
           "test_theory.py::test_the_bias_radius_is_attained"),
    settle("lemma A.3", "the noise of all steps is within 4 sqrt(d) + 2 sqrt(2 log(T / delta))", PROVED, "loosely",
           "test_theory.py::test_the_noise_stays_within_its_radius_as_often_as_it_says"),
    settle("lemma A.4", "all iterates stay in a ball around the minimiser", PROVED,
           "a step contracts the distance by 1 - step tau; the printed step, a smaller loss is nearer, is false",
           "test_theory.py::test_iterates_stay_in_a_ball_though_a_smaller_loss_may_be_further"),
    settle("lemma B.1", "the fall of the loss in a step", PROVED, "",
           "test_theory.py::test_the_bounds_hold_over_noisy_biased_runs_and_need_their_noise_term"),
    settle("theorem B.2", "with T of the order of d^(d + 1) and enough users F_T is below any level", UNTRIED,
           "its constants are not given; at d = 5 its T is more than 15,000 steps"),
    Claim("figure 1, top", "both estimates move to the maximum likelihood estimate", "seed", 0.1, ("sopa_fig1",),
          every(*(below(_seed_values(END, mu), _seed_values(START, mu), 0.1, f"mu = {mu}:") for mu in ("0.5", "2")))),
    Claim("figure 1, top", "at mu = 0.5 the path oscillates more than at mu = 2", "seed", 0.01, ("sopa_fig1",),
          below(_seed_values("oscillation, last half", "2"), _seed_values("oscillation, last half", "0.5"), 0.01)),
    Claim("figure 1, middle", "at mu = 2 the loss ends below mu = 0.5", "seed", 0.01, ("sopa_fig1",),
          below(_seed_values(LOSS, "2"), _seed_values(LOSS, "0.5"), 0.01)),
    Claim("figure 1, bottom", "at mu = 0.5 the bias is negligible beside the noise (a tenth here)", "seed", 0.02,
          ("sopa_fig1",), at_most(_seed_values("bias over noise, last half", "0.5"), 0.1, 0.02)),
    Claim("figure 2, top", "DP-GIBO ends as near as DP-GD: the log of the ratio", "seed", 0.2, ("sopa_fig2",),
          rules.equal(measures.log_ratio_at_the_end, 0.2)),
    Claim("figure 2, top", "DP-GIBO lags a little: steps to halve the distance", "seed", 1.0, ("sopa_fig2",),
          below(*(at("by_seed", "step that halves the distance", name) for name in ("DP-GD", "DP-GIBO")), 1.0,
                "DP-GD minus DP-GIBO")),
    Claim("figure 2, bottom", "at the start the estimated gradient, before noise, is below the true one: its log",
          "seed", 0.05, ("sopa_fig2",),
          negative(at("by_seed", "log of the surrogate norm over the true one, steps 1 to 5"), 0.05)),
    Claim("figure 2, bottom", "at the start the released gradient, noise included, is below the true one: its log",
          "seed", 0.05,
          ("sopa_fig2",), negative(at("by_seed", "log of the estimated norm over the true one, steps 1 to 5"), 0.05)),
    Claim("section 4.2", "gradient descent without privacy converges to the true value (within 0.05)", "seed", 0.01,
          ("sopa_fig2",), at_most(at("by_seed", "distance to the truth at the end", "gradient descent"), 0.05,
              0.01)),
    settle("section 4.2", "geometrically vanishing errors, as in theorem 3.2", FALSE,
           "theorem 3.2 falls as 1 / T; theorem 3.3 is the geometric one",
           "test_theory.py::test_theorem_3_2_is_its_formula",
           "test_theory.py::test_theorem_3_3_is_its_recursion_unrolled"),
    settle("appendix C.2", "B = 1 bounds the gradients", FALSE, "their supremum is sqrt(2)",
           "test_theory.py::test_huber_regression_s_gradients_reach_sqrt_2_and_no_more"),
    _fig3_row(GIBO, SEARCH, "figure 3", "DP-GIBO, mu = 1, ends below random search"),
    _fig3_row(FREE, SEARCH, "figure 3", "DP-GIBO, mu = inf, ends below random search"),
    _fig3_row(FREE, GIBO, "figure 3", "mu = inf ends below mu = 1"),
    _fig4_row("1", SEARCH, 0.02, "figure 4, top", "DP-GIBO, mu = 1, ends below random search"),
    _fig4_row("1", "GP-UCB", 0.02, "figure 4, top", "DP-GIBO, mu = 1, ends below GP-UCB"),
    _fig4_row("inf", "0.1", 0.02, "figure 4, bottom",
              "the largest budget ends below the smallest (drawn; no sentence)"),
    settle("appendix C.3", "T = 25 and b = 11 are 265 evaluations", FALSE, "25 x 11 = 275",
           "test_benchmarks.py::test_figure_4_reads_every_method_at_both_counts"),
    _fig5_row(RIGHT, OVER, "DP-GIBO ends lower with the right deviation of the noise than with too large a deviation"),
    _fig5_row(RIGHT, UNDER,
              "DP-GIBO ends lower with the right deviation of the noise than with too small a deviation"),
    _fig5_row(OVER, SEARCH, "with too large a deviation DP-GIBO is viable: below random search"),
    _fig5_row(SEARCH, UNDER, "with too small a deviation DP-GIBO ends above random search"),
)  # fmt: skip

POINT, CHANCE = "DP-GP-UCB", "random choice"
GAIN = "gain_of_the_last_step_to_the_largest_correlation"
KUSNER = (
    settle("theorem 1", "a bound on how far the posterior mean moves, with probability 1 - delta over the prior",
           PROVED,
           "a tighter one, from the bounds of the last step alone",
           "test_dp_gp_ucb_theory.py::test_the_sensitivities_hold_on_two_thousand_neighbouring_draws"),
    settle("corollary 1", "the point of algorithm 1 is (epsilon, delta)-DP", FALSE,
           "delta is a probability over the prior for a fixed pair of data sets: DP is about the worst pair",
           "test_dp_gp_ucb.py::test_a_worst_pair_breaks_corollaries_1_to_3"),
    settle("theorem 2", "the point is near-optimal, with high probability", MENDED, "with corrected constants",
           "test_theory.py::test_the_utility_of_the_released_point"),
    settle("theorem 3", "the largest observation moves by at most Omega + c + q with probability 1 - delta", FALSE,
           "the step of the largest observation is chosen for its noise",
           "test_dp_gp_ucb_theory.py::test_the_one_gaussian_bound_of_the_printed_theorem_3_fails"),
    settle("corollary 2", "the value of algorithm 1 is (epsilon, delta)-DP", FALSE, "as corollary 1",
           "test_dp_gp_ucb.py::test_a_worst_pair_breaks_corollaries_1_to_3"),
    settle("theorem 4", "the released value is near the largest one", MENDED, "with theorem 3's corrected constants",
           "test_theory.py::test_the_utility_of_the_released_value"),
    settle("section 3.2", "point and value together are (2 epsilon, 2 delta)-DP", FALSE, "as corollary 1",
           "test_dp_gp_ucb.py::test_a_worst_pair_breaks_corollaries_1_to_3"),
    settle("theorem 5", "theorem 3 for exact observations", FALSE,
           "the constants depend on the utility, and from four dimensions on the exponent is least after t = 2",
           "test_dp_gp_ucb_theory.py::test_the_decay_of_de_freitas_is_used_where_it_decays"),
    settle("corollary 3", "the value of algorithm 2 is (epsilon, delta)-DP", FALSE, "as corollary 1",
           "test_dp_gp_ucb.py::test_a_worst_pair_breaks_corollaries_1_to_3"),
    settle("theorem 6", "theorem 4 for exact observations", PROVED, "given a bound on the regret",
           "test_dp_gp_ucb_theory.py::test_regret_is_within_its_bounds",
           "test_theory.py::test_the_utility_of_the_released_value"),
    settle("theorem 7", "one user moves the gain of one model by at most L^2 / lambda", FALSE,
           "a hinge loss and a flipped label move it by 2 L^2 / lambda",
           "test_dp_gp_ucb_theory.py::test_theorem_7_is_attained_by_hinge_losses_and_a_smaller_bound_is_exceeded"),
    settle("corollary 4", "algorithm 3 is epsilon-DP", FALSE, "by theorem 7; with the factor 2 it is proved",
           "test_dp_gp_ucb_gains.py::test_neighbours_whose_searches_part_are_within_the_sensitivity"),
    settle("theorem 8", "the released value is near the best, by the tail of the Laplace law", PROVED,
           "given the sensitivity", "test_mechanisms.py::test_laplace_tails_are_exponential"),
    settle("algorithm 1", "DP-GP-UCB with noisy observations", CORRECTED, "with corrected constants",
           "test_dp_gp_ucb.py::test_the_picks_and_the_scores_are_the_oracles"),
    settle("algorithm 2", "DP-GP-UCB with exact observations", CORRECTED, "with corrected constants",
           "test_dp_gp_ucb.py::test_the_picks_and_the_scores_are_the_oracles"),
    settle("algorithm 3", "any search over lambda, and Laplace noise on the best gain", CORRECTED, "with the factor 2",
           "test_dp_gp_ucb_gains.py::test_the_maximum_along_any_two_paths_is_within_the_bound"),
    Claim("figure 1",
          "the largest correlations of the grid are the likeliest (the text at hand has lost the grid: ours "
          "ends at 0.95)", "validation set", 0.1, ("kusner_fig1",),
          every(*(above(at(GAIN, size), 0.0, 0.1, f"{size} records, gain:") for size in ("1000", "15000")))),
    settle("section 6", "at large correlations the sensitivity is quite small: private values are near optimal", FALSE,
           "at correlation 1 the bound is still 2 sqrt(beta), wider than the range of the utilities",
           "test_dp_gp_ucb.py::test_at_correlation_one_the_sensitivity_is_still_wider_than_the_utilities"),
    Claim("abstract", "the released point sacrifices a tiny amount: a tenth of what a random choice loses (our number)",
          "split of the records", 0.005, ("kusner_regret",),
          every(*(negative(measures.beyond_a_tenth(problem), 0.005, f"{problem}:")
                  for problem in ("logistic", "lengthscales", "svm")))),
    Claim("abstract",
          "the released point loses a tiny amount: at epsilon = 1 algorithm 2 is better than a random choice",
          "split of the records", 0.005, ("kusner_regret",),
          every(*(below(*(at("by_seed", problem, name) for name in (POINT, CHANCE)), 0.005, f"{problem}:")
                  for problem in ("logistic", "lengthscales", "svm")))),
)  # fmt: skip


ONE_FUNCTION = "the paper's are of one function, which is not given"
HARD = 2.0  # a search without privacy that ends above so many times the largest printed regret measures nothing


def _table_rows(first: int, what: str, largest: float, data: str) -> tuple[Claim, ...]:
    """Tables that share their draws are one piece of evidence."""
    names = tuple(f"kharkovskii_table{number}" for number in range(first, first + 3))

    def rows(where: str, at_which: str) -> tuple[Claim, ...]:
        def row(side: str, says: str) -> Claim:
            rule = negative(measures.over_tables(side, where), 0.005, "the rule's largest r minus the others")
            if data == "properties":
                rule = measures.unless_hard(rule, measures.without_privacy_in_tables, largest, HARD)
            return Claim(f"tables {first} to {first + 2}", f"{what}{at_which}: {says}", "run", 0.005, names, rule)

        return (
            row("smaller", "smaller r than the rule's largest leave more regret, in the mean"),
            row("larger", "larger r than the rule's largest leave more regret, in the mean"),
        )

    claims = rows("above_the_printed_best", "")
    if data == "synthetic":
        return claims
    return claims + rows("above_the_printed_best_at_the_printed_epsilon", ", at the printed epsilons")


def _panel_rows(panel: str, what: str, gaps: tuple[float, ...], largest: float) -> tuple[Claim, ...]:
    def rows(where: str, at_which: str) -> tuple[Claim, ...]:
        ordered, apart = (
            measures.falls_with_epsilon(panel, 0.01, where),
            measures.printed_gaps(panel, gaps, 0.01, where),
        )
        if panel == "c":
            free = measures.without_privacy(panel)
            ordered, apart = (measures.unless_hard(rule, free, largest, HARD) for rule in (ordered, apart))
        fields = {"item": f"figure 2{panel}", "unit": "run", "margin": 0.01, "results": ("kharkovskii_fig2",)}
        printed = f"{what}{at_which}: regret beyond a search without privacy is as printed"
        return (
            Claim(says=f"{what}{at_which}: regret falls as epsilon grows", rule=ordered, **fields),
            settle(fields["item"], printed, UNMEASURED, ONE_FUNCTION)
            if panel == "a"
            else Claim(says=printed, rule=apart, **fields),
        )

    claims = rows("final", "" if panel == "a" else ", at budgets by the rule")
    return claims if panel == "a" else claims + rows("final_at_printed_epsilons", ", at the printed epsilons")


KHARKOVSKII = (
    settle("lemma 1", "a projection on r columns keeps all squared distances within 1 +- nu", PROVED, "",
           "test_theory.py::test_distances_keep_within_lemma_1_and_theorem_2"),
    settle("remark 1", "a smaller r means a larger distortion", PROVED, "of the bound of lemma 1",
           "test_theory.py::test_a_smaller_rank_allows_a_larger_distortion_and_a_larger_failure_alone"),
    settle("algorithm 1", "the curator's transform", BUILT, "",
           "test_transforms.py::test_the_published_transform_is_algorithm_1"),
    settle("theorem 1", "algorithm 1 is (epsilon, delta)-DP", FALSE, "the supports of neighbours are disjoint",
           "test_transform_attacks.py::test_the_attack_tells_neighbours_of_the_published_transform_apart"),
    settle("theorem 2", "distances after the transform, in both branches", PROVED,
           "where the singular values are not 0",
           "test_theory.py::test_distances_keep_within_lemma_1_and_theorem_2"),
    settle("algorithm 2", "the modeler's search", BUILT, "", "test_po_gp_ucb.py::test_the_picks_are_the_oracles"),
    settle("theorem 3", "the regret under diagonal dominance", UNTRIED,
           "its constants are orders of magnitude (O(...)); the formula is there, to be read",
           "test_theory.py::test_diagonal_dominance_and_the_regret_bound_by_hand"),
    settle("remark 2", "below the threshold the regret bound is looser", PROVED, "theorem 2 has a larger factor there",
           "test_theory.py::test_distances_keep_within_lemma_1_and_theorem_2"),
    settle("remark 3", "Kusner et al. do not give any regret bound", FALSE,
           "their theorems 2, 4 and 6 bound how far the release is from the optimum",
           "test_theory.py::test_the_utility_of_the_released_point"),
    settle("remark 4", "the regret bound depends on epsilon through the threshold alone", PROVED,
           "where the data reach the threshold; below, theorem 2's factor has epsilon in the threshold (B.5 is lost)",
           "test_theory.py::test_epsilon_enters_the_regret_by_the_threshold_alone"),
    settle("remark 6", "the regret bound below the threshold (cited in remark 2)", UNTRIED,
           "the text at hand has lost appendix B.5"),
    settle("footnote 7", "a larger epsilon than the rule needs changes nothing", PROVED,
           "the first branch has no epsilon",
           "test_transforms.py::test_the_published_transform_is_algorithm_1"),
    settle("figure 1", "a drawing of the setting", UNTRIED, "nothing to measure"),
    *_panel_rows("a", "a synthetic grid", (0.011, 0.069, 0.099), 0.142),
    *_panel_rows("b", "loans", (0.003, 0.019, 0.05), 0.127),
    *_panel_rows("c", "houses", (0.051, 0.017, 0.082), 0.682),
    *_table_rows(1, "a synthetic grid", 0.142, "synthetic"),
    *_table_rows(4, "loans", 0.127, "loans"),
    *_table_rows(7, "houses", 0.682, "properties"),
    settle("tables 1 to 3", "the regrets themselves", UNMEASURED, ONE_FUNCTION),
    Claim("tables 1 to 3", "the largest r of the rule is 10, 15 and 20", "none: the grid is fixed", 0.0,
          ("kharkovskii_table1", "kharkovskii_table2", "kharkovskii_table3"), measures.largest_ranks),
    settle("tables 4 to 9", "the regrets themselves", UNMEASURED, "the paper's rows are not to be had"),
    settle("appendix A", "Branin-Hoo", UNTRIED, "the text at hand has lost the appendix; our run stands alone"),
)  # fmt: skip

ADULT = ("LogReg+SGD", "LogReg+Adam", "SVM+SGD")
TABLE2, LUCK, SEARCHES = "avent_table2", "avent_luck", "search"


def _task_rows(
    item: str, says: str, results: tuple[str, ...], margin: float, rule: Callable[[str], Rule], unit: str = SEARCHES
) -> tuple[Claim, ...]:
    return tuple(Claim(item, f"{says}, {task}", unit, margin, results, rule(task)) for task in ADULT)


ABOVE = "DPareto's front is above random settings'"


def _moves(*axes: str) -> Rule:
    """Each axis of figure 1 moves each oracle, the other axis fixed."""
    least = {"log10 epsilon": (0.3, 0.1), "error": (0.01, 0.002)}
    return every(
        *(
            above(at("by_seed", "range", axis, name), *limits, f"{axis}, range of {name}:")
            for axis in axes
            for name, limits in least.items()
        )
    )


def _points(*axes: tuple[str, int]) -> Rule:
    """Each axis of figure 2 moves epsilon in a direction, 1 or -1, and the error in the other direction."""

    def axis_rule(axis: str, name: str, direction: int) -> Rule:
        values, label = at("by_seed", "correlation", axis, name), f"{axis} with {name}:"
        return above(values, 0.3, 0.05, label) if direction > 0 else at_most(values, -0.3, 0.05, label)

    return every(
        *(
            axis_rule(axis, name, direction * sign)
            for axis, direction in axes
            for name, sign in (("log10 epsilon", 1), ("error", -1))
        )
    )


AVENT = (
    settle("remark 1", "the privacy oracle for a fixed delta", BUILT, "by our accountant",
           "test_training_oracles.py::test_the_privacy_oracle_is_the_accountant_of_what_is_run"),
    settle("remark 2", "the utility oracle by repeated runs", BUILT, "",
           "test_training_oracles.py::test_the_objective_is_both_oracles_at_one_setting"),
    settle("algorithm 1", "the sparse vector technique", CORRECTED, "with a whole number of answers",
           "test_training_oracles.py::test_the_sparse_vector_technique_is_the_papers_loop"),
    settle("appendix B", "algorithm 1 is (1 + (2 C)^(1/3)) (1 + (2 C)^(2/3)) / b - DP", PROVED, "for whole C",
           "test_sampling_accounting.py::test_the_sparse_vectors_split_spends_what_it_says",
           "test_training_oracles.py::test_between_whole_numbers_the_papers_loop_spends_more_than_its_formula"),
    settle("algorithm 5", "the sparse vector technique of Lyu et al., of which algorithm 1 is a case", UNTRIED,
           "its proof is cited, and only algorithm 1 is built"),
    settle("section 3.3", "C may be drawn from an interval", FALSE,
           "with C = 1.5 the loop releases two answers, and spends a fifth more than the formula of appendix B",
           "test_training_oracles.py::test_between_whole_numbers_the_papers_loop_spends_more_than_its_formula"),
    settle("algorithm 2", "DPareto", BUILT, "",
           "test_dpareto.py::test_the_surrogates_are_fitted_from_the_last_seed_on",
           "test_dpareto.py::test_it_finds_more_than_random_settings_do"),
    settle("equation 3", "the gain of the hypervolume times the probability of improvement", BUILT, "",
           "test_pareto.py::test_what_a_point_gains_is_the_difference_of_hypervolumes",
           "test_pareto.py::test_expectations_are_those_of_simulation"),
    settle("algorithm 3", "DP-SGD with lots of fixed size and noise of deviation 2 L sigma / m", BUILT, "",
           "test_training.py::test_the_whole_training_is_the_oracles",
           "test_training.py::test_lots_are_uniform_subsets_drawn_anew",
           "test_training.py::test_the_noise_is_twice_the_clip_norm_times_the_multiplier_over_the_batch"),
    settle("algorithm 4", "DP-Adam, with the lots and the noise of algorithm 3", BUILT, "",
           "test_training.py::test_the_whole_training_is_the_oracles"),
    settle("section 4.2", "a changed record moves the mean gradient by L / m at most", FALSE,
           "a record of opposite gradient moves it by 2 L / m",
           "test_training.py::test_a_record_of_opposite_gradient_moves_the_sum_by_twice_the_clip_norm"),
    settle("tables 1, 3 and 4", "domains and laws of the hyper-parameters", BUILT, "",
           "test_training_oracles.py::test_spaces_are_those_of_the_papers_experiments"),
    settle("section 4.1", "these laws find significantly better fronts than uniform ones", UNTRIED,
           "a pool of uniform settings takes an hour more for each task"),
    settle("section 3", "a front may be shown to trusted people alone", BUILT, "a run's guarantee is \"none\"",
           "test_dpareto.py::test_a_front_has_no_guarantee_and_says_why"),
    Claim("figure 1", "both hyper-parameters affect privacy (by a formula, twofold here) and accuracy (0.01 here)",
          "grid", 0.002,
          ("avent_fig1",), _moves("log10 regularisation", "log10 noise")),
    Claim("figure 2", "more noise and fewer answers: more private, less accurate (Kendall's correlation)", "grid", 0.05,
          ("avent_fig2",), _points(("log10 noise", -1), ("answers", 1))),
    Claim("figure 3", "250 random settings sit almost exactly on the front but for epsilon < 0.01: "
          "error above the front's below 0.01", "design", 0.002, ("avent_fig3",),
          at_most(at("by_seed", "error above the front's, mean over epsilons"), 0.01, 0.002)),
    Claim("figure 4", "250 random settings sit close to the front: error above the front's below 0.02", "design", 0.002,
          ("avent_fig4",), at_most(at("by_seed", "error above the front's, mean over epsilons"), 0.02, 0.002)),
    *_task_rows("figure 5, top", ABOVE, (TABLE2, LUCK), 0.005,
                lambda task: measures.searches_above_parts(f"{task}, ours", 0.005)),
    Claim("figure 5, top", f"{ABOVE}, MLP2+SGD", SEARCHES, 0.005, (TABLE2, LUCK),
          measures.searches_above_parts("MLP2+SGD, ours", 0.005)),
    Claim("figure 5, bottom left", "DPareto explores small epsilons that random settings miss, MLP2", SEARCHES, 0.0,
          ("avent_fig5",), measures.explores_small_epsilons),
    Claim("figure 5, bottom right", "nearly all of DPareto's points are close to the front, many random ones are not",
          SEARCHES, 0.0, ("avent_fig5",), measures.near_the_front),
    settle("figure 5, bottom right", "256 settings of DPareto and 1500 random ones have similar fronts", UNTRIED,
           "similar by what measure is not said"),
    settle("figure 3", "the surrogates model the oracles well where noise and regularisation are high", UNTRIED,
           "well by what measure is not said; the picture is in the results"),
    *_task_rows("table 2", "the difference is the printed one", (TABLE2, LUCK), 0.05,
                lambda task: measures.printed_difference(f"{task}, the paper's", 0.05)),
    *_task_rows("table 2", "p < 0.001 for one search against parts of random settings", (TABLE2,), 0.0,
                lambda task: measures.significant_for_one_search(f"{task}, the paper's", 1e-3),
                "part of the random settings"),
    *_task_rows("table 2", "p < 0.001 for searches from ten seeds (Welch's test)", (TABLE2, LUCK), 0.0,
                lambda task: measures.significant_for_searches(f"{task}, the paper's", 1e-3)),
    *_task_rows("figure 6", "DPareto's front is above the grids'", ("avent_fig6", LUCK), 0.005,
                lambda task: measures.above_grids(task, 0.005)),
    *_task_rows("figure 7", "errors vary more at small epsilons", ("avent_fig7",), 0.0, measures.spread_by_epsilon),
    Claim("figure 8, left", "logistic regression by Adam has the best hypervolume", SEARCHES, 0.005, (LUCK,),
          measures.best_of_all("LogReg+Adam", ("LogReg+SGD", "SVM+SGD"), 0.005)),
    Claim("figure 8, left", "logistic regression by Adam is nearly always the best", SEARCHES, 0.0, ("avent_fig8",),
          measures.adam_nearly_always_best),
    settle("figure 8, right", "MLP2 is better than MLP1 at small epsilons, and the same at large ones", UNTRIED,
           "272 trainings of MLP1 take most of a day on this machine"),
    Claim("section 4.3", "a search takes about 45 s besides its trainings", "search", 0.0, ("avent_overhead",),
          measures.on_another_machine(measures.seconds_of_a_search, "s, on another machine")),
    Claim("section 4.3", "a search takes less than 0.1 % of the time on Adult", "search", 0.0, ("avent_overhead",),
          measures.on_another_machine(measures.share_of_the_time, "of the time; our trainings are faster, and one is "
                                      "timed (45 s are 0.1 % of 12.5 hours)")),
    settle("section 4.3", "a search takes less than 0.01 % of the time on MNIST", UNTRIED,
           "needs the trainings of MLP1 at their full epochs"),
)  # fmt: skip

REGISTER = {"sopa": SOPA, "kusner": KUSNER, "kharkovskii": KHARKOVSKII, "avent": AVENT}
