"""Every function of JAX that the checker takes keeps records apart to the last bit, whatever one record holds."""

import re
import warnings

import functions
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxdpbo import separable
from jaxdpbo.separable import separability_check

NAMED = functions.functions()
ROWS = np.random.default_rng(0).uniform(0.2, 2.0, (functions.USERS, functions.WIDTH))
ORDINARY = 0.0, -0.0, 5.0, 5e-324, 1e-310  # where a function runs for ever for others
BASES = ROWS, np.full_like(ROWS, 1e160)  # what the others hold: a loop may be over for some, and go on for one
VALUES = (
    np.nan, np.inf, -np.inf, 0.0, -0.0, -1.0, 1e160, np.finfo(float).max, -np.finfo(float).max, 5e-324, 1e-310, 2.0**53,
    5.0,
)  # fmt: skip
KINDS = {
    "per_user": lambda loss: separable.per_user(loss, public_constants=True),
    "check_separable": lambda loss: separable.check_separable(
        jax.vmap(loss, (None, 0), -1), functions.POINT, ROWS, public_constants=True
    ),
}


@pytest.fixture(autouse=True, scope="module")
def broadcasting():
    """Functions are called as users call them."""
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def with_record(base, record, value):
    """The rows with all of one record replaced, and with its first number."""
    for entries in (slice(None), 0):
        rows = base.copy()
        rows[record, entries] = value
        yield rows


def lowers(loss):
    """Whether XLA takes what JAX traced, such as no argmax of complex numbers."""
    try:
        jax.jit(loss).lower(functions.POINT, ROWS[0])
    except (TypeError, ValueError, ArithmeticError, NotImplementedError):
        return False
    return True


def moved(kind, losses, *, bases=BASES, values=VALUES):
    """Values of one record that move another's results, of losses in one program."""
    losses = [loss for loss in losses if lowers(loss)]
    if not losses:
        return []

    def loss(point, record):
        return jnp.concatenate([one(point, record) for one in losses])

    run = jax.jit(KINDS[kind](loss))
    rest = np.arange(functions.USERS) != 1
    found = []
    for base in bases:
        before = np.asarray(run(functions.POINT, base)).view(np.int64)
        for value in values:
            for rows in with_record(base, 1, value):
                after = np.asarray(run(functions.POINT, rows)).view(np.int64)
                if not np.array_equal(before[..., rest], after[..., rest]):
                    found.append(value)
    return found


@pytest.mark.daily("per_user")
@pytest.mark.parametrize("kind", KINDS)
def test_a_function_that_is_taken_keeps_records_apart(kind, trials):
    """All forms of one function in one program: compiled once, run for thirteen values of one record."""
    count = trials(f"functions of JAX that {kind} takes, perturbed", 8, len(NAMED), 0)
    chosen = list(NAMED)[len(kind) % 7 :: max(1, len(NAMED) // count)] if count < len(NAMED) else list(NAMED)
    ran, mixing = 0, []
    for name in chosen:
        rows = functions.cases(name, NAMED[name])
        taken = [row for row in rows if not (row.refusal if kind == "per_user" else row.of_all)]
        if taken:
            ran += 1
            tried = {"bases": [ROWS], "values": ORDINARY} if name in functions.ENDLESS else {}
            values = moved(kind, [functions.loss_of(NAMED[name], row.form) for row in taken], **tried)
            mixing += [(name, values)] if values else []
    assert mixing == []
    assert ran > len(chosen) / 2


@pytest.mark.parametrize(
    ("name", "form"),
    [
        *([("jax.scipy.special.betainc", "x, p, p")] if jax.__version_info__ < (0, 12) else []),  # seen to mix there
        ("jax.numpy.convolve", "x, x"),
        ("jax.scipy.signal.correlate", "x, x"),
    ],
)
def test_what_mixes_is_seen_where_it_is_taken(name, form, monkeypatch):
    """Planted: a checker that takes what vmap does not keep apart."""
    (row,) = [row for row in functions.cases(name, NAMED[name]) if row.form == form]
    assert "under vmap" in row.refusal
    monkeypatch.setattr(separability_check._Walk, "_maps", lambda *_: True)
    assert moved("per_user", [functions.loss_of(NAMED[name], form)]) != []


def test_the_page_says_what_is_refused_and_why(trials):
    """``scripts/functions`` writes it; where this fails run it again, on this release of JAX."""
    entries = functions.read_entries()
    assert functions.PAGE.read_text() == functions.page(entries)
    stored = entries[functions.release()]
    count = trials("functions of JAX on the page of those refused", 6, len(NAMED), 0)
    names = ["jax.numpy.poly", "jax.scipy.special.expi", "jax.random.gamma", *list(NAMED)[:: len(NAMED) // count]]
    whole = count == len(NAMED)
    found = functions.entry(
        [row for name in NAMED if whole or name in names for row in functions.cases(name, NAMED[name])]
    )
    if whole:
        assert stored | {"jax": jax.__version__} == found
        return
    for table in ("refused", "refused under vmap"):
        assert [row for row in stored[table] if row[0] in names] == found[table]
    assert [name for name in stored["constants"] if name in names] == found["constants"]


def test_the_page_names_every_release_that_is_supported():
    text = (functions.ROOT / "pyproject.toml").read_text()
    (lowest, limit) = re.search(r'"jax>=0\.(\d+)\.\d+,<0\.(\d+)"', text).groups()
    assert list(functions.read_entries()) == [f"0.{minor}" for minor in range(int(lowest), int(limit))]
