"""Two other ways to tune and train under one epsilon, beside ``tuning.tune_and_train``: by blocks, and by trials.

============  ========================================================================================
route         what it does
============  ========================================================================================
"blocks"      blocks of rows try every setting, one private choice (15 % of ``mu^2``), one private
              training with the rest
"trials"      private trainings at two small budgets (25 % of ``mu^2``) with four settings drawn at random,
              scored on rows held out; a line through the best of both says how far the one at the end
              goes, as it is within what the list reaches (Panda et al. 2024)
============  ========================================================================================

On most data sets the library's selection has a lower error (docs/tuning.md): they are peers of ``scripts/bench
private_tuning``, private and tested as the library is.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import jax

from benchmarks.tuning_peers import blocks, trials
from jaxdpbo import checks
from jaxdpbo.guarantee import recording
from jaxdpbo.tuning import fitting, selection
from jaxdpbo.tuning.training import Rows, Setting

ROUTES = {"blocks": blocks.tune, "trials": trials.tune}
# How many trainings' and searches' noise counts.
TIMES = {"blocks": 2.0, "trials": 2.0 * trials.COUNT + 2}


def tune_and_train(
    training: Any,
    rows: Rows,
    settings: Sequence[Setting],
    *,
    route: str,
    epsilon: float,
    delta: float,
    on_error: str = "worst",
    ledgers: Mapping[str, recording.Recording] | None = None,
    key: jax.Array | None = None,
    insecure_key: bool = False,
    **options: Any,
) -> fitting.TuningResult:
    """As ``tuning.tune_and_train``, by another route; "blocks" takes ``k``, "trials" takes ``validation``."""
    rows, validation = fitting.check_rows(training, rows, options.pop("validation", None))
    if validation is not None:
        options["validation"] = validation
    settings = selection.check_settings(settings)
    on_error = checks.one_of("on_error", on_error, selection.ON_ERROR)
    asked = fitting.TuningArguments(training, settings, epsilon, delta, ledgers, key, insecure_key, on_error)
    asked = asked._replace(delta=fitting.ideal_delta(asked, TIMES[route], len(rows[1])))
    return ROUTES[route](asked, rows, **options)
