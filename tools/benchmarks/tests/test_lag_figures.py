"""The lag of ticks, held against whole seconds or against their own rhythm."""

import pytest
from tools.benchmarks.lag_figures import lags, summary

SECOND = 1_000_000_000
MS = 1_000_000


def test_what_is_due_at_a_fraction_of_the_second_is_late_from_there() -> None:
    starts = [5 * SECOND + 3 * MS, 6 * SECOND + 1 * MS]
    assert lags(starts, 0.0) == [3.0, 1.0]
    assert lags([moment + SECOND // 2 for moment in starts], 0.5) == [3.0, 1.0]


def test_what_drifts_is_held_against_its_own_mean_rhythm() -> None:
    starts = [number * (SECOND + 2 * MS) + late * MS for number, late in enumerate([4, 0, 7, 4])]
    assert lags(starts, None) == pytest.approx([4.0, 0.0, 7.0, 4.0])


def test_drift_and_processor_time_are_reported_beside_it() -> None:
    found = summary([0, SECOND + 2 * MS, 2 * SECOND + 6 * MS], 0.0, 0.03)
    assert found["drift_ms"] == 6.0
    assert found["interval_p99_ms"] == 4.0
    assert found["cpu_ms_per_tick"] == pytest.approx(10)
    assert found["ticks"] == 3.0
