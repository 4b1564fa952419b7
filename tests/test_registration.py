"""An algorithm or an entry point that nobody registered fails the suite: protocol and neighbour cases are complete."""

import registration
from neighbour_cases import POINTS, WITHOUT, entry_points
from protocol_cases import CASES

from jaxdpbo import algorithms

PLANTED = """
from jaxdpbo import random_search

algorithm = random_search.algorithm
"""


def test_every_algorithm_is_in_the_protocol_cases():
    assert len(registration.algorithm_modules()) >= 8
    assert sorted(registration.without_a_case(CASES)) == []


def test_an_algorithm_without_a_case_is_named(plant):
    plant(algorithms, "planted", PLANTED)
    assert registration.without_a_case(CASES) == {"planted"}


def test_a_case_that_is_taken_out_is_missed():
    fewer = {name: case for name, case in CASES.items() if registration.modules_of(case) != {"dp_gd"}}
    assert registration.without_a_case(fewer) == {"dp_gd"}


def test_what_pays_elsewhere_states_a_guarantee():
    """A name that is gone, or that states none, may not stand among the exceptions."""
    private = set().union(*(registration.modules_of(case) for case in CASES.values() if case.private))
    assert registration.UNAUDITED.keys() <= private


def test_every_entry_point_has_a_case_or_a_reason():
    entered = {name for point in POINTS.values() for name in point.names}
    excused = {
        f"{module}.{name}"
        for modules in WITHOUT.values()
        for module, names in modules.items()
        for name in names.split()
    }
    points = entry_points()
    assert not (missing := points - entered - excused), f"without a case: {sorted(missing)}"
    assert not (gone := excused - points), f"gone: {sorted(gone)}"
    assert not (both := excused & entered), f"with a case: {sorted(both)}"
