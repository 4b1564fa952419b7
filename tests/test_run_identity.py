"""A run on record is bound to its loss, data, space and config, as far as these are public, and names its origin."""

import functools
import shutil
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from option_groups import group_options

import jaxdpbo
from jaxdpbo import Recording, drivers, ledger, minimize, tables, transforms
from jaxdpbo.drivers import recorded_run
from jaxdpbo.guarantee import guarantees
from jaxdpbo.ledger.fingerprints import UNKNOWN, fingerprint, fingerprint_code

RECORDS = np.random.default_rng(0).normal(0.3, 0.05, 500)
OPTIONS = {"mu": 1.0, "loss_range": (0, 1), "method": "in_order", "steps": 4}


def absolute(point, data):
    return abs(data - point[0])


def squared(point, data):
    return (data - point[0]) ** 2


def book(folder, name="book.jsonl", mu=9):
    ledger.create(folder / name, mu=mu)
    return folder / name


def search(path, loss=absolute, records=RECORDS, box=((0, 1),), **changes):
    options = group_options(**OPTIONS | {"ledger": Recording(path, "march")} | changes)
    return minimize(loss, records, list(box), **options)


ROUTES = {"scan": {}, "loop": {"traceable": False}}


@pytest.mark.daily("loop")
@pytest.mark.parametrize("route", ROUTES)
def test_another_teams_release_never_comes_without_a_word(route, tmp_path):
    """Trap 56: B got A's answer under A's run name, with an empty note."""
    path = book(tmp_path)
    mine = search(path, **ROUTES[route])
    assert mine.notes == ()
    again = search(path, records=RECORDS + 1, **ROUTES[route])  # records cannot be compared: their hash is a release
    assert [note.id for note in again.notes] == ["from-ledger", "not-compared"]
    assert again.notes[0].text.startswith("this is the release of run 'march', which ")
    assert all(f"note: {note}" in repr(again) for note in again.notes)
    np.testing.assert_array_equal(again.release.point, mine.release.point)
    for changes, what in (
        ({"loss": squared}, "loss"),
        ({"records": RECORDS[:, None], "loss": lambda p, d: abs(d[:, 0] - p[0])}, "schema"),
        ({"box": [(0, 2)]}, "configuration"),
        ({"steps": 5}, "configuration"),
    ):
        with pytest.raises(ledger.LedgerError, match=f"another.* {what}"):
            search(path, **ROUTES[route] | changes)
    assert len(ledger.account(path).spends) == 1


def test_columns_of_other_names_and_tables_of_other_columns_are_other_data(tmp_path):
    path = book(tmp_path)
    loss = lambda point, data: abs(next(iter(data.values())) - point[0])  # noqa: E731
    search(path, loss, {"a": RECORDS})
    with pytest.raises(ledger.LedgerError, match="another schema"):
        search(path, loss, {"b": RECORDS})
    other = book(tmp_path, "other.jsonl")
    loss = lambda point, batch: jnp.abs(next(iter(batch.values())) - point[0])  # noqa: E731
    search(other, loss, tables.arrays({"a": RECORDS}))
    with pytest.raises(ledger.LedgerError, match="another schema"):
        search(other, loss, tables.arrays({"b": RECORDS}))


def test_a_loss_may_be_mended_until_something_was_drawn(tmp_path):
    path = book(tmp_path)
    with pytest.raises(drivers.ObjectiveError):
        search(path, lambda point, data: np.zeros(3), **ROUTES["loop"])
    assert len(ledger.account(path).spends) == 1
    search(path, **ROUTES["loop"])  # under the same charge
    assert len(ledger.account(path).spends) == 1
    with pytest.raises(ledger.LedgerError, match="begun with another loss"):
        search(path, squared, **ROUTES["loop"])


def test_steps_from_the_ledger_are_noted(tmp_path):
    path, left = book(tmp_path), [3]

    def failing(point, data):
        left[0] -= 1
        if left[0] == 0:
            raise MemoryError
        return np.abs(data - point[0])

    options = {"method": "local", "clip_norm": 1.0, **ROUTES["loop"]}
    with pytest.raises(drivers.RunInterrupted):
        search(path, failing, **options)
    resumed = search(path, failing, **options)
    assert "step comes from run 'march', which " in resumed.notes[0].text


def evaluations(path, loss=absolute, records=RECORDS):
    return drivers.PrivateObjective(
        lambda point, data: loss([point], data), records, users=500, evaluations=4, mu=1.0, loss_range=(0, 1),
        ledger=Recording(path, "bo"),
    )  # fmt: skip


def test_private_objectives_of_two_losses_or_schemas_share_nothing(tmp_path):
    path = book(tmp_path)
    first, second = evaluations(path), evaluations(path, squared)  # nothing was drawn: a loss may be mended
    first(0.5)
    with pytest.raises(ledger.LedgerError, match="another loss"):
        second(0.5)
    with pytest.raises(ledger.LedgerError, match="another loss"):
        evaluations(path, squared)
    with pytest.raises(ledger.LedgerError, match="another schema"):
        evaluations(path, records=RECORDS[:, None])
    assert first.notes == ()
    assert evaluations(path).notes[0].text.startswith("1 evaluation comes from run 'bo', which ")


def replace_ledger(path):
    """Another ledger in the place of the first: a fresh budget."""
    path.unlink()
    ledger.create(path, mu=9)


@pytest.mark.parametrize("act", ["refresh", "call"])
def test_a_private_objective_never_pays_again(act, tmp_path):
    """Trap 57: it paid in passing, whenever it read its ledger."""
    path = book(tmp_path)
    objective = evaluations(path)
    objective(0.5)
    replace_ledger(path)
    with pytest.raises(ledger.LedgerError, match=r"did not make the charge|was not charged"):
        objective.refresh() if act == "refresh" else objective(0.25)
    evaluations(path)  # another process pays there: the charge is still not this object's
    with pytest.raises(ledger.LedgerError, match=r"did not make the charge|was not charged"):
        objective.refresh() if act == "refresh" else objective(0.25)
    assert all(entry.steps == 0 for entry in ledger.account(path).spends)


def test_a_run_whose_ledger_is_replaced_stops_before_its_next_draw(tmp_path):
    path, calls = book(tmp_path), []

    def replacing(point, data):
        calls.append(point)
        if len(calls) == 2:
            replace_ledger(path)
            with pytest.raises(drivers.RunInterrupted):  # charges the new ledger, and is killed
                search(path, lambda point, data: 1 / 0, **ROUTES["loop"])
        return np.abs(data - point[0])

    with pytest.raises(ledger.LedgerError, match="did not make the charge"):
        search(path, replacing, **ROUTES["loop"])


def test_a_release_goes_to_the_ledger_that_was_charged_alone(tmp_path, monkeypatch):
    path, real = book(tmp_path), recorded_run.record_release

    def replacing(*arguments):
        copy = path.with_name("copy")
        shutil.copy(path, copy)
        replace_ledger(path)
        with monkeypatch.context() as patch:
            patch.setattr(recorded_run, "record_release", lambda *rest: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                search(path)
        return real(*arguments)

    monkeypatch.setattr(recorded_run, "record_release", replacing)
    with pytest.raises(ledger.LedgerError, match="did not make the charge"):
        search(path)


def test_curated_rows_from_the_ledger_say_so(tmp_path):
    chosen, path = transforms.gaussian(centre=[0.0], scale=1.0, epsilon=1.0, delta=1e-5, radius=1.0), tmp_path / "book"
    ledger.create(path, mu=9, protects=chosen.guarantee.protects)
    rows = [[[0.5], [value]] for value in (1, 2)]
    first, again = (transforms.curate(None, chosen, inputs, ledger=Recording(path, "rows")) for inputs in rows)
    assert first.notes == ()
    assert [note.text[:37] for note in again.notes] == ["this is the release of run 'rows', wh"]


def holding(value):
    def loss(point, data, default=value):
        return data - value + default

    loss.kept = value
    return loss


class Callable:
    """A loss with a record among its attributes."""

    def __init__(self, value):
        self.value = value

    def __call__(self, point, data):
        return data - self.value


@pytest.mark.parametrize("make", [holding, Callable, lambda value: functools.partial(absolute, data=value)])
def test_no_value_that_a_loss_holds_is_in_its_hash(make):
    """A loss may capture records, or what was computed of them: a hash of these, or of their types, is a release."""
    records = [1, 2.5, "Anna", None, RECORDS, RECORDS[:3], [1, 2], {"a": 1}, object()]
    assert len({fingerprint_code(make(value)) for value in records}) == 1
    assert fingerprint_code(make(1)) != UNKNOWN
    assert fingerprint(holding(1)) != fingerprint(holding(2))  # the planted bug: the hash of a config holds values


def test_no_value_of_the_data_is_in_its_description():
    for one, other in (
        (RECORDS, RECORDS + 1),
        (RECORDS, RECORDS.astype(object)),  # a reader's dtype follows from values
        ({"a": RECORDS}, {"a": np.zeros(500, int)}),
        ([1, [2, 3]], [["Anna"], None]),
        (open, "a path of Anna"),
        ({"Anna": np.zeros(3), "Bob": np.zeros(2)}, {"Carl": np.zeros(7)}),  # a dict of people
        ({"Anna": [1, 2]}, {7: [1]}),
        ((RECORDS, [1]), (RECORDS, ["x"])),
    ):
        made = [recorded_run.make_subject(absolute, data, 500) for data in (one, other)]
        assert made[0] == made[1]
    schemas = [RECORDS, RECORDS[:, None], {"a": RECORDS}, {"b": RECORDS}, (RECORDS,), [1] * 500, None]
    assert len({recorded_run.make_subject(absolute, data, 500).schema for data in schemas}) == len(schemas)


def test_codes_of_losses_are_told_apart_through_all_that_wraps_them():
    def calls(function):
        return lambda point, data: function(point, data)

    for wrap in (
        lambda f: f,
        jax.jit,
        calls,
        functools.partial,
        lambda f: functools.partial(lambda point, data, inner: inner(point, data), inner=f),
        lambda f: jax.jit(jax.vmap(f, in_axes=(None, 0))),
        lambda f: jaxdpbo.per_user(f),
        lambda f: jaxdpbo.by_person(f, np.zeros(3, int), persons=1),
    ):
        assert fingerprint_code(wrap(absolute)) == fingerprint_code(wrap(absolute))
        assert len({fingerprint_code(wrap(loss)) for loss in (absolute, squared, np.add, UNKNOWN.replace)}) >= 3


class Squared:
    """The same loss method as ``Absolute``; they differ in a method that it calls."""

    def __init__(self, link=None):
        self.link = link or self.default

    def default(self, x):
        return x**2

    def loss(self, point, data):
        return self.link(data - point[0])

    __call__ = loss


class Absolute(Squared):
    def default(self, x):
        return 1000 * abs(x)


def import_helpers(body):
    """A loss that calls a function of a module of yours."""
    helpers, names = types.ModuleType("helpers"), {"__name__": "__main__"}
    exec(f"def link(x): return {body}", vars(helpers))
    exec("def loss(point, data): return helpers.link(data - point[0])", names | {"helpers": helpers}, names)
    names["loss"].__globals__["helpers"] = helpers
    return names["loss"]


class Jitted:
    @functools.partial(jax.jit, static_argnums=0)
    def __call__(self, point, data):
        return data - point[0]


class OtherJitted:
    @functools.partial(jax.jit, static_argnums=0)
    def __call__(self, point, data):
        return data + point[0]


def test_codes_of_losses_are_told_apart_wherever_they_lie():
    pipeline, linear, svm = (pytest.importorskip(f"sklearn.{name}") for name in ("pipeline", "linear_model", "svm"))
    ridge, svr = linear.Ridge(), svm.SVR()
    for one, other in (
        (Squared().loss, Absolute().loss),
        (Squared(), Absolute()),
        (Squared(abs).loss, Squared(absolute).loss),
        (import_helpers("x**2"), import_helpers("1000 * abs(x)")),
        (Jitted(), OtherJitted()),
        (lambda p, d, model=ridge: d, lambda p, d, model=svr: d),
    ):
        assert UNKNOWN not in (fingerprint_code(one), fingerprint_code(other))
        assert fingerprint_code(one) != fingerprint_code(other)

    def of(model):
        return lambda point, data: (data, model)

    pipes = [pipeline.make_pipeline(svm.SVC(), model) for model in (ridge, svr)]
    assert fingerprint_code(of(pipes[0])) != fingerprint_code(of(pipes[1]))


class Caching:
    """A loss that changes while it is called, by what its records are too."""

    @functools.cached_property
    def weight(self):
        return 2.0

    def __call__(self, point, data):
        if np.any(data > 0.3):
            self.seen = True
        self.scale, self.compiled = 1.0, jax.jit(lambda x: x)
        return self.weight * data


class Quoting:
    """Its attributes raise what quotes a record."""

    def __getattr__(self, name):
        raise LookupError(f"Ann Smith has no {name}")

    def __call__(self, point, data):
        return data


def test_what_a_call_or_a_notebook_leaves_behind_changes_no_hash():
    loss = Caching()
    before = fingerprint_code(loss)
    loss([0.5], RECORDS)
    assert fingerprint_code(loss) == before
    names = {}
    exec("def loss(point, data): return (data - point[0]).mean()", names)
    before = fingerprint_code(names["loss"])
    names["mean"] = squared  # a variable of a later cell, with the name of an attribute
    assert fingerprint_code(names["loss"]) == before
    documented = [{}, {}]
    for number, scope in enumerate(documented):
        exec(f"def loss(point, data):\n    'Text {number}.'\n    # {number}\n    return data", scope)
    assert len({fingerprint_code(scope["loss"]) for scope in documented}) == 1
    assert fingerprint_code(Quoting()) != UNKNOWN
    nested = absolute
    for _ in range(2000):
        nested = functools.partial(lambda point, data, inner: inner(point, data), inner=nested)
    assert fingerprint_code(nested) != UNKNOWN
    captured = [functools.partial(lambda *rows: rows, *rows) for rows in ([1], [1, 2, 3])]
    assert fingerprint_code(captured[0]) == fingerprint_code(captured[1])


def test_what_has_no_code_is_said(tmp_path):
    assert fingerprint_code(np.subtract.outer) == UNKNOWN
    path = book(tmp_path)
    with_note = drivers.PrivateObjective(
        np.subtract, RECORDS, users=500, evaluations=2, mu=1.0, loss_range=(0, 1), ledger=Recording(path, "bo")
    )
    assert [note.id for note in with_note.notes] == ["loss-without-code"]
    assert "cannot tell it from other losses [loss-without-code]" in repr(with_note)


def test_another_estimator_is_another_loss(tmp_path):
    model_selection = pytest.importorskip("jaxdpbo.integrations.sklearn")
    from sklearn.linear_model import Ridge
    from sklearn.svm import SVR

    path = book(tmp_path)
    x = np.random.default_rng(0).uniform(size=(200, 2))
    y = x @ [1.0, -1.0]

    def fit(estimator):
        search = model_selection.PrivateSearchCV(
            estimator, {"C" if isinstance(estimator, SVR) else "alpha": jaxdpbo.space.real(0.1, 1)}, mu=1.0,
            loss="absolute", loss_range=(0, 1), refit=False, ledger=Recording(path, "march"),
        )  # fmt: skip
        return search.fit(x, y)

    fit(Ridge())
    assert "this is the release of run 'march'" in fit(Ridge()).notes_[0].text
    with pytest.raises(ledger.LedgerError):
        fit(SVR())


PAIRS = np.repeat(np.arange(250), 2)
MOVED = np.concatenate([PAIRS[1:], PAIRS[:1]])  # the same numbers of people and of rows, others together


def mean_loss(params, train, held_out):
    return float(np.mean(np.abs(held_out - params[0])))


@pytest.mark.parametrize(
    "make",
    [
        lambda owners: jaxdpbo.by_person(absolute, owners),
        lambda owners: jaxdpbo.blocks(mean_loss, 500, 10, groups=owners),
    ],
    ids=["people", "blocks"],
)
def test_other_people_or_blocks_are_another_run(make, tmp_path):
    """Trap 69: a guarantee for B's people came with A's release, in which a person of B has rows of two of A's."""
    path = book(tmp_path)
    options = {"traceable": False, "ledger": Recording(path, "march", protects=guarantees.USERS)}
    search(path, make(PAIRS), **options)
    assert search(path, make(PAIRS.copy()), **options).notes[0].id == "from-ledger"
    with pytest.raises(ledger.LedgerError, match="another grouping"):
        search(path, make(MOVED), **options)


def test_another_split_loss_or_frame_is_another_search(tmp_path):
    """Trap 69: protected rows of the second split had trained the models of the first, without noise."""
    private = pytest.importorskip("jaxdpbo.integrations.sklearn")
    import pandas as pd
    from sklearn.linear_model import Ridge
    from sklearn.model_selection import GroupShuffleSplit, ShuffleSplit

    path = book(tmp_path)
    x = pd.DataFrame(np.random.default_rng(0).uniform(size=(401, 2)), columns=["age", "income"])  # not two halves
    people = np.arange(401) // 2

    def fit(run, seed=0, names=("age", "income"), loss="squared", groups=None, **options):
        options |= {"cv": (ShuffleSplit if groups is None else GroupShuffleSplit)(1, test_size=0.5, random_state=seed)}
        if options.pop("blocks", False):
            options |= {"cv": None, "protect": "all", "n_blocks": 5}
        found = private.PrivateSearchCV(
            Ridge(), {"alpha": [0.1, 1.0]}, mu=1.0, n_iter=2, loss_range=(0, 1), loss=loss, refit=False,
            ledger=Recording(path, run, protects=guarantees.USERS), **options,
        )  # fmt: skip
        return found.fit(x.set_axis(list(names), axis=1), x["age"], groups=groups)

    for run, options in {"rows": {}, "people": {"groups": people}, "blocks": {"blocks": True}}.items():
        fit(run, **options)
        assert fit(run, **options).notes_[0].id == "from-ledger"
        with pytest.raises(ledger.LedgerError, match="another loss"):
            fit(run, loss="absolute", **options)
        with pytest.raises(ledger.LedgerError, match="another schema"):
            fit(run, names=("blood", "sugar"), **options)
    for run, options in {"rows": {"seed": 1}, "people": {"groups": np.roll(people, 1)}}.items():
        with pytest.raises(ledger.LedgerError, match="another grouping"):
            fit(run, **options)


def test_users_on_another_axis_and_other_columns_of_people_are_other_data(tmp_path):
    subject = functools.partial(recorded_run.make_subject, absolute)
    assert subject(np.ones((3, 500)), 500).schema != subject(np.ones((4, 500)), 500).schema
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.table({"x": [1.0, 2.0], "a": [0, 1], "b": [1, 0]}), tmp_path / "rows.parquet")
    tables_of = [
        tables.parquet(tmp_path / "rows.parquet", columns=["x"], person=person, users=2, max_rows=1)
        for person in ("a", "b", tables.hashed("a", key=bytes(16)))
    ]
    assert len({subject(table, 2).grouping for table in tables_of}) == 3
