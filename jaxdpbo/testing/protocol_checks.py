"""The contract of any algorithm: its fields, one run by every route, and nothing released that is not paid for."""

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxdpbo.drivers import compiled_run, compiled_steps, result
from jaxdpbo.testing import subject as _subject
from jaxdpbo.testing.subject import Subject, expect
from jaxdpbo.types import Algorithm, Config, Data, Objective, Query


def make_subject(algorithm: Algorithm, config: Config, objective: Objective, data: Data) -> Subject:
    """Check all that is known before a step: fields, types, shapes and the guarantee.

    Raises:
      AssertionError: what must be mended.
    """
    try:
        result.state_guarantee(algorithm, objective, config)
        stated = algorithm.privacy(config)
        query = compiled_steps.ask(
            algorithm, _subject.fixed_key(), config, compiled_steps.begin(algorithm, _subject.fixed_key(), config).state
        )
    except (TypeError, ValueError) as error:
        raise AssertionError(str(error)) from error
    expect(isinstance(query, Query), f"ask must return a types.Query, got {type(query).__name__}")
    points, mask = query.points, query.mask
    expect(
        points.ndim == 2 and jnp.issubdtype(points.dtype, jnp.floating),
        f"the points of a query must be floats of shape (b, d), got {points.dtype} of shape {points.shape}",
    )
    expect(
        mask.shape == points.shape[:1] and mask.dtype == bool,
        f"the mask of a query must be booleans of shape {points.shape[:1]}, got {mask.dtype} of shape {mask.shape}",
    )
    data = jax.tree.map(jnp.asarray, data)
    values = jax.eval_shape(lambda at: compiled_run.map_points(objective, at, data, config.space), points)
    subject = Subject(algorithm, config, objective, data, stated, len(points), values.shape[1:])
    if subject.adds_users:
        _check_private(subject)
    return subject


def _check_private(subject: Subject) -> None:
    users, stated = subject.config.users, subject.stated
    expect(users is not None, "config.users must be the number of users if the algorithm has contribute, got None")
    expect(
        subject.shape[-1:] == (users,),
        f"the objective must return a value for each of the {users} users of config, got shape {subject.shape}",
    )
    expect(
        stated.notion in ("gdp", "dp"),
        f"privacy must state gdp or dp to be checked, got {stated.notion!r}: give a config with a finite budget",
    )
    raw = jax.eval_shape(subject.algorithm.init, _subject.fixed_key(), subject.config).raw
    expect(raw == (), "State.raw must be () if the algorithm has contribute: keep users' arrays in memory (remember)")


def check_protocol(subject: Subject) -> None:
    """Check a run: the same by every route, finite, and over after step ``T``.

    Raises:
      AssertionError: what must be mended.
    """
    algorithm, config, steps = subject.algorithm, subject.config, subject.config.steps
    begun, loop_key, release_key = _subject.first_snapshot(subject, _subject.fixed_key())
    after, _, _ = _subject.take_step(subject, loop_key, 0, begun)
    expect(
        _kinds(after.state) == _kinds(begun.state),
        f"tell must return a state of the dtypes and shapes of init's: {_difference(after.state, begun.state)}",
    )
    on_time = _subject.take_steps(subject, _subject.fixed_key(), steps)
    expect(
        int(on_time.state.public.step) == steps,
        f"State.public.step must count the steps taken, got {int(on_time.state.public.step)} after {steps}",
    )

    def release(snapshot: result.Snapshot) -> Any:
        return compiled_steps.release(algorithm, release_key, config, snapshot.state)

    released = release(on_time)
    expect(hasattr(released, "point"), f"a release must have the field 'point', got {type(released).__name__}")
    expect(not _holds_nan(released), "the release must not hold NaN")
    again = release(_subject.take_steps(subject, _subject.fixed_key(), steps))
    expect(_subject.are_equal(again, released), "the same key and values must give the same release: no hidden state")
    run = jax.jit(compiled_run.pure_run, static_argnums=(0, 1))
    scanned, _, _ = run(algorithm, subject.objective, subject.data, config, _subject.fixed_key())
    digits = 1e-6 if jnp.result_type(float) == jnp.float64 else 1e-3  # a search ends where rounding moves its start
    expect(_subject.are_close(scanned, released, digits), "a compiled run must release what the same steps do by hand")
    late = _subject.take_steps(subject, _subject.fixed_key(), steps + 3)
    expect(
        _subject.are_equal(late.state, on_time.state) and _subject.are_equal(release(late), released),
        "steps after step T must change nothing: apply parts.guard_noise to the algorithm",
    )
    if subject.adds_users:
        _check_after(subject, loop_key, on_time, "after step T")
        for other in _under_other_noise(begun):
            _check_after(subject, loop_key, other, "under other noise than at the start")


def _check_after(subject: Subject, loop_key: jax.Array, end: result.Snapshot, when: str) -> None:
    """A step that is not left releases the same for any values of the users, and ends where it began."""
    algorithm, config = subject.algorithm, subject.config
    begun, _, _ = _subject.first_snapshot(subject, _subject.fixed_key())
    paid = compiled_steps.ask(algorithm, loop_key, config, begun.state)
    query = compiled_steps.ask(algorithm, loop_key, config, end.state)
    values = jnp.asarray(np.random.default_rng(0).normal(size=(subject.points, *subject.shape)))
    nobody = jnp.zeros(subject.users, bool)

    def total(query: Query, present: jax.Array) -> Any:
        return _subject.contribute(subject, query, end.memory, values, present)[0].whole

    mend = f"{when}: apply parts.guard_noise to the algorithm"
    expect(_subject.are_equal(total(query, ~nobody), total(query, nobody)), f"contribute must add nothing up {mend}")
    given = [_subject.perturb(subject, loop_key, query, total(paid, each)) for each in (nobody, ~nobody)]
    expect(_subject.are_equal(*given), f"the result of perturb must not depend on users {mend}")
    after_tell = compiled_steps.tell(algorithm, config, end.state, query, given[1])
    expect(_subject.are_equal(after_tell, end.state), f"tell must return the state unchanged {mend}")
    of_paid = _subject.perturb(subject, loop_key, paid, total(paid, ~nobody))
    kept = compiled_steps.tell(algorithm, config, end.state, paid, of_paid)
    expect(_subject.are_equal(kept, end.state), f"tell must refuse a query of an earlier step {mend}")


def _under_other_noise(begun: result.Snapshot) -> Iterator[result.Snapshot]:
    """States that say that their run began under other noise, each in one number."""
    public = begun.state.public
    leaves, structure = jax.tree.flatten(public.noise)
    expect(
        leaves, "State.public.noise must hold the noise at the start of the run (parts.noise_settings), got no array"
    )
    for place, leaf in enumerate(leaves):
        changed = ~leaf if leaf.dtype == bool else leaf + jnp.ones((), leaf.dtype)
        if not _subject.are_equal(changed, leaf):  # infinity is
            noise = structure.unflatten([*leaves[:place], changed, *leaves[place + 1 :]])
            yield begun._replace(state=begun.state._replace(public=public._replace(noise=noise)))


def _kinds(tree: Any) -> Any:
    leaves, structure = jax.tree.flatten_with_path(tree)
    return structure, {jax.tree_util.keystr(path): (leaf.dtype, leaf.shape) for path, leaf in leaves}


def _difference(after: Any, before: Any) -> str:
    (_, new), (_, old) = _kinds(after), _kinds(before)
    changed = [name for name in old if new.get(name) != old[name]]
    return f"{changed[0]} was {old[changed[0]]}, and is {new.get(changed[0])}" if changed else "another structure"


def _holds_nan(released: Any) -> bool:
    return any(np.any(np.isnan(leaf)) for leaf in _subject.to_numbers(released) if leaf.dtype.kind == "f")
