"""Of all tests: one strict configuration, the counts that ``--full`` raises, and skips that must be listed."""

import gc
import importlib
import os
import platform
import sys
import time
from collections import Counter
from contextlib import contextmanager
from fnmatch import fnmatchcase
from pathlib import Path

import evidence
import hypothesis
import jax
import pytest

jax.config.update("jax_enable_x64", os.environ.get("JAX_ENABLE_X64", "1") != "0")  # "0": as users run, --systems
jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "strict")

# Traced programs are many objects that stay: at Python's own threshold it looks through them too often.
gc.set_threshold(100_000, 20, 20)

# A time after which no test begins, in seconds of the clock; .ci/run sets it, so that a slow machine ends in time.
UNTIL = "JAXDPBO_TESTS_UNTIL"
OUT_OF_TIME = "out of time"

MAPPINGS = Path("/proc/self/maps")

OF_EVERY_LIBRARY = (
    "test_tuned_and_trained_under_one_guarantee",
    "test_the_least_epsilon_of_any_library",
    "test_it_learns_from_its_key_alone",
    "test_other_keys_draw_other_noise",
    "test_rows_of_any_values_raise_nothing_and_spoil_nothing",
    "test_several_classes_are_learnt",
)
OF_SEEDED_LIBRARIES = "test_the_block_of_the_page_runs", "test_a_seed_of_noise_counts_in_full_width"
# An example -> the package it needs; tests/systems/engines.py and flower.py run it.
EXAMPLES_THAT_NEED = {
    "jaxdpbo.tables.ray_table.ray": "ray",
    "jaxdpbo.tables.spark_table.spark": "pyspark",
    "jaxdpbo.tables.beam_table.beam": "apache_beam",
    "jaxdpbo.integrations.flower.apps.client_app": "flwr",
    "jaxdpbo.integrations.flower.apps.run_on_grid": "flwr",
}
# Test id (as pytest prints it) -> why it may be skipped. Any other skip fails the run.
LISTED_SKIPS: dict[str, str] = {
    "tests/test_peers.py::test_clipped_sums_are_jax_privacys": "jax-privacy is not on a lent machine",
    "tests/test_peers.py::test_hypervolumes_are_pymoos[2]": "pymoo is not on a lent machine",
    "tests/test_peers.py::test_hypervolumes_are_pymoos[3]": "pymoo is not on a lent machine",
    **{
        f"tests/systems/test_versions.py::test_a_stated_python_passes_with_the_newest_of_all[3.{minor}]": (
            "no such Python on this machine"
        )
        for minor in (11, 12, 13)
    },
    "tests/systems/test_versions.py::test_a_release_of_jax_between_passes[11]": "no such Python on this machine",
    **{
        f"tests/test_examples.py::test_an_example_does_as_it_says[{name}]": f"needs {package}: tests/systems runs it"
        for name, package in EXAMPLES_THAT_NEED.items()
    },
    **{
        f"tests/systems/test_object_store.py::{name}": "needs moto[server], which could not be installed"
        for name in (
            "test_a_release_of_files_in_a_store_is_that_of_arrays[folder]",
            "test_a_release_of_files_in_a_store_is_that_of_arrays[files]",
            "test_a_release_of_files_in_a_store_is_that_of_arrays[reversed]",
            "test_files_of_a_store_are_named_once_and_may_not_change",
            "test_a_key_in_an_address_is_not_quoted[in a folder]",
            "test_a_key_in_an_address_is_not_quoted[in a list]",
        )
    },
    "tests/systems/test_engines.py::test_every_engine_releases_what_arrays_release": "Spark needs Java",
    "tests/systems/test_extras.py::test_a_user_of_an_extra_runs_what_its_page_shows[spark]": "Spark needs Java",
    **{
        f"tests/systems/test_postgresql.py::{name}": "needs PostgreSQL, and may not install it"
        for name in (
            "test_each_account_adds_lines_and_none_changes_one",
            "test_what_a_superuser_changes_shows",
            "test_a_run_of_one_account_is_read_by_the_other",
            "test_a_database_that_was_copied_takes_no_charge_until_it_is_adopted",
            "test_a_server_that_may_lose_a_charge_is_refused[fsync]",
            "test_a_server_that_may_lose_a_charge_is_refused[synchronous_commit]",
            "test_a_writer_that_takes_no_lock_cannot_fork_the_chain",
            "test_a_session_that_the_server_ends_leaves_no_doubt",
            "test_nothing_of_an_account_is_in_a_message",
            "test_nothing_is_lost_by_workers_of_two_accounts_that_are_killed",
            "test_nothing_is_lost_when_the_server_fails",
            *(
                f"test_the_kills_find_a_worker_where[{plant}]"
                for plant in ("early release", "second charge", "every draw")
            ),
        )
    },
    "tests/test_dashboard.py::test_the_dashboard_shows_noised_values_alone": (
        "needs optuna-dashboard, of the extra docs, and Chromium"
    ),
    **{
        f"benchmarks/tests/test_enough_users.py::{name}": "needs Chromium"
        for name in (
            *(
                f"test_a_browser_shows_the_numbers_of_preview[{setting}]"
                for setting in (
                    "5 numbers-1-1e-05-100-5000-Enough users",
                    "20 numbers-0.1-1e-07-500-1000-Too few users",
                    "integers or categories among them-0.25-1e-05-50-500-Borderline",
                    "1 or 2 numbers-0.1-1e-05-50-200-Too few users.*Few users",
                )
            ),
            "test_an_address_with_odd_values_shows_the_usual_setting",
            "test_a_delta_too_large_for_the_users_is_refused",
        )
    },
    "tests/test_building.py::test_the_botorch_loop_finds_the_optimum": "BoTorch is of the extra bench",
    "tests/test_optuna.py::test_botorch_takes_the_known_noise": "BoTorch is of the extra bench",
    **{
        f"tests/test_other_trainings.py::{name}": "jax-privacy is not on a lent machine"
        for name in (
            *(f"{name}[jax_privacy]" for name in OF_EVERY_LIBRARY),
            "test_a_regression_is_learnt[jax_privacy]",
            "test_models_and_optimizers_are_chosen_by_name[jax_privacy]",
            "test_empty_batches_are_steps_of_noise_alone[jax_privacy]",
            "test_no_row_makes_the_gradients_of_jax_privacy_infinite",
            "test_one_row_moves_a_sum_by_no_more_than_the_clip_norm",
            "test_what_is_charged_is_what_jax_privacy_draws",
            "test_each_step_of_jax_privacy_adds_noise_of_the_stated_deviation",
            "test_the_keys_of_params_batches_and_noise_differ",
            "test_frames_tensors_and_datasets_are_rows[jax_privacy]",
            "test_a_model_that_jax_privacy_cannot_train_is_refused_before_the_charge",
        )
    },
    **{
        f"tests/test_other_trainings.py::{name}": "needs the extra opacus: tests/systems/test_opacus.py"
        for name in (
            *(f"{name}[opacus]" for name in (*OF_EVERY_LIBRARY, *OF_SEEDED_LIBRARIES)),
            "test_a_regression_is_learnt[opacus]",
            "test_models_and_optimizers_are_chosen_by_name[opacus]",
            "test_an_optimizer_that_opacus_cannot_step_is_refused_before_the_charge",
            "test_data_sets_and_loaders_of_torch_are_rows",
            "test_empty_batches_are_steps_of_noise_alone[opacus]",
            "test_opacus_counts_what_is_stored",
            "test_a_module_that_mixes_rows_is_refused",
            "test_a_dry_run_leaves_no_trace_in_a_module",
            *(
                f"test_a_module_that_opacus_cannot_train_is_refused_before_the_charge[{fault}]"
                for fault in ("an unused parameter", "a double", "a default of doubles")
            ),
            "test_opacus_adds_noise_of_the_stated_deviation_in_each_step",
            "test_a_factory_neither_fixes_the_noise_nor_shares_what_is_trained",
            "test_no_row_makes_the_gradients_of_opacus_infinite[False]",
            "test_no_row_makes_the_gradients_of_opacus_infinite[True]",
            "test_rows_without_a_label_do_not_train_opacus",
            *(
                f"test_opacus_counts_as_many_steps_as_are_charged[{sizes}]"
                for sizes in ("372-4", "400-32", "10-3", "5-9")
            ),
        )
    },
    **{
        f"tests/test_other_trainings.py::{name}[diffprivlib]": (
            "diffprivlib needs an older scikit-learn: tests/systems/test_diffprivlib.py"
        )
        for name in (*OF_EVERY_LIBRARY, *OF_SEEDED_LIBRARIES)
    },
    **{
        f"tests/test_other_trainings.py::test_diffprivlib_draws_the_noise_that_is_stated[{classes}]": (
            "diffprivlib needs an older scikit-learn: tests/systems/test_diffprivlib.py"
        )
        for classes in ("classes0", "classes1")
    },
}

hypothesis.settings.register_profile("jaxdpbo", deadline=None, derandomize=True, database=None)
hypothesis.settings.load_profile("jaxdpbo")

_evidence: list[dict] = []
_conformance: list[dict] = []
_skipped: list[str] = []
_out_of_time: list[str] = []


def pytest_addoption(parser):
    parser.addoption("--full", action="store_true", help="every count at its full size; writes docs/test_counts.md")


def pytest_configure(config):
    config.addinivalue_line("markers", "full: runs with --full alone")
    config.addinivalue_line("markers", "daily(*cases): cases that run without --full too, as patterns of their ids")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Leaves to ``--full`` what is marked so; a test that the command line names runs whole."""
    if config.getoption("--full") or any("::" in argument for argument in config.args):
        return
    marked, later = {}, {item for item in items if item.get_closest_marker("full")}
    for item in items:
        if mark := item.get_closest_marker("daily"):
            marked.setdefault((item.nodeid.partition("[")[0], mark.args), []).append(item)
    for (test, patterns), cases in marked.items():
        kept = [[case for case in cases if fnmatchcase(case.callspec.id, pattern)] for pattern in patterns]
        if not all(kept):
            raise pytest.UsageError(f"{test}: a mark `daily` names a case that there is not, among {patterns}")
        later |= {*cases}.difference(*kept)
    items[:] = [item for item in items if item not in later]
    config.hook.pytest_deselected(items=list(later))


def pytest_ignore_collect(collection_path, config):
    """``tests/systems`` runs where it is named: ``scripts/test --systems``."""
    return True if collection_path.name == "systems" and not any("systems" in each for each in config.args) else None


@pytest.fixture
def trials(request, record_property):
    """``trials(what, quick, full, seed)``: how many cases to run; under ``--full`` it goes on record."""

    def choose(what: str, quick: int, full: int, seed: int) -> int:
        if not request.config.getoption("--full"):
            return quick
        record_property("evidence", {"what": what, "test": request.node.nodeid, "count": full, "seed": seed})
        return full

    return choose


@pytest.fixture
def compilations():
    """A counter of JAX's own events: programs lowered, whether or not the persistent cache held them."""
    seen = Counter()

    def listen(event, duration, **_):
        if event == "/jax/core/compile/jaxpr_to_mlir_module_duration":
            seen["programs"] += 1

    jax.monitoring.register_event_duration_secs_listener(listen)
    yield seen
    jax.monitoring.unregister_event_duration_listener(listen)


@pytest.fixture(autouse=True, scope="module")
def few_mappings():
    """XLA maps memory for every program it loads, some 200 KB each, and aborts at Linux's 65,530 mappings a process."""
    yield
    if MAPPINGS.exists() and len(MAPPINGS.read_text().splitlines()) > 10_000:
        jax.clear_caches()


@pytest.fixture
def file_size_limit():
    """A context, given a size: what would make a file longer fails after a part of it, as on a full disk."""
    import resource  # POSIX alone has it

    @contextmanager
    def limited(most):
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))  # Python ignores the signal and raises OSError
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    return limited


@pytest.fixture
def plant(tmp_path, monkeypatch):
    """A module of a package that no file of the repository has."""

    def planted(package, name, source):
        (tmp_path / f"{name}.py").write_text(source)
        monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path)])
        importlib.invalidate_caches()
        full = f"{package.__name__}.{name}"
        monkeypatch.setitem(sys.modules, full, None)
        del sys.modules[full]  # and gone again after the test
        monkeypatch.setattr(package, name, None, raising=False)

    return planted


@pytest.fixture
def float32():
    """The test runs with x64 off."""
    with jax.enable_x64(False):
        yield


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    if time.time() > float(os.environ.get(UNTIL, "inf")):
        pytest.skip(OUT_OF_TIME)


def pytest_runtest_logreport(report):
    if report.skipped:
        late = isinstance(report.longrepr, tuple) and report.longrepr[2] == f"Skipped: {OUT_OF_TIME}"
        (_out_of_time if late else _skipped).append(report.nodeid)
    if report.when == "call" and report.passed:
        _evidence.extend(value for name, value in report.user_properties if name == "evidence")
        _conformance.extend(value for name, value in report.user_properties if name == "conformance")


def pytest_sessionfinish(session, exitstatus):
    if hasattr(session.config, "workerinput"):
        return
    if not LISTED_SKIPS.keys() >= set(_skipped) and exitstatus == 0:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    if session.config.getoption("--full"):  # a row is of a test that passed, even when another fails
        machine = f"{platform.machine()}, {os.cpu_count()} cores, {jax.default_backend()}, jax {jax.__version__}"
        today = evidence.today()
        evidence.record([row | {"machine": machine} | today for row in _evidence])
        if _conformance:
            evidence.record_conformance(_conformance, **today)


def pytest_terminal_summary(terminalreporter):
    for nodeid in _skipped:
        reason = LISTED_SKIPS.get(nodeid)
        line = f"listed skip: {nodeid}: {reason}" if reason else f"UNLISTED SKIP, which fails the run: {nodeid}"
        terminalreporter.write_line(line)
    for file, count in Counter(nodeid.partition("::")[0] for nodeid in _out_of_time).items():
        terminalreporter.write_line(f"OUT OF TIME on this machine: {count} tests of {file} did not run")
