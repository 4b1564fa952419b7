"""Primitives and generators are known as objects, not by name; axes count from either end; constants are declared."""

import itertools
import math
import os
import pickle
import subprocess
import sys
import tempfile
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend import core
from jax.extend.random import define_prng_impl
from jax.interpreters import batching, mlir
from option_groups import group_options
from tolerances import rtol

from jaxdpbo import Search, minimize, per_user, separable
from jaxdpbo.guarantee import assumptions
from jaxdpbo.separable import data_axes, primitives
from jaxdpbo.separable import separability_check as check_module

USERS = 4
POINT = jnp.array([0.3, -0.2, 1.1, 0.5])
DATA = np.random.default_rng(0).normal(size=(USERS, 4))  # as many columns as users: a wrong axis has the right length


@pytest.fixture(autouse=True, scope="module")
def broadcasting():
    """Objectives are written as users write them."""
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):
        yield


def check(objective, data=DATA, axes=0, **options):
    return separable.check_separable(objective, POINT, data, axes, **options)


def distance(point, row):
    return jnp.sum(jnp.square(row - point))


def distances(point, data):
    return jnp.sum(jnp.square(data - point), axis=1)


# Primitives.


def impostor(name):
    """A primitive of JAX's name, that turns the users around, in arrays and under vmap."""
    primitive = core.Primitive(name)
    primitive.def_abstract_eval(lambda x, **_: x)
    mlir.register_lowering(primitive, mlir.lower_fun(lambda x, **_: x[::-1], multiple_results=False))
    batching.primitive_batchers[primitive] = lambda arrays, axes, **_: (arrays[0][::-1], axes[0])
    return primitive


@pytest.mark.parametrize("name", ["neg", "copy_p", "tanh", "scatter_add", "stop_gradient", "name", "tie"])
def test_a_primitive_that_bears_a_name_of_jaxs_is_refused(name):
    stranger = impostor(name)
    with pytest.raises(separable.NotSeparable, match="no operation of JAX"):
        check(lambda p, x: stranger.bind(distances(p, x)))
    with pytest.raises(separable.NotSeparable, match="no operation of JAX"):
        per_user(lambda p, row: stranger.bind(distance(p, row)))(POINT, DATA)


@pytest.mark.parametrize("name", ["jit", "scan", "while", "cond", "remat2", "custom_linear_solve"])
def test_an_impostor_of_what_holds_a_program_is_refused_before_the_program_is_read(name):
    stranger = impostor(name)
    with pytest.raises(separable.NotSeparable, match="no operation of JAX"):
        check(lambda p, x: stranger.bind(distances(p, x), jaxpr=jax.make_jaxpr(jnp.sin)(1.0)))


def test_an_operation_inside_of_a_reduction_is_read():
    """The function that combines two numbers is a program of its own."""
    stranger = impostor("add")

    def total(x):
        return jax.lax.reduce(x, 0.0, lambda a, b: stranger.bind(a) + jnp.sin(b), (x.ndim - 1,))

    with pytest.raises(separable.NotSeparable, match="no operation of JAX"):
        check(lambda p, x: total(x))
    with pytest.raises(separable.NotSeparable, match="no operation of JAX"):
        per_user(lambda p, row: total(row))(POINT, DATA)


NOT_FOLLOWED = """
after_all all_gather all_gather_done all_gather_invariant all_gather_reduced all_gather_reduced_start all_gather_start
all_to_all all_to_all_done all_to_all_start axis_index call cholesky_update composite create_token dce_sink empty
eval_jaxpr from_edtype geqp3 get iota_2x32_shape ormqr pbroadcast pbroadcast_done pbroadcast_dynamic pbroadcast_start
philox2x32 philox4x32 pmax pmin ppermute ppermute_done ppermute_start precv preduced program_order psend psum psum_done
psum_invariant psum_invariant_start psum_start ragged_all_to_all ragged_dot_general reduce_scatter reduce_scatter_done
reduce_scatter_start scaled_dot stage swap symmetric_product threefry4x32 tie to_edtype unreduced_pmax unreduced_pmin
unreduced_psum unreduced_psum_start unreduced_reduce_scatter unreduced_reduce_scatter_start vary_unreduced_cast
vary_unreduced_cast_p
"""


def test_which_of_jaxs_primitives_are_refused():
    """Of all supported releases: a new one is refused until somebody has read its rule for vmap, and is seen here."""
    refused = set(NOT_FOLLOWED.split())
    assert set(primitives.OF_JAX) - check_module.FOLLOWED <= refused
    assert not refused & check_module.FOLLOWED


# Generators.


def generator(**changed):
    """Threefry, with another function in the place of one."""
    own = jax.random.key(0).dtype._impl._asdict() | {"name": "threefry2x32", "tag": "fry"} | changed
    return define_prng_impl(**own)


def mixing_bits(keys, bit_width, shape):
    return jnp.zeros(shape, f"uint{bit_width}")


MIXING = generator(random_bits=mixing_bits)


@pytest.mark.parametrize("spec", [MIXING, generator()], ids=["other bits", "threefry's own functions"])
def test_a_strangers_generator_is_judged_by_its_functions(spec):
    """Of records and of public seeds; the name says nothing, the functions do."""

    def of_record(p, row):
        return distance(p, row) + jax.random.uniform(jax.random.key(row[0].astype(int), impl=spec))

    def of_public(p, x):
        return distances(p, x) + jax.random.uniform(jax.random.key(0, impl=spec), (USERS,))

    def of_key(p, data):
        rows, keys = data
        return distances(p, rows) + jax.vmap(jax.random.uniform)(keys)

    keys = jax.random.split(jax.random.key(1, impl=spec), USERS)
    for run in (
        lambda: per_user(of_record)(POINT, DATA), lambda: check(of_public),
        lambda: check(of_key, (jnp.asarray(DATA), keys), (0, 0)),
        lambda: check(lambda p, x: jax.lax.map(lambda row: of_record(p, row), x)),
    ):  # fmt: skip
        if spec is MIXING:
            with pytest.raises(separable.NotSeparable, match="generator that is not JAX's own"):
                run()
        else:
            run()


@pytest.mark.parametrize("name", ["rbg", "unsafe_rbg", "philox4x32", "threefry4x32"])
def test_records_make_keys_of_threefry_alone_and_public_seeds_of_any_of_jaxs(name):
    def of_record(p, row):
        return distance(p, row) + jax.random.uniform(jax.random.key(row[0].astype(int), impl=name))

    for run in (
        lambda: per_user(of_record)(POINT, DATA),
        lambda: check(lambda p, x: jax.lax.map(lambda row: of_record(p, row), x)),
        lambda: check(lambda p, x: jax.vmap(of_record, (None, 0))(p, x)),
    ):
        with pytest.raises(separable.NotSeparable, match="makes keys of records by another generator than threefry"):
            run()
    check(lambda p, x: distances(p, x) + jax.random.uniform(jax.random.key(0, impl=name), (USERS,)))


# Axes.

CUBE = np.random.default_rng(1).normal(size=(USERS, USERS, USERS))
CALLS = {  # primitive, parameters with an axis from behind; the first of these axes is the users'
    "sort": lambda x, axis: jax.lax.sort_p.bind(x, dimension=axis, is_stable=True, num_keys=1)[0],
    "cumsum": lambda x, axis: jax.lax.cumsum_p.bind(x, axis=axis, reverse=False),
    "cummax": lambda x, axis: jax.lax.cummax_p.bind(x, axis=axis, reverse=False),
    "rev": lambda x, axis: jax.lax.rev_p.bind(x, dimensions=(axis,)),
    "reduce_sum": lambda x, axis: jax.lax.reduce_sum_p.bind(x, axes=(axis,), out_sharding=None),
    "reduce_max": lambda x, axis: jax.lax.reduce_max_p.bind(x, axes=(axis,), out_sharding=None),
    "argmax": lambda x, axis: jax.lax.argmax_p.bind(x, axes=(axis,), index_dtype=np.dtype(np.int32)),
    "concatenate": lambda x, axis: jax.lax.concatenate_p.bind(x[:2], x[2:], dimension=axis),
    "split": lambda x, axis: jax.lax.split_p.bind(x, sizes=(1, USERS - 1), axis=axis)[1],
    "top_k": lambda x, axis: jax.lax.top_k_p.bind(x, k=USERS, axis=axis)[0],
    "transpose": lambda x, axis: jax.lax.transpose_p.bind(x, permutation=(axis, axis + 1, axis + 2)),
    "squeeze": lambda x, axis: jax.lax.squeeze_p.bind(x[None], dimensions=(axis - 1,)),
    "broadcast_in_dim": lambda x, axis: jax.lax.broadcast_in_dim_p.bind(
        x, shape=(USERS,) * 3, broadcast_dimensions=(axis, axis + 1, axis + 2), sharding=None
    ),
    "dot_general": lambda x, axis: jax.lax.dot_general_p.bind(
        x, x, dimension_numbers=(((axis,), (axis,)), ((), ())), precision=None, preferred_element_type=None,
        out_sharding=None,
    ),
    "unstack": lambda x, axis: jnp.stack(jax.lax.unstack(x, axis=axis)),
}  # fmt: skip


def moves_others(run, data, axis):
    """Whether another user's entries move with one user's record; users of the results are their first axis."""
    before = np.asarray(run(data))
    for record in range(USERS):
        other = np.array(data)
        other[(slice(None),) * axis + (record,)] *= -3.0
        after = np.asarray(run(other))
        rest = np.arange(USERS) != record
        if not np.array_equal(before[rest], after[rest]):
            return True
    return False


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("users", range(3))
def test_axes_from_behind_are_the_same_axes(name, users):
    """Users along any axis of a cube, and any axis from behind: refused, or no user moves another's entries."""
    call, seen = CALLS[name], []
    for axis in (-3, -2, -1):

        def objective(point, data, axis=axis):
            return call(data, axis)

        try:
            program = separable.check_separable(objective, POINT, CUBE, users)
        except separable.NotSeparable:
            continue
        except Exception as error:  # JAX takes no such axis, and says so
            seen.append(type(error))
            continue
        seen.append(program.axis)
        assert not moves_others(lambda data, run=program: jnp.moveaxis(run(POINT, data), run.axis, 0), CUBE, users)
    assert len(seen) < 4


FROM_BEHIND = {  # as JAX takes them; of a matrix, its first axis or its last
    "sort": lambda x, axis: jax.lax.sort_p.bind(x, dimension=axis, is_stable=True, num_keys=1)[0],
    "split": lambda x, axis: jax.lax.split_p.bind(x, sizes=(1, USERS - 1), axis=axis)[1],
    "unstack": lambda x, axis: jax.lax.stack_p.bind(*jax.lax.unstack_p.bind(x, axis=axis), axis=0),
    "in a loop": lambda x, axis: jax.lax.fori_loop(0, 2, lambda _, y: FROM_BEHIND["sort"](y, axis), x),
}


@pytest.mark.parametrize("name", FROM_BEHIND)
def test_under_vmap_axes_from_behind_are_refused(name):
    """JAX's rules for vmap take axes from the front: one from behind may become the users' own."""
    call = FROM_BEHIND[name]
    for axis in (-1, -2):
        with pytest.raises(separable.NotSeparable, match="counts an axis from behind"):
            per_user(lambda p, part, axis=axis: call(part, axis), 2)(POINT, CUBE)
    per_user(lambda p, part: call(part, 1), 2)(POINT, CUBE)
    per_user(lambda p, part: part + call(jnp.outer(p, p), -1)[0, 0], 2)(POINT, CUBE)


def test_a_sort_along_the_last_axis_of_all_does_mix():
    """What the refusal above is about: users along the last axis, one record sorted along its own last."""
    mapped = jax.vmap(lambda part: FROM_BEHIND["sort"](part, -1), in_axes=2)
    assert moves_others(lambda data: mapped(jnp.asarray(data)), CUBE, 2)


# One array in two roles.


def both_roles(mine, public):
    with pytest.raises(ValueError, match="one array both as public and as the users'"):
        separable.expect_one_role((mine, public), (0, None))
    with pytest.raises(ValueError, match="one array both as public and as the users'"):
        separable.expect_one_role({"public": [public, public], "mine": mine}, {"public": None, "mine": 0})


@pytest.mark.parametrize("view", [lambda x: x[:], lambda x: x.T, lambda x: x[1:2], lambda x: x.reshape(-1)])
def test_a_view_of_the_users_array_is_no_public_leaf(view):
    both_roles(DATA, view(DATA))
    both_roles(view(DATA).view(np.int64), DATA)
    with pytest.raises(ValueError, match="one array both as public"):
        minimize(
            lambda p, d: distances(p, d[0]) + d[1].sum(),
            (DATA, view(DATA)),
            [(-1, 1)] * 4,
            user_axes=(0, None),
            users=USERS,
            mu=1.0,
            search=Search(steps=1, batch=1),
        )


def same_buffer(array):
    other = jax.make_array_from_single_device_arrays(array.shape, array.sharding, [array])
    assert other is not array
    return other


def test_a_buffer_of_jaxs_is_no_public_leaf_either():
    array = jnp.asarray(DATA)
    both_roles(array, same_buffer(array))
    both_roles(array, np.asarray(array))
    both_roles(np.asarray(array)[1:], array)
    keys = jax.random.split(jax.random.key(0), USERS)
    both_roles(keys, jax.random.wrap_key_data(jax.random.key_data(keys)))
    both_roles(keys, jax.random.key_data(keys))


def test_a_buffer_on_an_accelerator_is_known_by_its_address(monkeypatch):
    """Where NumPy sees no memory: here by taking its eyes."""
    monkeypatch.setattr(data_axes.np, "shares_memory", lambda *_: False)
    array = jnp.asarray(DATA)
    both_roles(array, same_buffer(array))
    separable.expect_one_role((array, jnp.asarray(DATA) + 1), (0, None))


def test_parts_that_share_no_number_may_be_in_two_roles():
    whole = np.zeros((USERS, 6))
    separable.expect_one_role((whole[:, 1:], whole[:, 0]), (0, None))
    separable.expect_one_role((jnp.asarray(DATA), jnp.asarray(DATA) + 1), (0, None))
    separable.expect_one_role((np.zeros((USERS, 0)), np.zeros((USERS, 0))), (0, None))
    separable.expect_one_role((whole, whole[:, 1:]), (0, 0))
    separable.expect_one_role((np.ones(USERS), 2.0, np.float64(1)), (0, None, None))
    shapes = jax.ShapeDtypeStruct((USERS,), float), jax.ShapeDtypeStruct((3,), float)
    separable.expect_one_role(shapes, (0, None))


# What was refused, and keeps users apart.


def at(name):
    return lambda p, row: jnp.sum(getattr(jnp.ones(6).at[1:5], name)(row))


OF_ONE = {
    "stack": lambda p, row: jnp.stack([row, p], axis=1).sum(),
    "select": lambda p, row: jnp.select([row > 0, row < -1], [row, 2 * row], p).sum(),
    "tile": lambda p, row: jnp.tile(row, (2, 3)).sum(),
    "unstack": lambda p, row: sum(jnp.unstack(jnp.outer(row, p))).max(),
    **{f".at[].{name}": at(name) for name in ("subtract", "add", "multiply", "mul", "min", "max", "set")},
    "logpdf": lambda p, row: jax.scipy.stats.multivariate_normal.logpdf(row, p, jnp.eye(4) + jnp.outer(row, row)),
    "slogdet": lambda p, row: jnp.linalg.slogdet(jnp.eye(4) + jnp.outer(row, p))[1],
    "orthogonal": lambda p, row: (jax.random.orthogonal(jax.random.key(0), 4) @ row)[0],
}
OF_ALL = {
    **{
        f".at[].{name}": lambda p, x, name=name: getattr(
            (x + p).at[:, 1:3], name
        )(x[:, :2]).sum(1)
        for name in ("subtract", "add", "multiply", "mul", "min", "max", "set")
    },
    ".at[] of vmap": lambda p, x: jax.vmap(lambda row: row.at[jnp.argmax(row)].mul(row[0]))(x).sum(1),
    "stack": lambda p, x: jnp.stack([x, x * p, jnp.ones_like(x)], axis=1).sum((1, 2)),
    "stack before": lambda p, x: jnp.stack([x, x * p]).sum((0, 2)),
    "select": lambda p, x: jnp.select([x > 0, x < -1], [x, 2 * x], p).sum(1),
    "tile": lambda p, x: jnp.tile(x, (1, 3)).sum(1),
    "unstack": lambda p, x: sum(jnp.unstack(x * p, axis=1)),
    "logpdf": lambda p, x: jax.scipy.stats.multivariate_normal.logpdf(x, p, jnp.eye(4)),
    "slogdet": lambda p, x: jnp.linalg.slogdet(jnp.eye(4) + x[:, :, None] * x[:, None])[1],
    "orthogonal": lambda p, x: (x @ jax.random.orthogonal(jax.random.key(0), 4))[:, 0],
}  # fmt: skip
MIXING_OF_ALL = {
    "stack of another's": (lambda p, x: jnp.stack([x, x.T]).sum((0, 2)), "different axes"),
    "tile of users": (lambda p, x: jnp.tile(x, (2, 1))[::2].sum(1), "repeats users"),
    "unstack of users": (lambda p, x: jnp.stack(jnp.unstack(x)[::-1]).sum(1), "takes the users apart"),
    ".at[].mul of users": (lambda p, x: x.at[0].mul(x.sum(1)).sum(1), "others' places"),
    ".at[].max at records": (lambda p, x: x.at[jnp.argmax(x, 1)].max(0.0).sum(1), "depends on records"),
}


@pytest.mark.parametrize("name", OF_ONE)
def test_what_users_write_first_passes_for_one(name):
    objective = per_user(OF_ONE[name])
    found = objective(POINT, DATA)
    np.testing.assert_allclose(found, [OF_ONE[name](POINT, jnp.asarray(row)) for row in DATA], rtol=rtol(1e-9))
    assert not moves_others(lambda data: objective(POINT, data), DATA, 0)


@pytest.mark.parametrize("name", OF_ALL)
def test_what_users_write_first_passes_for_all(name):
    program = check(OF_ALL[name])
    np.testing.assert_allclose(program(POINT, DATA), OF_ALL[name](POINT, DATA), rtol=rtol(1e-12))
    assert not moves_others(lambda data: program(POINT, data), DATA, 0)


@pytest.mark.parametrize("name", MIXING_OF_ALL)
def test_what_mixes_by_the_same_operations_is_refused(name):
    objective, said = MIXING_OF_ALL[name]
    with pytest.raises(separable.NotSeparable, match=said):
        check(objective)


# Constants.


WEIGHTS = jnp.array([1.0, 2.0, 3.0, 4.0])
CONSTANTS = {
    "expi": lambda p, row: jax.scipy.special.expi(row[0]),
    "binomial": lambda p, row: jax.random.binomial(jax.random.key(0), 10.0, jax.nn.sigmoid(row[0])),
    "written down": lambda p, row: row @ jnp.array([1.0, 2.0, 3.0, 4.0]),
    "captured": lambda p, row: row @ WEIGHTS,
    "picked": lambda p, row: row[jnp.array([0, 2])].sum(),
}


@pytest.mark.parametrize("name", CONSTANTS)
def test_arrays_that_a_loss_holds_are_public_where_that_is_said(name):
    loss = CONSTANTS[name]
    with pytest.raises(ValueError, match=r"public_constants=True") as refused:
        per_user(loss)(POINT, DATA)
    assert "made of records" in str(refused.value)
    objective = per_user(loss, public_constants=True)
    assert not moves_others(lambda data: objective(POINT, data), DATA, 0)
    np.testing.assert_allclose(
        objective(POINT, DATA), [loss(POINT, jnp.asarray(row)) for row in DATA], rtol=rtol(1e-12)
    )
    with pytest.raises(ValueError, match=r"public_constants=True"):
        check(lambda p, x: jax.lax.map(lambda row: loss(p, row), x))
    check(lambda p, x: jax.lax.map(lambda row: loss(p, row), x), public_constants=True)


def weighted(point, row):
    return distance(point, row) + row @ jnp.array([1.0, 2.0, 3.0, 4.0])


def all_weighted(point, data):
    return distances(point, data) + data @ jnp.array([1.0, 2.0, 3.0, 4.0])


def test_what_is_called_public_is_in_the_guarantee():
    options = {"mu": 1.0, "steps": 1, "batch": 1}
    for objective in (
        per_user(weighted, public_constants=True), separable.CheckedObjective(all_weighted, 0, public_constants=True)
    ):  # fmt: skip
        run = minimize(objective, DATA, [(-1.0, 1.0)] * 4, **group_options(traceable=False, **options))
        assert assumptions.OWN_ROWS in run.guarantee.assumptions
        assert pickle.loads(pickle.dumps(objective)) == objective != type(objective)(objective.function, 0)
        assert "public_constants" in repr(objective)
    with pytest.raises(TypeError, match="public_constants must be True or False, got"):
        per_user(weighted, public_constants=1)


# Decompositions: LAPACK prints of a matrix that holds infinities.


def heard(run):
    """What a function writes to descriptors 1 and 2."""
    with tempfile.TemporaryFile() as file:
        kept = [os.dup(stream) for stream in (1, 2)]
        try:
            for stream in (1, 2):
                os.dup2(file.fileno(), stream)
            run()
        finally:
            for stream, copy in zip((1, 2), kept, strict=True):
                os.dup2(copy, stream)
                os.close(copy)
        file.seek(0)
        return file.read().decode()


OF_USERS = {name: value for name, value in os.environ.items() if name != "JAX_ENABLE_X64"}
DTYPE = jnp.result_type(float)  # NumPy's own conversion would warn of what is too large
SQUARES = np.random.default_rng(2).normal(size=(USERS, 4, 4)).astype(DTYPE)
SMALL, LARGE = float(jnp.finfo(DTYPE).smallest_subnormal), float(jnp.finfo(DTYPE).max)
BAD = {"inf": np.inf, "-inf": -np.inf, "nan": np.nan, "largest": LARGE, "least": SMALL}
DECOMPOSED = {
    "norm": lambda p, m: jnp.linalg.norm(m, 2),
    "cond": lambda p, m: jnp.linalg.cond(m),
    "matrix_rank": lambda p, m: jnp.linalg.matrix_rank(m).astype(float),
    "in a loop": lambda p, m: jax.lax.fori_loop(0, 2, lambda _, c: c + jnp.linalg.norm(m, 2), 0.0),
    "in a branch": lambda p, m: jax.lax.cond(m[0, 0] > 0, lambda m: jnp.linalg.norm(m, 2), lambda m: m[0, 1], m),
    "until done": lambda p, m: jax.lax.while_loop(lambda c: c < 1, lambda c: c + jnp.linalg.norm(m, 2) + 1, 0.0),
    "checkpointed": lambda p, m: jax.checkpoint(lambda m: jnp.linalg.norm(m, 2))(m),
    "eigenvalues": lambda p, m: jnp.linalg.eigvalsh(m)[0],
    "vectors": lambda p, m: jnp.linalg.svd(m)[0][0, 0],
    "general eigenvalues": lambda p, m: abs(jnp.linalg.eigvals(m)).max(),
    "own systems": lambda p, m: jnp.linalg.pinv(m).sum(),
}


def with_bad(value, whole):
    squares = SQUARES.copy()
    squares[1, slice(None) if whole else 1] = value
    return squares


@pytest.mark.parametrize("name", DECOMPOSED)
def test_a_decomposition_of_what_is_not_finite_prints_nothing_and_moves_nobody(name):
    loss = DECOMPOSED[name]
    runs = {"per_user": partial(per_user(loss), POINT)}
    if name in ("norm", "cond", "matrix_rank", "in a loop", "eigenvalues"):
        runs["all"] = partial(check(jax.vmap(loss, (None, 0)), SQUARES), POINT)
        runs["in turns"] = partial(check(lambda p, x: jax.lax.map(lambda m: loss(p, m), x), SQUARES), POINT)
    for run in runs.values():
        before = np.asarray(run(SQUARES))
        for value, whole in itertools.product(BAD.values(), (False, True)):
            found = []
            assert heard(partial(keep, found, run, with_bad(value, whole))) == ""
            rest = np.arange(USERS) != 1
            np.testing.assert_array_equal(found[0][rest], before[rest])


def keep(found, run, data):
    found.append(np.asarray(run(data)))


LARGE_ROW = """
import warnings, jax.numpy as jnp, numpy as np
from jaxdpbo import per_user
warnings.simplefilter("error")
losses = per_user(lambda point, row: jnp.sum(row * point))
print(losses(jnp.ones(2), np.array([[1.0, 2.0], [1e300, 0.0], [3.0, 4.0]])))
"""


def test_a_number_beyond_float32_is_infinite_and_neither_warns_nor_crashes():
    """With warnings as errors jaxlib's conversion ends the process; a process of its own, which may end."""
    done = subprocess.run([sys.executable, "-c", LARGE_ROW], capture_output=True, text=True, env=OF_USERS)
    assert (done.returncode, done.stdout, done.stderr) == (0, "[ 3. inf  7.]\n", "")


HANGING = """
import sys, jax, numpy as np
from jaxdpbo import per_user
rows = np.where(np.arange(3)[:, None] == 0, np.inf, np.random.default_rng(0).normal(size=(2, 3, 3)))
vectors = lambda point, m: jax.lax.linalg.svd(m, full_matrices=False)[1]
run = jax.jit(jax.vmap(vectors, (None, 0))) if sys.argv[1:] else per_user(vectors)
jax.config.update("jax_enable_x64", True)
print("started", flush=True)
print(np.all(np.isnan(run(0.0, rows))))
"""


def test_an_infinite_row_does_not_hang_the_run():
    """LAPACK's ``gesdd`` runs for ever on a row of infinities; a process of its own, which can be stopped."""
    run = partial(subprocess.run, capture_output=True, text=True)
    done = run([sys.executable, "-c", HANGING], timeout=120)
    assert (done.stdout, done.stderr) == ("started\nTrue\n", "")


@pytest.mark.full
def test_without_the_guard_a_row_hangs():
    """The planted bug: the program as it was traced."""
    with pytest.raises(subprocess.TimeoutExpired) as caught:
        subprocess.run([sys.executable, "-c", HANGING, "bare"], capture_output=True, timeout=30)
    assert caught.value.stdout == b"started\n"


def test_without_the_guard_a_user_is_heard():
    """The planted bug: the program as it was traced."""
    squares = with_bad(np.inf, whole=True)
    assert "LASCL" in heard(lambda: jax.block_until_ready(jax.jit(jnp.linalg.cond)(squares)))


def test_finite_matrices_keep_their_bits_and_others_are_nan():
    programs = {
        "per_user": per_user(lambda p, m: jnp.linalg.svd(m, compute_uv=False) * p[0]),
        "bare": jax.jit(lambda p, x: jnp.moveaxis(jnp.linalg.svd(x, compute_uv=False) * p[0], 0, -1)),
    }
    scales = np.array([1.0, 1 / LARGE, LARGE / 8, SMALL]).astype(DTYPE)[:, None, None]
    squares = SQUARES * scales
    guarded, bare = (np.asarray(run(POINT, squares)) for run in programs.values())
    np.testing.assert_array_equal(guarded, bare)
    squares[2, 0, 3] = -np.inf
    found = np.asarray(programs["per_user"](POINT, squares))
    assert np.all(np.isnan(found[:, 2]))
    np.testing.assert_array_equal(np.delete(found, 2, 1), np.delete(bare, 2, 1))
    assert math.isfinite(found[0, 0])
