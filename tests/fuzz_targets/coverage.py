"""Which public functions of the package the rows call, and why the others have none."""

import dis
import functools
import importlib
import inspect
import pkgutil
import types
from collections.abc import Callable, Iterator
from typing import Any

import jaxdpbo

PACKAGE = "jaxdpbo."
HELPERS = {
    "arrays",
    "checks",
    "files",
    "namespace",
    "silence",
    "user_values",
    "accounting.grid",
    "tuning.fitting",
    "tuning.labels",
    "tuning.other_trainings",
}

# Why a public function has no row -> which, by module. A function that is gone or has a row may not stand here.
EXEMPT: dict[str, dict[str, str]] = {
    "an algorithm's five functions: the rows of the drivers, and the row `tell of` each": {
        "algorithms.dp_gd": "init ask contribute survey refine perturb tell inform release privacy",
        "algorithms.dp_gibo.contribution": "remember contribute survey refine perturb",
        "algorithms.dp_gibo.run": "init ask remask tell inform release privacy set_start",
        "algorithms.dp_gp_ucb.run": "init ask tell release privacy",
        "algorithms.dpareto.run": "init ask tell release privacy",
        "algorithms.gp_ucb": "init ask tell release privacy",
        "algorithms.po_gp_ucb": "init ask tell release privacy",
        "algorithms.private_evaluations.run": "remember history contribute perturb inform privacy",
        "algorithms.private_evaluations.private_estimate": "privacy",
        "algorithms.private_linear": "init ask contribute perturb tell inform release privacy",
        "algorithms.random_search": "init ask tell release privacy",
        "types": "history expect_history",
        "drivers.compiled_steps": "ask release run_keys step_keys tell",
    },
    "messages among silos, in tests/test_silos.py": {
        "silos.agreement": "agree make_zeros",
        "silos.conversation": "converse parse_status",
        "silos.coordinator": "find_progress run_silos",
        "silos.masks": "generate_key make_mask public_key",
        "silos.messages": "find_step parse_request read_leaves write_leaves",
        "silos.roster": (
            "create_identity decode_key identity_path is_signed load_card load_roster make_roster parse_roster sign"
        ),
        "silos.serving": "ask_status run_on_sockets",
        "silos.silo": "is_proof verify",
        "silos.sockets": (
            "answer_until_failure forward listen parse_answer parse_card parse_credential receive send serve_silo"
        ),
        "silos.sums": "sums_of",
        "silos.terms": "load_agreement save_agreement",
    },
    "JSON of others, in tests/test_hostile_bytes.py": {"ledger.ledger_file": "has_fields parse_fields parse_json"},
    "messages of Flower, in tests/systems/flower.py": {
        "integrations.flower.apps": "client_app run_on_grid",
    },
    "inside the rows of the drivers": {
        "drivers.execution": "check_execution is_set refuse_options",
        "drivers.loop": "loop_prepared refuse_on_table",
        "drivers.scan": "scan_prepared",
        "noise.guard": "guard_noise",
    },
    "inside the rows of the selections": {
        "accounting.selection": "exponent generating_function",
    },
    "traced: arrays of a checked config, inside the rows of the drivers": {
        "algorithms.dp_gibo.contribution": "current_clip_norm",
        "algorithms.dp_gp_ucb.gains": "clip_gains score_gains round_gains unit largest_gain",
        "algorithms.dp_gp_ucb.run": "beta best scores terms",
        "algorithms.dpareto.configs": "snap to_units to_points",
        "algorithms.dpareto.surrogates": (
            "transform_values standardise_values fit_models surrogate_posterior condition_surrogates "
            "predict_standard propose undominated_region standard_improvement"
        ),
        "algorithms.gp_ucb": "beta standardise_utilities",
        "drivers.compiled_run": "begin contribute finish perturb_total recall pure_run run_steps map_points",
        "noise.clipping": "l2_norms clip_and_sum sum_clipped_vectors quantise reach grid_step",
        "noise.choice": "choose_row sum_losses draw scores relative_losses",
        "noise.private_mean": (
            "perturb_vectors mean_of_vectors noisy_mean_loss clip_losses sum_clipped_losses perturb_losses "
            "mean_of_losses skip_noise loss_deviation"
        ),
        "noise.private_scale": "median count_differences median_of_counts largest_differences",
        "noise.mechanisms.discrete_noise": "geometric_from_table discrete_laplace_from_table is_at_least",
        "transforms.curation": "project",
        "surrogate.acquisition": (
            "ucb upper_bound expected_improvement log_expected_improvement q_log_expected_improvement "
            "probability_of_improvement gained_hypervolume hvpoi "
            "log_hvpoi expected_hypervolume_improvement log_ehvi"
        ),
        "surrogate.descent": "move answer",
        "surrogate.finite_gp": "prior observe",
        "surrogate.gp": (
            "jitter noise empty covariance append extension extend stages apply_to_stage write whiten solve "
            "mask_rows cross_covariance nearest room_for stage_index predict predictor predict_outputs joint_posterior "
            "sample_posterior log_marginal_likelihood log_density inverse_factor"
        ),
        "surrogate.gradient": (
            "cross prior_covariance weights gradient_covariance gradient_information gradient_posterior "
            "information_gain information_gain_and_gradient mean_gradients"
        ),
        "surrogate.gradient_design": "directions propose_points propose_batch propose_fewest",
        "surrogate.kernels": (
            "stationary_params_from_box constant constant_params warp_params add multiply of_space on_categories "
            "on_columns on_moved warp "
            "matern32 matern52 polynomial gram gram_of_many gram_around row diagonal"
        ),
        "surrogate.entry": "compiled expect_shapes",
        "surrogate.preprocessing": "square_root unstandardize warp_inputs",
        "surrogate.box_search": (
            "best_candidate tie_tolerance ascend multi_start sample_and_ascend ascend_from_best search_box"
        ),
        "surrogate.noisy_inputs": "make_kernel noisy_rbf product_rbf named_cells number_rows",
        "surrogate.batched_gp": "stack unstack prior extend covariance whiten predict fit stages likelihood",
        "surrogate.two_task": "two_task_log_likelihood",
        "training.integer_sums": "integer_examples expect exact_gradient_sum largest_sum_radius",
        "training.models": "init_params model_scores losses accuracy gradient_sum passes squared_norms",
        "training.sampling": "empty_history random_words draw_batches",
    },
    "on the host, with what a checked caller made": {
        "algorithms.dp_gp_ucb.configs": "split_budget noise_assumptions unit_prior canonical_config",
        "algorithms.private_evaluations.configs": "check_loss_range deviation",
        "algorithms.private_evaluations.run": "make_algorithm",
        "phases": "make_algorithm",
        "algorithms.private_linear": "level slope_unit default_clip_norm",
        "noise.integer_products": "sum_products",
        "noise.choice": "level pure_level",
        "noise.private_scale": "level total_variation clip_norm users_needed is_scale",
        "drivers.recorded_run": (
            "begin_record begin_once begin_with_file note_step store_state record_release load_release make_subject "
            "begin_journal describe_run identify_loss"
        ),
        "drivers.methods": "levels add_estimate has_private_range",
        "drivers.previews": "step_deviation percent",
        "drivers.public_search": "propose",
        "drivers.proposals": "propose",
        "drivers.result": (
            "state_guarantee check_info expect_host expect_no_mean to_arrays raise_on_failed_factorisation "
            "name_params to_numpy dimension"
        ),
        "space.boxes": "box is_named place",
        "space.constraints": "check_constraints",
        "space.designs": "sobol",
        "space.dimensions": "encode_label is_same_scalar label_of make_label one_choice snap_column",
        "space.named_space": "by_name copy_objects imputation is_list_of_dicts middles refuse_branches relabel spread",
        "space.trees": "check_names flatten is_in make_branches make_dimension read_tables",
        "outsourcing.protocol": "sender parse_integer expect_schema quote",
        "accounting.rounded_gaussian": "root_above round_up",
        "accounting.renyi": (
            "pair_epsilon pair_divergences published_divergence published_epsilon renyi_epsilon renyi_delta "
            "privacy_loss panels rule log_sum"
        ),
        "accounting.sampling": "profile_epsilon discretise_loss deviation fits step_delta",
        "guarantee.guarantees": "expect_gdp complete_assumptions",
        "noise.calibration": (
            "split_levels grid noise_settings join_settings same_noise describe_noise_change units "
            "quantise_scores grid_unit"
        ),
        "ledger.ledger_file": (
            "charge_all expect_charge find_charge find_place list_grants mark_warning read_identity read_id show_place"
        ),
        "ledger.sql_store": "open_rows",
        "guarantee.recording": (
            "charge_once charge_together expect_first expect_run hold_interrupts to_text notion is_released store_cost "
        ),
        "noise.keys": "refuse_trace is_secret_kind generator",
        "ledger.fingerprints": "version",
        "accounting.requested_budget": "usual_delta",
        "noise.wide_integers": "from_int64 to_int64 shift_left",
        "drivers.table_scan": (
            "can_speak trace expect_like expect_users flatten is_wide places_of take total_of_values unflatten "
            "zeros_of_shapes"
        ),
        "drivers.users": "make_users",
        "drivers.minimization": "count_users to_traceable",
        "drivers.owner_check": "check points_of table_losses",
        "transforms.curation": "check",
        "tables.table": "add_batches batches batch_shapes call describe narrowing_notes notes select_names",
        "tables.sources": "check_sources columns_of_path wide_columns",
        "tables.identity": "expect_files_once find_link find_repeated identify list_files local_path without_secrets",
        "tables.arrow": (
            "expect_ids is_integer shape_of is_plain_number is_text is_wide to_columns to_people "
            "to_persons to_numbers to_values places expect_numbers unit_of"
        ),
        "tables.hashed_ids": "hashed siphash",
        "tables.spill": "check_folder write_spill",
        "tables.people": "check_people count_left_out expect_ids group_rows join ranges row_shapes "
        "split_rows to_persons",
        "tables.engine": "add_partitions expect_pickled expect_travels versions",
        "noise.mechanisms.tables": "discrete_gaussian gaussian planar truth",
        "transforms.configs": "step limit rounding_bound",
        "separable.blocks": "cut number_owners usual_count",
        "surrogate.information_gain": "greedy_gain gain_bound gain_bound_of_box",
        "tuning.joint_tuning": "tune_table",
        "tuning.repetition": "table",
        "tuning.selection": (
            "check_settings check_cap timing_assumption selection_guarantees base_guarantees add_attained "
            "charge_selection best_run select seed_globals own_output"
        ),
        "tuning.training": "noise_for check_setting",
        "tuning.opacus": "stack",
    },
    "numbers of a checked caller in one expression: tests/test_sensitivity.py": {
        "sensitivity": (
            "clipped_sum integer_sum gram_squared largest_radius mean_loss count between_scores add_computation_error "
            "gains_in_order gains_anywhere gains_along_lambda cells_apart row_l1 cells_l1 rounding_l2 "
            "cells_fit projected_row"
        ),
    },
    "a command's parts, behind argparse: tests/test_commands.py": {
        "commands": "main",
        "commands.curator": (
            "add_arguments run check parse_numbers example read_table load_function serve_all open_record "
            "choose_transform serve"
        ),
        "commands.csv_rows": "parse",
        "commands.demo": (
            "add_arguments run compare run_seed run_gibo run_evaluations run_random_search show "
            "describe_privacy publication best_so_far plot"
        ),
        "commands.ledger": "add_arguments place run",
        "commands.silo": "add_arguments run",
        "commands.modeler": "add_arguments run meet start talk",
        "commands.streams": "take_streams",
        "commands.tables": "print_table",
        "commands.tune": "add_arguments run read prepare halves",
    },
    "needs an engine: tests/systems/engines.py": {
        "tables.ray_table": "ray",
        "tables.spark_table": "spark",
        "tables.beam_table": "beam guard_stages",
    },
    "of trials that a study holds: tests/test_optuna.py": {
        "integrations.optuna.coordinates": "count_values encode decode",
        "integrations.optuna.samplers": "noise_deviation observation_posterior",
        "integrations.optuna.study": "observations",
        "integrations.optuna.rehearsal": "rehearse",
        "integrations.optuna.spaces": "suggest params evaluated expect_different",
    },
    "of an estimator that anybody may have written: tests/test_sklearn.py": {
        "integrations.sklearn.losses": "resolve_loss expect to_column record_losses elements beside usual_range",
        "integrations.sklearn.splits": "single_split split_training_rows",
        "integrations.sklearn.fitting": "blocks_objective expect_one_kind take_rows clone_with_params validation_task",
        "integrations.sklearn.scaling": "scale find_exponent",
        "integrations.sklearn.argument_errors": "advice expect_given expect_response model_advice raise_together",
    },
    "of a table that anybody may have written: tests/test_private_models.py": {
        "integrations.sklearn.columns": (
            "make_encoding encode feature_names unit_features layer_of_weights is_private is_for_all public_columns"
        ),
        "not_private": "make_check count_cells count_narrowed count_losses loss_findings",
        "cells": "category_numbers real_numbers frame_numbers are_missing check_choices",
        "integrations.sklearn.layered_training": "hidden_widths",
    },
    "behind PrivateClassifier and PrivateRegressor: tests/test_private_steps.py": {
        "algorithms.private_linear": "total_variation",
        "cells": "identities number_people",
        "sensitivity": "error_and_cell_squared error_and_moments_squared",
        "tuning.measured_error": (
            "config count_classes count_moments draw_noise interval level measure privacy total_variation"
        ),
        "tuning.private_steps": "make_plan plan_rows predict privacy train train_by_steps",
        "integrations.sklearn.private_estimator": "say_unprotected",
    },
    "behind PrivateClassifier and PrivateRegressor: tests/test_private_ranges.py": {
        "sensitivity": "histograms_squared",
        "tuning.private_ranges": "config count draw_noise find level total_variation",
    },
    "of a guarantee, which has rows of its own: tests/test_report.py": {
        "report.checkers": "checker",
        "report.odds": "detection_rates group_bound display_delta",
        "report.page": "page fragment",
        "report.registry": "registry",
        "report.records": "report plan hash_record describe detections_in_twenty epsilon_of now versions",
        "report.drawings": "dependences trade_off",
        "report.ledger_records": "charge_rows ledger_report describe_epsilons",
        "ledger.ledger_file": "add_up spend_cells sum_cells to_dict",
    },
    "shows what a terminal or a log takes: tests/test_drivers.py and tests/test_logs.py": {
        "drivers.progress": "bar scanning waiting",
        "terminal": "cell is_there width write",
        "logs": "charged evaluation_charged scanned retried released resumed message waits show",
    },
    "writes sentences: tests/test_notes.py and tests/test_release_notes.py": {
        "drivers.release_notes": "plan_notes value_notes point_notes best_notes error_notes",
        "notes": (
            "show lines hide_accounts few_users few_rows few_public_rows weights_train_alone narrowed_columns "
            "clipped_integers many_readings one_fit ranges_from_rows ranges_like_noise ranges_at_limits "
            "loss_without_code from_ledger resumed not_compared path_like_noise "
            "epsilon_reached error_not_reached values_like_noise equal_points best_within_noise "
            "error_like_a_constant wide_error"
        ),
    },
    "draws what a result holds: tests/test_plotting.py": {
        "plotting": "plot_path plot_front plot_trade_off plot_audit plot_previews plot_budget plot_partial_dependence"
    },
    "runs what it is given: tests/test_check_algorithm.py": {
        "testing.algorithm_check": "check_algorithm",
        "testing.attack_check": "check_attack",
        "testing.charge_checks": "check_charge data_set extremes neighbours signs",
        "testing.contribute_checks": "check_contribute check_groups draws_of reached",
        "testing.draw_costs": (
            "difference gaussian_level choice_epsilon choice_level laplace_epsilon planar_epsilon level_of epsilon_of"
        ),
        "testing.protocol_checks": "make_subject check_protocol",
        "testing.subject": (
            "fixed_key expect evaluate first_snapshot take_step take_steps contribute perturb whole_run to_numbers "
            "are_equal are_close"
        ),
        "testing.tape": "terms summary running",
    },
    "the fields of a class: tests/test_contracts.py": {"types": "missing_fields"},
    "what an algorithm is made of: tests/test_contribute.py": {
        "noise.totals": "add only_if psum make_zeros",
        "types": "bind check_values inform_facts remember_nothing",
    },
    "traces what it is given: tests/test_separable.py": {
        "separable.separability_check": "check_separable program_of_one",
        "separable.taints": "join",
        "separable.data_axes": "find_axes expect_axes expect_users expect_one_role expect_apart",
        "separable.objectives": "per_user",
        "separable.separability_audit": "audit_separable",
        "drivers.separability": "expect_separable prepare_objective update_assumptions",
        "separable.rules": "has_negative_axis",
        "separable.primitives": "collect_primitives is_of_jax key_kinds",
        "separable.decompositions": "guard",
        "separable.equations": (
            "atom_shape calls is_program close operations programs_in find_fault read_call read_scan read_while "
            "read_branches read_solve"
        ),
    },
    "runs what it is given": {
        "audit": "replay",
        "training.oracles": "training_errors",
        "separable.replaced_rows": "mixes_rows",
    },
    "an objective, its data or where they are: what `sample`, `split` and `load` return": {
        "algorithms.dp_gd": "gradient_objective",
        "problems._kernel_svr": "kernel_svr_loss correlations standardise",
        "problems._gp_draws": "gp_draws",
    },
    "files: tests/test_outsourcing.py": {"outsourcing.curator": "frame"},
    "pure arithmetic, beside Python's: tests/test_wide_integers.py": {
        "noise.wide_integers": (
            "widen constant add negate multiply divide shift_right maximum minimum narrow is_at_least total "
            "psum to_float"
        ),
    },
    "where arrays lie: tests/test_sharding.py": {
        "drivers.sharding": (
            "place_users find_mesh local_devices use_mesh move_to_mesh gather_release expect_one_process "
            "refuse_explicit_axes share_keys sum_over_users"
        ),
    },
    "calls what it is given: tests/test_front_door.py": {"guarantee.budget_calibration": "configure calibrate"},
    "of the statement of any config: tests/test_private_estimate.py": {
        "guarantee.composed_guarantee": "guarantee_stages"
    },
    "of a guarantee's fields: tests/test_guarantee.py": {
        "guarantee.composed_guarantee": "choice_guarantee part_levels gdp_guarantee",
        "guarantee.guarantee_fields": "check_text check_parts check_also check_stages check_largest check_attained",
        "rounding": "round_up round_down shorten_up shorten_down",
    },
    "of run_scan, killed wherever: tests/test_checkpoint.py": {"drivers.checkpoint": "begin_checkpoint finish delete"},
    "any tree of arrays: tests/test_recorded_runs.py": {
        "ledger.fingerprints": "fingerprint checksum fingerprint_code fingerprint_terms",
    },
}


def exempt() -> list[str]:
    """Every name in ``EXEMPT``, as often as it stands there."""
    return [f"{module}.{name}" for of in EXEMPT.values() for module, names in of.items() for name in names.split()]


def public_functions() -> dict[str, Callable[..., Any]]:
    """``module.function`` without the package's name, of every module but the package's own helpers."""
    found = {}
    for _, name, _ in pkgutil.walk_packages(jaxdpbo.__path__, PACKAGE):
        if name.removeprefix(PACKAGE) in HELPERS:
            continue
        for own, value in vars(importlib.import_module(name)).items():
            function = inspect.unwrap(value) if callable(value) else None  # of jax.jit and of checks
            if not own.startswith("_") and inspect.isfunction(function) and value.__module__ == name:
                found[f"{name.removeprefix(PACKAGE)}.{own}"] = function
    return found


def mentioned(thing: Any, done: set[int] | None = None) -> Iterator[Callable[..., Any]]:
    """The package's functions that a row's callable is, or names in its own code and in that of its helpers."""
    done = set() if done is None else done
    if isinstance(thing, functools.partial):
        thing = thing.func
    thing = inspect.unwrap(thing)
    if not isinstance(thing, types.FunctionType) or id(thing) in done:
        return
    done.add(id(thing))
    if thing.__module__.startswith(PACKAGE):
        yield thing
        return
    for value in _called_in(thing):
        yield from mentioned(value, done)


@functools.cache
def _called_in(function: types.FunctionType) -> tuple[Callable[..., Any], ...]:
    """Once a function: rows share their helpers."""
    return tuple(filter(callable, named_in(function.__code__, _names(function))))


def named_in(code: types.CodeType, names: dict[str, Any]) -> Iterator[Any]:
    """What a code reads: names, and attributes of modules."""
    value = None
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_GLOBAL", "LOAD_DEREF", "LOAD_NAME", "LOAD_FROM_DICT_OR_DEREF"):
            value = names.get(step.argval)
        elif step.opname in ("LOAD_ATTR", "LOAD_METHOD") and isinstance(value, types.ModuleType):
            value = getattr(value, step.argval, None)
        else:
            value = None
        if value is not None and not isinstance(value, types.ModuleType):
            yield value
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield from named_in(inner, names)


def _names(function: types.FunctionType) -> dict[str, Any]:
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    return {**function.__globals__, **{name: cell.cell_contents for name, cell in cells}}


def without_a_row(calls: list[Callable[..., Any]]) -> set[str]:
    """The public functions that none of ``calls`` names."""
    named = {id(function) for call in calls for function in mentioned(call)}
    return {name for name, function in public_functions().items() if id(function) not in named}
