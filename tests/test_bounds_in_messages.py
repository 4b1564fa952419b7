"""A number that a message tells you to type is accepted: least numbers are rounded up, largest ones down."""

import re
from fractions import Fraction

import numpy as np
import pytest

from jaxdpbo import dp_gp_ucb, transforms
from jaxdpbo.accounting import requested_budget
from jaxdpbo.noise import calibration
from jaxdpbo.noise.mechanisms import tables

NUMBER = r"[\d.]+(?:e[+-]?\d+)?"


def gains(epsilon=1.0, users=300, largest_gain=1.0):
    return dp_gp_ucb.in_order_config(
        candidates=np.arange(5.0)[:, None], users=users, epsilon=epsilon, largest_gain=largest_gain
    )


CASES = {
    "a rate": lambda rate: tables.geometric(Fraction(rate)),
    **{f"an answer of {count}": lambda epsilon, count=count: tables.truth(epsilon, count) for count in (2, 3, 7, 1000)},
    **{
        f"a grid of {moves} moves": lambda epsilon, moves=moves: calibration.units("epsilon", epsilon, moves)
        for moves in (1, 3, 7)
    },
    "cells of a transform": lambda epsilon: transforms.product_laplace(centre=np.zeros(3), scale=1.0, epsilon=epsilon),
    "gains": lambda epsilon: gains(epsilon),
    "a largest gain": lambda gain: gains(largest_gain=gain),
    "a total variation, of delta": lambda delta: requested_budget.requested_mu(
        None, 1.0, delta, total_variation=1.2345e-7
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_least_number_in_a_message_is_accepted(case):
    make = CASES[case]
    with pytest.raises(ValueError, match="must be") as refused:
        make(1e-320 if case == "a largest gain" else 1e-9 if case == "a rate" else 1e-300)
    (least,) = re.findall(rf"(?:at least|within \[) ?({NUMBER})", str(refused.value))
    make(float(least))


def test_the_largest_number_in_a_message_is_accepted():
    with pytest.raises(ValueError, match="at most") as refused:
        requested_budget.requested_mu(None, 50.0, 1e-6, total_variation=1.2345e-12)
    (most,) = re.findall(rf"at most ({NUMBER})", str(refused.value))
    requested_budget.requested_mu(None, float(most), 1e-6, total_variation=1.2345e-12)
    with pytest.raises(ValueError, match=r"within \[") as refused:
        gains(largest_gain=1e308)
    (most,) = re.findall(rf", ({NUMBER})\]", str(refused.value))
    gains(largest_gain=float(most))


def test_a_refused_level_is_rounded_towards_the_levels_that_work():
    for bound in (0.123456, 1.0005, 2.0):
        least = requested_budget.BudgetError("least", bound, bound / 2, "here, got {}")
        most = requested_budget.BudgetError("most", bound, bound * 2, "here, got {}")
        low, high = (float(re.findall(rf"at \w+ ({NUMBER})", str(error))[0]) for error in (least, most))
        assert high <= bound <= low
        assert low - high < 0.01 * bound
