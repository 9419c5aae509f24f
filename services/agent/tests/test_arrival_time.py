"""Delayed attempts at an agent whose clock is not that of their sender (point 4 of "under strain")."""

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from warrener_agent.decisions.intake import arrival_time
from warrener_contracts.events import AttemptDispatched, AttemptDispatchedData
from warrener_contracts.messages import is_early
from warrener_contracts.topology import delay_level_for

SENT = datetime(2026, 11, 20, 12, tzinfo=UTC)


def delayed(seconds: float) -> AttemptDispatched:
    data = AttemptDispatchedData(
        job_id=uuid4(),
        attempt=2,
        job_type="greet",
        queue="default",
        arguments={},
        timeout=timedelta(minutes=1),
        max_attempts=3,
        requested_at=SENT,
        not_before=SENT + timedelta(seconds=seconds),
    )
    return AttemptDispatched(id="1", source="test", time=SENT, data=data)


@pytest.mark.parametrize("wrong", [-3600.0, -60.0, -5.0, 0.0])
@pytest.mark.parametrize("delay", [0.1, 1.0, 6.0, 40.0, 70.0, 600.0])
def test_4_a_wake_up_ends_in_time_whatever_the_clock_of_the_agent_is_behind(
    delay: float, wrong: float
) -> None:
    event, true = delayed(delay), SENT
    for _ in range(12):
        level = (
            delay_level_for(event.data.not_before - (event.time or SENT)) if event.data.not_before else None
        )
        true += level.delay if level else timedelta(0)
        now = arrival_time(event, true + timedelta(seconds=wrong), returned=True)
        if not is_early(event, now):
            break
        event = event.model_copy(update={"time": now})  # as the receiver sends it up again
    else:
        raise AssertionError(f"expected it to begin, got one that circles until {true - SENT}")
    assert -0.3 <= (true - SENT).total_seconds() - delay <= 6.0


def test_one_that_waited_long_in_its_queue_is_not_early_by_a_clock_that_is_right() -> None:
    event = delayed(600.0)
    now = SENT + timedelta(hours=1)
    assert not is_early(event, arrival_time(event, now, returned=True))
