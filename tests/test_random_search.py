"""Random search keeps the best finite mean, and says that it protects nobody."""

import jax
import numpy as np
import pytest
from protocol_cases import BOUNDS, USERS, loss, records

from jaxdpbo import drivers, random_search
from jaxdpbo.checks import low_high


def config(**changes):
    return random_search.config(**({"users": USERS, "steps": 5, "batch": 4, "bounds": low_high(BOUNDS)} | changes))


def test_the_best_of_all_points_is_released():
    seen = []

    def watched(point, data):
        seen.append((float(np.mean(loss(point, data))), point))
        return loss(point, data)

    run = drivers.run_loop(random_search.algorithm, watched, records(), config(), key=jax.random.key(0))
    assert len(seen) == 20
    np.testing.assert_array_equal(run.release.point, min(seen, key=lambda pair: pair[0])[1])


def test_points_are_uniform_in_the_box():
    points = []
    drivers.run_loop(
        random_search.algorithm,
        lambda point, data: points.append(point) or np.zeros(USERS),
        None,
        config(steps=50, batch=40),
        key=jax.random.key(1),
    )
    units = (np.array(points) - BOUNDS[0]) / (BOUNDS[1] - BOUNDS[0])
    assert np.all((units >= 0) & (units < 1))
    assert np.all(np.abs(units.mean(axis=0) - 0.5) < 0.03)
    assert len(np.unique(units[:, 0])) == 2000


def test_users_without_a_finite_loss_do_not_vote():
    data = records()
    data[1] = np.nan
    run = drivers.run_scan(random_search.algorithm, loss, data, config(), key=jax.random.key(2), diagnostics=True)
    others = drivers.run_scan(
        random_search.algorithm,
        loss,
        np.delete(data, 1, axis=0),
        config(users=USERS - 1),
        key=jax.random.key(2),
    )
    np.testing.assert_array_equal(run.release.point, others.release.point)
    assert np.all(np.isfinite(run.diagnostics.info.raw["mean_loss"]))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"users": 0}, "users must be at least 1"),
        ({"steps": 0}, "steps must be at least 1"),
        ({"batch": -1}, "batch must be at least 1"),
        ({"bounds": low_high([[0.0, -np.inf], [1.0, 1.0]])}, "bounds must be finite"),
    ],
)
def test_bad_configurations_are_named(changes, message):
    with pytest.raises(ValueError, match=message):
        config(**changes)
