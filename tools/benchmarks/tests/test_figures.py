"""The arithmetic of the benchmarks: medians, percentiles, ratios."""

import pytest
from tools.benchmarks.figures import Estimate, Spread, estimate_median, percentile, spread, summary
from tools.benchmarks.pairs import pair_ratios
from tools.benchmarks.ratios import GOALS, PAIRINGS
from tools.benchmarks.stacks import top
from tools.benchmarks.systems.catalogue import BEFORE, BEFORE_TRACED, BULK
from tools.benchmarks.turns import NAMES


def test_a_spread_is_the_median_between_the_lowest_and_the_highest() -> None:
    assert spread([3.0, 1.0, 10.0]) == Spread(3.0, 1.0, 10.0)


@pytest.mark.parametrize(("percent", "expected"), [(1, 1.0), (50, 50.0), (99, 99.0), (100, 100.0)])
def test_a_percentile_is_a_value_that_was_measured(percent: float, expected: float) -> None:
    assert percentile([float(value) for value in range(100, 0, -1)], percent) == expected


def test_a_percentile_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="expected values"):
        percentile([], 50)


def test_a_summary_takes_each_figure_over_the_rounds_that_have_it() -> None:
    found = summary([{"rate": 1.0}, {"rate": 3.0, "memory": 7.0}])
    assert found == {"rate": Spread(2.0, 1.0, 3.0), "memory": Spread(7.0, 7.0, 7.0)}


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([3.0], Estimate(3.0, 3.0, 3.0, 1)),
        ([7.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0], Estimate(4.0, 1.0, 7.0, 7)),  # 98.4 %
        ([float(value) for value in range(9)], Estimate(4.0, 1.0, 7.0, 9)),  # 96.1 %: without the extremes
        ([float(value) for value in range(20)], Estimate(9.5, 5.0, 14.0, 20)),  # 95.9 %
    ],
)
def test_a_median_comes_with_an_interval_of_95_percent(values: list[float], expected: Estimate) -> None:
    assert estimate_median(values) == expected


def test_a_ratio_is_taken_within_each_pair_of_turns() -> None:
    slowing = [({"end_to_end": 1000.0 / slow}, {"end_to_end": 40.0 / slow}) for slow in (1, 2, 4)]
    turns = {"warrener / dbos": [(dict(ours), dict(other)) for ours, other in slowing]}
    assert pair_ratios(turns) == {"throughput_vs_dbos": Estimate(25.0, 25.0, 25.0, 3)}


def test_every_goal_of_the_table_has_a_pairing_or_a_curve() -> None:
    named = {name for pairing in PAIRINGS for name in pairing.ratios}
    assert named | {"cost_at_10m"} == GOALS.keys()


def test_both_sides_of_every_pairing_can_be_measured() -> None:
    sides = {side for pairing in PAIRINGS for side in (pairing.ours, pairing.other)}
    assert sides <= {*NAMES, BULK, BEFORE, BEFORE_TRACED}


def test_a_profile_counts_a_function_once_in_a_stack_and_all_its_lines_together() -> None:
    found = top(
        "main (a.py:1);work (b.py:7);work (b.py:7) 3\nmain (a.py:2);work (b.py:9) 1\nread (libc.so) 4\n"
    )
    assert found.splitlines() == [
        "   own  whole  of 8 samples",
        " 50.0%  50.0%  work (b.py)",
        " 50.0%  50.0%  read (libc.so)",
    ]
