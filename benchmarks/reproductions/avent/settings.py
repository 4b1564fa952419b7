"""What each item is run with: what the paper prints, what was chosen here, what --quick and --full change."""

from typing import Any

PAPER = "avent"
DTYPE = "float64 in surrogates and accountants, float32 in training"
REFERENCE = (10.0, 1.0)
ADULT = ("LogReg+SGD", "LogReg+Adam", "SVM+SGD")
MNIST = ("MLP2+SGD",)
FRONTS: dict[str, Any] = {
    "seeds": 16, "proposals": 256, "pool": 5000, "parts": 19, "repeats": 10, "delta": 1e-5, "reference": REFERENCE,
    "acquisition": "hvpoi",
}  # fmt: skip
REGRESSION: dict[str, Any] = {
    "regularisations": (1e-4, 1.0), "deviations": (0.1, 10.0), "passes": 10, "repeats": 50, "delta": 1e-6,
}  # fmt: skip
SPARSE: dict[str, Any] = {"answers": (1, 30), "noise": (1e-2, 1e2), "queries": 100, "ones": 10, "repeats": 50}

PRINTED: dict[str, dict[str, Any]] = {
    "fig1": REGRESSION,
    "fig2": SPARSE,
    "fig3": REGRESSION | {"initial_design": 250},
    "fig4": SPARSE | {"initial_design": 250},
    "fig5": FRONTS | {"tasks": ADULT + MNIST, "more": 1500, "front": "MLP2+SGD", "cloud": "LogReg+SGD"},
    "fig6": FRONTS | {"tasks": ADULT, "sizes": (3, 4)},
    "fig7": FRONTS | {"tasks": ADULT},
    "fig8": FRONTS | {"tasks": ADULT + MNIST, "timed": "MLP1+SGD"},
    "table2": FRONTS
    | {
        "tasks": ADULT,
        "differences": {
            "LogReg+SGD": (0.158, (0.053, 0.264)), "LogReg+Adam": (0.439, (0.272, 0.607)),
            "SVM+SGD": (0.282, (0.161, 0.402)),
        },
    },
    "luck": FRONTS | {"tasks": ADULT},
    "transformed": FRONTS | {"tasks": ADULT},
    "overhead": FRONTS | {"seconds": 45},
    "accountants": FRONTS | {"tasks": ADULT},
}  # fmt: skip

NOISE: dict[str, str] = dict.fromkeys(PRINTED, "float") | {"overhead": "none"}  # which trains nothing

# The paper's 19 parts of a pool of 5,000 have 256 settings each. Ours have 272, the search's 16 and 256, so that both
# sides have as many: the pool is a little larger.
# On CPU: one training a setting, and at most 20 epochs and three parts of a pool for the perceptron.
CPU: dict[str, Any] = {
    "repeats": 1, "pool": 5168, "pools": {"MLP2+SGD": 816}, "limits": {"MLP2+SGD": {"epochs": 20}},
}  # fmt: skip
ILLUSTRATED: dict[str, Any] = {"cells": 41, "reference": REFERENCE}
OURS: dict[str, dict[str, Any]] = {
    "fig1": ILLUSTRATED | {"orders": 5, "records": None},
    "fig2": ILLUSTRATED,
    "fig3": ILLUSTRATED | {"orders": 5, "records": None},
    "fig4": ILLUSTRATED,
    "fig5": CPU,
    "fig6": CPU,
    "fig7": CPU | {"trials": 10},
    "fig8": CPU,
    "table2": CPU | {"tasks": ADULT + MNIST},
    "luck": CPU | {"searches": 10},
    "transformed": CPU | {"searches": 10, "acquisition": "hvpoi_transformed"},
    "overhead": CPU | {"runs": 5},
    "accountants": CPU,
}

LITTLE: dict[str, Any] = {
    "seeds": 4, "proposals": 8, "pool": 24, "parts": 2, "tasks": ("LogReg+SGD",),
    "limits": {"LogReg+SGD": {"epochs": 2, "records": 500}, "MLP1+SGD": {"epochs": 1, "records": 500}},
}  # fmt: skip
QUICK: dict[str, dict[str, Any]] = {
    "fig1": {"cells": 5, "orders": 2, "repeats": 4, "records": 500, "passes": 2},
    "fig2": {"cells": 5, "repeats": 10},
    "fig3": {"cells": 5, "orders": 2, "repeats": 4, "records": 500, "passes": 2, "initial_design": 12},
    "fig4": {"cells": 5, "repeats": 10, "initial_design": 12},
    "fig5": LITTLE | {"more": 20, "front": "LogReg+SGD"},
    "fig6": LITTLE | {"sizes": (2,)},
    "fig7": LITTLE | {"trials": 2},
    "fig8": LITTLE,
    "table2": LITTLE,
    "luck": LITTLE | {"searches": 2},
    "transformed": LITTLE | {"searches": 2},
    "overhead": LITTLE | {"runs": 1},
    "accountants": LITTLE,
}

FULL: dict[str, dict[str, Any]] = {"table2": {"repeats": 10, "tasks": ADULT}}
