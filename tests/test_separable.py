"""A program that passes keeps users apart to the last bit; what does not is refused, at its own line."""

import inspect
import pickle
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.custom_derivatives import linear_call
from jax.experimental.buffer_callback import buffer_callback
from jax.extend import core
from jax.interpreters import batching
from option_groups import group_options
from tolerances import rtol

from jaxdpbo import dp_gd, drivers, ledger, minimize, per_user, separable
from jaxdpbo.guarantee import assumptions
from jaxdpbo.separable import equations, primitives, separability_check

USERS, WIDTH = 7, 3
DATA = np.random.default_rng(0).normal(size=(USERS, WIDTH))
POINT = np.array([0.3, -0.2, 1.1])


@pytest.fixture(autouse=True, scope="module")
def broadcasting():
    """Objectives are written as users write them."""
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        yield


def distance(point, data):
    return jnp.sum(jnp.square(data - point), axis=1)


def turns(point, data):
    return jax.lax.scan(lambda sum, k: (sum + distance(k * point, data), None), jnp.zeros(USERS), jnp.arange(4.0))[0]


def halved(point, row):
    """A loop that runs until this person is done."""
    return jax.lax.while_loop(lambda left: left > 1, lambda left: left / 2, jnp.sum(jnp.square(row - point)))


@jax.custom_jvp
def steep(x):
    return x**2


steep.defjvp(lambda primals, tangents: (steep(*primals), 3 * tangents[0]))


@jax.custom_jvp
def mixing(x):
    return x**2


mixing.defjvp(lambda primals, tangents: (mixing(*primals), jnp.sum(tangents[0]) * jnp.ones(USERS)))


def slopes_of(loss):
    def slopes(point, data):
        return jax.vmap(lambda along: jax.jvp(lambda at: loss(at, data), (point,), (along,))[1])(jnp.eye(WIDTH))

    return slopes


PASS = {
    "distances": distance,
    "one person's loss": lambda p, x: jax.vmap(lambda row: jnp.linalg.norm(row - p))(x),
    "a loop over people": lambda p, x: jax.lax.map(lambda row: jnp.linalg.norm(row - p), x),
    "a loop over people, each until done": lambda p, x: jax.lax.map(lambda row: halved(p, row), x),
    "a loop inside a loop over people": lambda p, x: jax.lax.map(lambda row: jax.lax.map(jnp.sin, row).sum(), x),
    "systems": lambda p, x: jax.vmap(lambda row: jnp.linalg.solve(jnp.eye(3) + jnp.outer(row, row), p)[0])(x),
    "users as columns": lambda p, x: jax.scipy.linalg.cho_solve((jnp.eye(3) + jnp.outer(p, p), True), x.T)[0],
    "a network": lambda p, x: jnp.tanh(x @ jnp.outer(p, jnp.ones(4))) @ jnp.arange(4.0),
    "turns": turns,
    "branches of values": lambda p, x: jnp.where(distance(p, x) > 1, 1.0, distance(p, x)),
    "a public branch": lambda p, x: jax.lax.cond(p[0] > 0, lambda: distance(p, x), lambda: distance(2 * p, x)),
    "a public column": lambda p, x: x[:, jnp.argmax(p)] + x[:, 0],
    "own index": lambda p, x: p[jnp.argmax(x, axis=1)],
    "products": lambda p, x: jnp.einsum("nd,nd->n", x, x) + jnp.einsum("nd,d->n", x, p),
    "special functions": lambda p, x: jax.nn.logsumexp(x * p, 1) + jax.scipy.special.gammaln(distance(p, x)),
    "public draws": lambda p, x: distance(p, x) + jax.random.normal(jax.random.key(0), (USERS,)),
    "own order": lambda p, x: jax.vmap(lambda row: jax.lax.top_k(row, 2)[0].sum())(x) + jnp.median(x, axis=1),
    "own eigenvalues": lambda p, x: jax.vmap(lambda row: jnp.linalg.eigvalsh(jnp.outer(row, row))[0])(x),
    "own spectrum": lambda p, x: abs(jnp.fft.fft(x)[:, 0]),
    "a public value for a user": lambda p, x: distance(p, x).at[0].set(p[0]),
    "a mean that nobody reads": lambda p, x: (x.mean(), distance(p, x))[1],
    "checkpointed": lambda p, x: jax.checkpoint(distance)(p, x),
    "jitted": lambda p, x: jax.jit(distance)(p, x),
    "a derivative of its own": lambda p, x: steep(distance(p, x)),
    "columns in pairs": lambda p, x: jnp.pad(x, ((0, 0), (0, 1))).reshape(USERS, 2, 2)[:, 0, 1],
    "own place": lambda p, x: jax.vmap(lambda row: row.at[jnp.argmax(row)].set(0.0))(x)[:, 0],
    "own convolution": lambda p, x: jax.lax.conv_general_dilated(x[:, None], p[None, None], (1,), "SAME")[:, 0, 0],
    "a public part of a loop over people": lambda p, x: (
        lambda own, same: own + same[::-1]
    )(*jax.lax.map(lambda row: (jnp.sum(row), p[0]), x)),
    "slopes": slopes_of(lambda p, x: steep(distance(p, x))),
}  # fmt: skip


def standardised(p, x):
    return distance(p, (x - x.mean(0)) / x.std(0))


def helper(x):
    return x - jnp.mean(x)


def buffered(p, x):
    return distance(p, x) + buffer_callback(lambda *_: None, jax.ShapeDtypeStruct((), x.dtype))(p[0])


def hiding(p, x):
    def called(_, value):
        return jax.pure_callback(lambda one: one, jax.ShapeDtypeStruct((), x.dtype), value)

    return distance(p, x) + linear_call(called, called, (), p[0])


REFUSED = {
    "standardised over users": (standardised, "reduce_sum .* reduces over users"),
    "sorted": (lambda p, x: jnp.sort(distance(p, x)), "sort .* sorts users"),
    "softmax over users": (lambda p, x: jax.nn.softmax(distance(p, x)), "reduces over users"),
    "a mean subtracted, in a jitted helper": (lambda p, x: jax.jit(helper)(distance(p, x)), "reduces over users"),
    "ranks": (lambda p, x: jnp.argsort(jnp.argsort(distance(p, x))) * 1.0, "sorts users"),
    "a sum so far": (lambda p, x: jnp.cumsum(distance(p, x)), "accumulates over users"),
    "nearest neighbours": (lambda p, x: jnp.sum((x[:, None] - x[None]) ** 2, -1).min(1), "different axes"),
    "a Gram matrix": (lambda p, x: (x @ x.T).sum(1), "multiplies users with users"),
    "a carry": (lambda p, x: jax.lax.scan(lambda c, r: (c + r.sum(), c), 0.0, x)[1], "carries values from one"),
    "all others in each turn": (
        lambda p, x: jax.lax.map(lambda row: jnp.sum(row[None] * x, axis=1), x)[:, 0],
        "combines the record of one turn with other records",
    ),
    "turned around": (lambda p, x: distance(p, x)[::-1], "reverses the order"),
    "rolled": (lambda p, x: jnp.roll(distance(p, x), 1), "takes a part of the users"),
    "until all are done": (lambda p, x: jax.vmap(lambda row: halved(p, row))(x), "until every user is done"),
    "einsum over users": (lambda p, x: jnp.einsum("nd,md->n", x, x), "reduces over users"),
    "segments by private ids": (
        lambda p, x: jax.ops.segment_sum(distance(p, x), jnp.argmax(x, 1), num_segments=USERS),
        "at a place that depends",
    ),
    "segments by public ids": (
        lambda p, x: jax.ops.segment_sum(distance(p, x), jnp.arange(USERS) // 2, num_segments=USERS),
        "into others' places",
    ),
    "placed in reverse": (
        lambda p, x: jnp.zeros(USERS).at[jnp.arange(USERS)[::-1]].set(distance(p, x)), "into others' places",
    ),
    "placed in their order": (
        lambda p, x: jnp.zeros(USERS).at[jnp.arange(USERS)].set(distance(p, x)), "into others' places",
    ),
    "added in reverse": (
        lambda p, x: distance(p, x).at[jnp.arange(USERS)[::-1]].add(x[:, 0]), "into others' places",
    ),
    "rows placed in reverse": (
        lambda p, x: jnp.zeros((USERS, WIDTH)).at[jnp.arange(USERS)[::-1]].set(x)[:, 0], "into others' places",
    ),
    "a branch by one record": (
        lambda p, x: jax.lax.cond(x[0, 0] > 0, lambda: distance(p, x), lambda: distance(2 * p, x)), "chooses a branch",
    ),
    "one user's value for another": (lambda p, x: distance(p, x).at[0].set(x[1, 0]), "takes a part of the users"),
    "reshaped across": (lambda p, x: x.reshape(WIDTH, USERS).sum(0), "reshapes the axis of users away"),
    "a convolution": (lambda p, x: jnp.convolve(distance(p, x), jnp.ones(3), mode="same"), "convolves users"),
    "a spectrum of users": (lambda p, x: abs(jnp.fft.fft(x, axis=0)).sum(1), "along the axis of users"),
    "a callback": (
        lambda p, x: jax.pure_callback(lambda v: v, jax.ShapeDtypeStruct((USERS,), x.dtype), distance(p, x)),
        "no analysis",
    ),
    "a derivative that mixes": (slopes_of(lambda p, x: mixing(distance(p, x))), "reduces over users"),
    "in a scan": (
        lambda p, x: jax.lax.scan(lambda c, _: (helper(c), None), distance(p, x), None, length=2)[0],
        "reduces over users",
    ),
    "picked by rank": (lambda p, x: x[jnp.argsort(distance(p, x)), 0], "sorts users"),
    "an inverse of users": (lambda p, x: jnp.linalg.inv(jnp.ones((USERS, USERS)) + x[:, :1])[:, 0], "across|of users"),
    "convolved with users": (
        lambda p, x: jax.lax.conv_general_dilated(jnp.ones((1, USERS, 9)), x[None], (1,), "VALID")[0, 0],
        "convolves users",
    ),
    "a factor of users": (
        lambda p, x: jax.lax.linalg.cholesky(jnp.eye(USERS) + 0 * x[:, :1], symmetrize_input=False)[:, 0],
        "factors a matrix of users",
    ),
    "eigenvalues of users": (
        lambda p, x: jax.lax.linalg.eigh(jnp.eye(USERS) * x[:, :1], symmetrize_input=False)[1],
        "factors a matrix of users",
    ),
    "places in rows of all users": (
        lambda p, x: jax.vmap(lambda row, i: row.at[i].set(0.0))(
            jnp.broadcast_to(x[:, 0], (USERS, USERS)), jnp.arange(USERS)
        ).sum(1),
        "reduces over users",
    ),
    "a loop until the last has converged": (
        lambda p, x: jax.scipy.special.betainc(x[:, 0], jnp.full(USERS, 2.0), jnp.full(USERS, 0.5)),
        "is not known to keep users apart",
    ),
    "a buffer that Python fills": (buffered, "buffer_callback .* runs code that no analysis sees"),
    "a callback that a linear function hides": (hiding, "no operation of JAX"),
    "no record at all": (lambda p, x: jnp.ones(USERS), "depend on no record"),
}  # fmt: skip


def checked(objective, data=DATA):
    return separable.check_separable(objective, POINT, data)


def neighbours(data):
    for record in range(len(data)):
        other = data.copy()
        other[record] = -3.0 * data[record] + record
        yield record, other


def keeps_users_apart(program, data=DATA):
    """Entries of users whose record is the same are the same to the last bit."""
    point = np.resize(POINT, data.shape[1])
    before = np.asarray(program(point, data))
    for record, other in neighbours(data):
        after = np.asarray(program(point, other))
        rest = np.arange(before.shape[-1]) != record
        if not np.array_equal(before[..., rest], after[..., rest], equal_nan=True):
            return False
    return True


@pytest.mark.parametrize("name", PASS)
def test_what_keeps_users_apart_passes(name):
    program = checked(PASS[name])
    assert program.axis == (1 if name == "slopes" else 0)
    np.testing.assert_array_equal(jax.jit(program)(POINT, DATA), jax.jit(PASS[name])(POINT, DATA))


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_is_refused_at_its_line(name):
    objective, said = REFUSED[name]
    with pytest.raises(separable.NotSeparable, match=said) as caught:
        checked(objective)
    if line := re.search(r" at (\S+):(\d+) \(", str(caught.value)):
        assert line[1] == __file__
        lines = [inspect.getsourcelines(each) for each in (objective, helper, mixing.jvp, distance, halved)]
        assert any(first <= int(line[2]) < first + len(text) for text, first in lines)
    else:
        assert name == "no record at all"


def test_batched_factorisations_pass_where_there_are_cpus_alone(monkeypatch):
    """Whichever is the default: on an accelerator a batch may be iterated until all have converged."""

    def largest(point, rows):
        return jnp.linalg.eigvalsh(rows[:, :, None] * rows[:, None] + jnp.diag(point))[:, -1]

    checked(largest)
    separable.per_user(lambda point, row: largest(point, row[None])[0])(POINT, DATA)
    monkeypatch.setattr(separability_check.backend, "backends", lambda: {"cpu": None, "cuda": None})
    with pytest.raises(separable.NotSeparable, match="iterates on accelerators"):
        checked(largest)


def test_what_may_be_made_of_records_is_refused():
    """Captured arrays, one array in two roles, no axis, axes of two lengths."""
    constant = jnp.asarray(DATA[:, 0])
    with pytest.raises(ValueError, match=r"captures an array of shape \(7,\)"):
        checked(lambda p, x: distance(p, x) + constant)
    with pytest.raises(ValueError, match="one array both as public"):
        separable.check_separable(lambda p, d: d[0].sum(1) + d[1][:, 0], POINT, (DATA, DATA), (0, None))
    for axes, shapes in ((None, "lengths"), ((0, 1), "lengths")):
        with pytest.raises(ValueError, match=shapes):
            separable.check_separable(lambda p, d: d[0].sum(1), POINT, (DATA, DATA.copy()), axes)
    with pytest.raises(ValueError, match="users = 9, got 7"):
        separable.check_separable(distance, POINT, DATA, users=9)
    with pytest.raises(TypeError, match="objective must return an array of real numbers, got str"):
        checked(lambda p, x: "text")


def test_public_leaves_may_be_centred_and_users_may_be_columns():
    def loss(point, data):
        mine, public = data["mine"], data["public"]
        return jnp.sum(jnp.square(mine - point[:, None]), axis=0) + (public - public.mean()).sum()

    data = {"mine": DATA.T, "public": DATA + 1}
    assert separable.check_separable(loss, POINT, data, {"mine": 1, "public": None}).axis == 0
    with pytest.raises(separable.NotSeparable):
        separable.check_separable(loss, POINT, data, {"mine": 1, "public": 0})


def steps_of(width):
    """Functions of ``(USERS, width)`` arrays, the last eight of which mix users."""
    return [
        jnp.sin, jnp.abs, lambda x: x * 2.0, lambda x: x + jnp.arange(float(width)), lambda x: jnp.cumsum(x, axis=1),
        lambda x: jnp.sort(x, axis=1), lambda x: x[:, ::-1], lambda x: x @ jnp.ones((width, width)), jax.nn.softmax,
        lambda x: x - x.mean(1, keepdims=True), lambda x: x.T.reshape(width, USERS).T,
        lambda x: jnp.roll(x, 1, axis=1), lambda x: jax.lax.map(jnp.tanh, x), lambda x: x.at[:, 0].set(x[:, 1]),
        lambda x: jnp.where(x > x[:, :1], x, 0.0), lambda x: jnp.take_along_axis(x, jnp.argsort(x, axis=1), axis=1),
        jax.vmap(lambda r: jnp.outer(r, r).sum(0)), lambda x: jnp.concatenate([x[:, 1:], x[:, :1]], axis=1),
        lambda x: jax.lax.fori_loop(0, 2, lambda _, y: y / (1 + jnp.abs(y)), x),
        jax.vmap(lambda r: r.at[jnp.argmax(r)].set(0.0)), jax.vmap(jnp.sort, in_axes=1, out_axes=1),
        lambda x: x - x.mean(0), lambda x: jnp.sort(x, axis=0), lambda x: x[::-1], lambda x: jnp.roll(x, 1, axis=0),
        lambda x: x.reshape(width, USERS).T, lambda x: x / jnp.linalg.norm(x), lambda x: jnp.cumsum(x, axis=0),
        lambda x: jax.lax.scan(lambda c, r: (c + r, c), jnp.zeros(width), x)[1],
    ]  # fmt: skip


SQUARE = np.random.default_rng(1).normal(size=(USERS, USERS))  # here a wrong axis is as long as the right one


def test_whatever_random_program_passes_keeps_users_apart(trials):
    """Eager and jitted; some of those refused do mix, or the programs would prove nothing."""
    rng, passed, mixing_refused = np.random.default_rng(0), 0, 0
    count = trials("random programs checked for separability", 40, 500, 0)
    for number in range(count):
        data = (DATA, SQUARE)[number % 2]
        point, steps = np.ones(data.shape[1]), steps_of(data.shape[1])
        steps = [steps[k] for k in rng.choice(len(steps), size=rng.integers(1, 6))]

        def program(point, data, steps=steps):
            for step in steps:
                data = step(data)
            return distance(point, data)

        try:
            run = separable.check_separable(program, point, data)
        except separable.NotSeparable:
            mixing_refused += not keeps_users_apart(jax.jit(program), data)
            continue
        passed += 1
        assert keeps_users_apart(jax.jit(run), data)
        with jax.disable_jit():
            assert keeps_users_apart(run, data)
    assert min(passed, mixing_refused) > 0.15 * count


def test_a_planted_unsound_rule_is_seen(monkeypatch):
    """The property above, of one program, with a rule that lets a sort of users pass."""
    monkeypatch.setitem(separable.separability_check.rules.RULES, "sort", lambda equation, axes: axes[0])
    run = checked(lambda p, x: jnp.sort(distance(p, x)))
    assert not keeps_users_apart(run)


# Objectives that keep users apart in a run.


@jax.checkpoint
def one_distance(point, row):
    return jnp.sum(jnp.square(row - point))


@jax.custom_batching.custom_vmap
def all_at_once(x):
    return x


@all_at_once.def_vmap
def _(size, batched, x):
    return x - x.mean(0), batched[0]


STRANGER = core.Primitive("stranger")
STRANGER.def_abstract_eval(lambda x: x)
batching.primitive_batchers[STRANGER] = lambda arrays, axes: (arrays[0][::-1], axes[0])

OF_ONE = {
    "custom_vmap": (lambda p, row: all_at_once(one_distance(p, row)), "no analysis"),
    "a print": (lambda p, row: [jax.debug.print("{}", row), one_distance(p, row)][1], "no analysis"),
    "a callback that nothing reads": (
        lambda p, row: [
            jax.pure_callback(lambda v: v, jax.ShapeDtypeStruct((), row.dtype), row[0]), one_distance(p, row)
        ][1],
        "no analysis",
    ),
    "inside a loop": (
        lambda p, row: jax.lax.fori_loop(0, 3, lambda _, x: all_at_once(x), one_distance(p, row)), "no analysis",
    ),
    "a stranger's primitive": (lambda p, row: STRANGER.bind(one_distance(p, row)), "no operation of JAX"),
    "a loop until the last has converged": (
        lambda p, row: jax.scipy.special.betainc(row[0], 2.0, p[0]), "under vmap",
    ),
    "a kernel of one's own": (lambda p, row: jnp.convolve(row, row * p[0])[0], "under vmap"),
    "rbg keys of records": (
        lambda p, row: jax.random.normal(jax.random.fold_in(jax.random.key(0, impl="rbg"), row[0].astype(int))),
        "another generator than threefry",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", OF_ONE)
def test_the_loss_of_one_person_holds_nothing_that_vmap_may_mix(name):
    loss, said = OF_ONE[name]
    with pytest.raises(separable.NotSeparable, match=f"{said}.* at {re.escape(__file__)}"):
        per_user(loss)(POINT, DATA)


def test_what_is_refused_under_vmap_does_mix():
    """One loop for all multiplies who had converged by what is NaN by then; a kernel of zeros makes NaN of inf."""

    def of_all(loss, rows):
        return np.asarray(jax.jit(jax.vmap(loss, in_axes=(None, 0)))(POINT, rows))

    loss, _ = OF_ONE["a loop until the last has converged"]
    rows = np.full((5, 3), float(jnp.finfo(jnp.result_type(float)).max) ** 0.52)
    rows[0, 0] = 5.0
    assert np.all(np.isfinite(of_all(loss, rows[1:])))
    assert np.all(np.isnan(of_all(loss, rows)[1:])) or jax.__version_info__ >= (0, 12)  # refused there all the same
    loss, _ = OF_ONE["a kernel of one's own"]
    rows = np.ones((5, 3))
    rows[0, 0] = np.inf
    assert np.all(np.isfinite(of_all(loss, rows[1:])))
    mixed = not np.all(np.isfinite(of_all(loss, rows)[1:]))
    assert mixed or rows.dtype != jnp.result_type(float)  # float32's convolution on CPUs reads no zeros


def test_every_primitive_that_is_followed_is_one_of_jaxs():
    of_some_releases = {"closed_call", "log2", "one_minus_square", "polynomial"}
    followed = separability_check.FOLLOWED
    assert {*equations.CALLS, *equations.LOOPS} <= followed <= primitives.OF_JAX.keys() | of_some_releases
    assert "stranger" not in separability_check.FOLLOWED
    assert not separability_check.FOLLOWED & {*primitives.OUTSIDE}


def test_a_loss_of_one_person_is_that_of_each():
    def until_done(point, record):
        return halved(point, record["row"]) + record["all"].sum()

    data = {"row": DATA.T, "all": POINT}
    objective = per_user(until_done, {"row": 1, "all": None})
    expected = [until_done(POINT, {"row": row, "all": POINT}) for row in DATA]
    np.testing.assert_allclose(objective(POINT, data), expected, rtol=rtol(1e-12))
    assert keeps_users_apart(lambda p, x: objective(p, {"row": x.T, "all": POINT}))
    assert objective == per_user(until_done, {"row": 1, "all": None}) != per_user(until_done)
    assert pickle.loads(pickle.dumps(per_user(one_distance))) == per_user(one_distance)
    with pytest.raises(ValueError, match=r"captures an array of shape \(7, 3\)"):
        per_user(lambda p, row: one_distance(p, row - jnp.asarray(DATA).mean(0)))(POINT, DATA)
    with pytest.raises(ValueError, match="user_axes must name axes of one length"):
        per_user(until_done, None)(POINT, data)
    with pytest.raises(TypeError, match="loss must be a function"):
        per_user(3)


def centred(point, data):
    return distance(point, data - data.mean(0))


CONFIG = dp_gd.config(users=USERS, steps=2, mu=1.0, bounds=[(-1.0, 1.0)] * WIDTH)
SLOPES = dp_gd.gradient_objective(distance)
BOX, BUDGET = [(-1.0, 1.0)] * WIDTH, {"mu": 1.0, "steps": 2, "batch": 1}
RANGE = {"users": USERS, "mu": 1.0, "evaluations": 2, "loss_range": (0.0, 9.0)}
RUNS = {
    "minimize": lambda f, **axes: minimize(f, DATA, BOX, **group_options(**BUDGET, **axes)).guarantee,
    "minimize from Python": lambda f, **axes: (
        minimize(f, DATA, BOX, **group_options(traceable=False, **BUDGET, **axes)).guarantee
    ),
    "run_scan": lambda f, **axes: (
        drivers.run_scan(dp_gd.algorithm, slopes_of_users(f), DATA, CONFIG, **group_options(**axes)).guarantee
    ),
    "run_loop": lambda f, **axes: (
        drivers.run_loop(dp_gd.algorithm, slopes_of_users(f), DATA, CONFIG, **group_options(**axes)).guarantee
    ),
    "sweep": lambda f, **axes: drivers.sweep(
        dp_gd.algorithm, slopes_of_users(f), DATA, CONFIG, **group_options(seeds=2, **axes)
    ).guarantees[0],
    "PrivateObjective": lambda f, **axes: evaluated(drivers.PrivateObjective(f, DATA, **RANGE, **axes)),
}


def slopes_of_users(loss):
    return (
        loss
        if isinstance(loss, separable.SeparableObjective)
        else {distance: SLOPES}.get(loss, dp_gd.gradient_objective(loss))
    )


def evaluated(objective):
    objective(POINT)
    return objective.guarantee


@pytest.mark.parametrize("name", RUNS)
def test_a_run_whose_objective_is_checked_assumes_four_things(name):
    run = RUNS[name]
    assert set(run(distance).assumptions) == {*LEFT, assumptions.SEPARABLE_LOSSES} - SHOWN
    assert set(run(distance, user_axes=0).assumptions) == LEFT
    with pytest.raises(separable.NotSeparable, match=r"reduce_sum .* reduces over users"):
        run(centred, user_axes=0)


SHOWN = {assumptions.OWN_ROWS, assumptions.COMPILED_APART}
LEFT = {assumptions.RANDOM_BITS, assumptions.PUBLIC_CONFIG, *SHOWN}


def test_a_run_on_the_loss_of_one_person_assumes_the_same_and_finds_the_same():
    objective = per_user(one_distance)
    for run in (RUNS["minimize from Python"], RUNS["PrivateObjective"]):
        assert set(run(objective).assumptions) == LEFT
        with pytest.raises(ValueError, match="user_axes must not be given where the objective has its own"):
            run(objective, user_axes=0)
    seeded = {"key": jax.random.key(0), "insecure_key": True, "traceable": False, **BUDGET}
    found = [
        minimize(f, DATA, BOX, **group_options(**seeded, **axes)).release.point
        for f, axes in ((distance, {}), (distance, {"user_axes": 0}), (objective, {}))
    ]
    np.testing.assert_allclose(found[1:], [found[0]] * 2, rtol=rtol(1e-9))


def test_one_array_in_two_roles_and_an_objective_in_python_are_refused():
    def both(point, data):
        return distance(point, data[0]) + data[1].sum()

    with pytest.raises(ValueError, match="one array both as public and as the users"):
        minimize(both, (DATA, DATA), BOX, **group_options(users=USERS, user_axes=(0, None), **BUDGET))
    with pytest.raises(jax.errors.TracerArrayConversionError) as caught:
        minimize(lambda p, x: np.square(x - p).sum(1), DATA, BOX, **group_options(user_axes=0, **BUDGET))
    assert "user_axes needs an objective that JAX can trace" in caught.value.__notes__


def test_a_second_checked_run_compiles_nothing(compilations):
    RUNS["run_scan"](distance, user_axes=0)
    compilations.clear()
    RUNS["run_scan"](distance, user_axes=0)
    assert compilations["programs"] == 0


def test_a_release_that_was_not_checked_is_not_given_out_again_as_if_it_were(tmp_path):
    """The second call would evaluate nothing, and so check nothing."""
    ledger.create(tmp_path / "ledger", mu=2)
    options = {"ledger": drivers.Recording(tmp_path / "ledger", "one")}
    drivers.run_loop(dp_gd.algorithm, SLOPES, DATA, CONFIG, **group_options(**options))
    with pytest.raises(ledger.LedgerError, match="charged with another spend"):
        drivers.run_loop(dp_gd.algorithm, SLOPES, DATA, CONFIG, **group_options(user_axes=0, **options))


def test_steps_that_were_not_checked_keep_their_assumption_when_a_run_goes_on():
    """Nobody can say any more what the steps before ``state`` evaluated."""
    found = []

    def failing(point, data):
        if found:
            raise OSError
        return found.append(1) or np.asarray(dp_gd.gradient_objective(centred)(point, data))

    with pytest.raises(drivers.RunInterrupted) as caught:
        drivers.run_loop(dp_gd.algorithm, failing, DATA, CONFIG)
    snapshot = caught.value.snapshot
    after = drivers.run_loop(dp_gd.algorithm, SLOPES, DATA, CONFIG, user_axes=0, resume=snapshot).guarantee
    assert assumptions.SEPARABLE_LOSSES in after.assumptions


@pytest.mark.parametrize(
    ("axes", "error", "said"),
    [
        ("a", TypeError, "user_axes must be integers or None, got str"),
        (True, TypeError, "user_axes must be integers or None, got bool"),
        (np.zeros(2), TypeError, "user_axes must be integers or None, got ndarray"),
        (2, ValueError, r"user_axes must be axes of the leaves of data, got 2 for shape \(7, 3\)"),
        (-3, ValueError, "user_axes must be axes of the leaves of data, got -3"),
        ((0, 0), ValueError, "user_axes must be a prefix of the tree of data"),
        ({}, ValueError, "user_axes must"),
    ],
)
def test_axes_are_refused_in_one_sentence(axes, error, said):
    with pytest.raises(error, match=said):
        minimize(distance, DATA, BOX, **group_options(user_axes=axes, **BUDGET))
    with pytest.raises(error, match=said):
        per_user(one_distance, axes)(POINT, DATA)


# Python objectives: replay.


PYTHON = {
    "mean": lambda p, x: np.abs(x - x.mean(0)).sum(1),
    "rank": lambda p, x: np.argsort(np.argsort(x[:, 0])).astype(float),
    "nearest": lambda p, x: np.sort(np.abs(x[:, :1] - x[:, 0]), axis=1)[:, 1],
    "cumulative": lambda p, x: np.cumsum(x[:, 0]),
    "one bad record spoils all": lambda p, x: np.where(np.abs(x).max() > 1e3, np.nan, np.square(x - p).sum(1)),
}


@pytest.mark.parametrize("name", PYTHON)
def test_replay_finds_users_that_are_mixed(name):
    data = 150 * DATA
    found = separable.audit_separable(PYTHON[name], [POINT], data, USERS)
    assert not found
    assert all(i != j for i, j in found.mixed)
    assert found.largest == np.inf if name == "one bad record spoils all" else found.largest > 0


def test_replay_passes_what_keeps_users_apart_and_leaves_the_data_as_they_are():
    data = {"x": DATA.copy(), "name": np.array(list("abcdefg")), "public": np.ones(2)}
    loss = lambda p, d: np.where(d["name"] == "c", np.nan, np.square(d["x"] - p).sum(1))  # noqa: E731
    found = separable.audit_separable(loss, [POINT, 2 * POINT], data, USERS)
    assert found
    assert (found.mixed, found.largest, found.replaced) == ((), 0.0, 2 * USERS * 2)
    np.testing.assert_array_equal(data["x"], DATA)
    rounded = lambda p, d: loss(p, d) + 1e-13 * d["x"].sum()  # noqa: E731
    assert not separable.audit_separable(rounded, [POINT], data, USERS)
    assert separable.audit_separable(rounded, [POINT], data, USERS, tolerance=1e-9)
    zeroed = separable.audit_separable(
        PYTHON["mean"],
        [POINT],
        DATA,
        USERS,
        records=[2],
        replace=lambda x, i: np.where(np.arange(7)[:, None] == i, 0, x),
    )
    assert {i for i, _ in zeroed.mixed} == {2}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"users": 9}, "replace must be given"),
        ({"users": 0}, "users must be at least 1, got 0"),
        ({"records": [7]}, "records must be numbers of users in .0, 7"),
        ({"records": []}, "records must be numbers of users in .0, 7"),
        ({"objective": lambda p, x: x.sum()}, "losses of 7 users along the last axis"),
    ],
)
def test_replay_says_what_it_cannot_do(arguments, said):
    given = {"objective": PYTHON["mean"], "points": [POINT], "data": DATA, "users": USERS} | arguments
    with pytest.raises(ValueError, match=said):
        separable.audit_separable(**given)
