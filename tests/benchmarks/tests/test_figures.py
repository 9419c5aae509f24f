"""The arithmetic of the benchmarks: medians, percentiles, ratios."""

import pytest
from tests.benchmarks.figures import Spread, percentile, spread, summary
from tests.benchmarks.ratios import GOALS, ratios
from tests.benchmarks.stacks import top


def test_a_spread_is_the_median_between_the_lowest_and_the_highest() -> None:
    assert spread([3.0, 1.0, 10.0]) == Spread(3.0, 1.0, 10.0)


@pytest.mark.parametrize(("percent", "expected"), [(1, 1.0), (50, 50.0), (99, 99.0), (100, 100.0)])
def test_a_percentile_is_a_value_that_was_measured(percent: float, expected: float) -> None:
    assert percentile([float(value) for value in range(100, 0, -1)], percent) == expected


def test_a_percentile_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="expected values"):
        percentile([], 50)


def test_a_summary_takes_each_figure_over_the_rounds_that_have_it() -> None:
    told = summary([{"rate": 1.0}, {"rate": 3.0, "memory": 7.0}])
    assert told == {"rate": Spread(2.0, 1.0, 3.0), "memory": Spread(7.0, 7.0, 7.0)}


def test_ratios_are_those_of_medians_and_only_of_what_was_measured() -> None:
    measured = {
        "warrener": {"end_to_end": Spread(1000.0, 1.0, 9000.0), "cpu_ms": Spread(0.5, 0.5, 0.5)},
        "celery": {"end_to_end": Spread(40.0, 40.0, 40.0)},
    }
    assert ratios(measured) == {"throughput_vs_celery": 25.0}


def test_every_goal_of_the_table_has_a_name_that_a_ratio_can_have() -> None:
    everything = {"end_to_end": Spread(1, 1, 1), "cpu_ms": Spread(1, 1, 1), "idle_start_p50": Spread(1, 1, 1)}
    more = {"floor": Spread(1, 1, 1), "floor_published": Spread(1, 1, 1), "bulk": Spread(1, 1, 1)}
    ours, peers = ("", "-alone", "-traced"), ("celery", "dramatiq", "taskiq", "procrastinate", "dbos")
    names = (*(f"warrener{variant}" for variant in ours), *peers, "floor")
    found = ratios(dict.fromkeys(names, everything | more))
    assert found.keys() | {"cost_at_10m"} == GOALS.keys()


def test_a_profile_counts_a_function_once_in_a_stack_and_all_its_lines_together() -> None:
    told = top(
        "main (a.py:1);work (b.py:7);work (b.py:7) 3\nmain (a.py:2);work (b.py:9) 1\nread (libc.so) 4\n"
    )
    assert told.splitlines() == [
        "   own  whole  of 8 samples",
        " 50.0%  50.0%  work (b.py)",
        " 50.0%  50.0%  read (libc.so)",
    ]
