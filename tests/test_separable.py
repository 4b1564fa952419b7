"""A program that passes keeps users apart to the last bit; what does not is refused, at its own line."""

import inspect
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxdpbo.privacy import separable

USERS, WIDTH = 7, 3
DATA = np.random.default_rng(0).normal(size=(USERS, WIDTH))
POINT = np.array([0.3, -0.2, 1.1])


@pytest.fixture(autouse=True, scope="module")
def broadcasting():
    """Objectives are written as users write them."""
    with jax.numpy_rank_promotion("allow"):
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
    "slopes": slopes_of(lambda p, x: steep(distance(p, x))),
}  # fmt: skip


def standardised(p, x):
    return distance(p, (x - x.mean(0)) / x.std(0))


def helper(x):
    return x - jnp.mean(x)


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
    "turned around": (lambda p, x: distance(p, x)[::-1], "reverses the order"),
    "rolled": (lambda p, x: jnp.roll(distance(p, x), 1), "takes a part of the users"),
    "until all are done": (lambda p, x: jax.vmap(lambda row: halved(p, row))(x), "until every user is done"),
    "einsum over users": (lambda p, x: jnp.einsum("nd,md->n", x, x), "reduces over users"),
    "segments by private ids": (
        lambda p, x: jax.ops.segment_sum(distance(p, x), jnp.argmax(x, 1), num_segments=USERS),
        "at a place that depends",
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
    before = np.asarray(program(POINT, data))
    for record, other in neighbours(data):
        after = np.asarray(program(POINT, other))
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


def test_public_leaves_may_be_centred_and_users_may_be_columns():
    def loss(point, data):
        mine, public = data["mine"], data["public"]
        return jnp.sum(jnp.square(mine - point[:, None]), axis=0) + (public - public.mean()).sum()

    data = {"mine": DATA.T, "public": DATA + 1}
    assert separable.check_separable(loss, POINT, data, {"mine": 1, "public": None}).axis == 0
    with pytest.raises(separable.NotSeparable):
        separable.check_separable(loss, POINT, data, {"mine": 1, "public": 0})


STEPS = [
    jnp.sin, jnp.abs, lambda x: x * 2.0, lambda x: x + jnp.arange(float(WIDTH)), lambda x: jnp.cumsum(x, axis=1),
    lambda x: jnp.sort(x, axis=1), lambda x: x[:, ::-1], lambda x: x @ jnp.ones((WIDTH, WIDTH)), jax.nn.softmax,
    lambda x: x - x.mean(1, keepdims=True), lambda x: x.T.reshape(WIDTH, USERS).T, lambda x: jnp.roll(x, 1, axis=1),
    lambda x: jax.lax.map(jnp.tanh, x), lambda x: x.at[:, 0].set(x[:, 1]), lambda x: jnp.where(x > x[:, :1], x, 0.0),
    lambda x: jnp.take_along_axis(x, jnp.argsort(x, axis=1), axis=1), jax.vmap(lambda r: jnp.outer(r, r).sum(0)),
    lambda x: jax.lax.fori_loop(0, 2, lambda _, y: y / (1 + jnp.abs(y)), x),
    lambda x: jnp.concatenate([x[:, 1:], x[:, :1]], axis=1),
    # across users
    lambda x: x - x.mean(0), lambda x: jnp.sort(x, axis=0), lambda x: x[::-1], lambda x: jnp.roll(x, 1, axis=0),
    lambda x: x.reshape(WIDTH, USERS).T, lambda x: x / jnp.linalg.norm(x), lambda x: jnp.cumsum(x, axis=0),
    lambda x: jax.lax.scan(lambda c, r: (c + r, c), jnp.zeros(WIDTH), x)[1],
]  # fmt: skip


def test_whatever_random_program_passes_keeps_users_apart(trials):
    """Eager and jitted; some of those refused do mix, or the programs would prove nothing."""
    rng, passed, mixing_refused = np.random.default_rng(0), 0, 0
    count = trials("random programs checked for separability", 40, 500, 0)
    for _ in range(count):
        steps = [STEPS[k] for k in rng.choice(len(STEPS), size=rng.integers(1, 6))]

        def program(point, data, steps=steps):
            for step in steps:
                data = step(data)
            return distance(point, data)

        try:
            run = checked(program)
        except separable.NotSeparable:
            mixing_refused += not keeps_users_apart(jax.jit(program))
            continue
        passed += 1
        assert keeps_users_apart(jax.jit(run))
        assert keeps_users_apart(run)
    assert min(passed, mixing_refused) > 0.15 * count


def test_a_planted_unsound_rule_is_seen(monkeypatch):
    """The property above, of one program, with a rule that lets a sort of users pass."""
    monkeypatch.setitem(separable.check.rules.RULES, "sort", lambda equation, axes: axes[0])
    run = checked(lambda p, x: jnp.sort(distance(p, x)))
    assert not keeps_users_apart(run)
