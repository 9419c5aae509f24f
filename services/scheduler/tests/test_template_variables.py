"""Arguments that name the tick: the values of the names, and mistakes that a put refuses."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from services.scheduler.tests.stage import Stage, at, changed, named, put

from warrener_calendar.template_variables import TICK_NAMES, Tick, check_arguments, tick_variables
from warrener_calendar.ticks import previous_nominal
from warrener_contracts import events
from warrener_contracts.schedule_rules import CronRule, IntervalRule, Rule
from warrener_contracts.templates import render
from warrener_scheduler.tick_messages import request_text


def test_2_each_name_that_is_accepted_has_a_value() -> None:
    spec = templated().data
    values = tick_variables(spec, Tick(at(1), 1, at(0), None))
    for name in TICK_NAMES.names:
        render(f"{{{{ {name} }}}}", values)
    for name in TICK_NAMES.times:
        assert render(f"at {{{{ {name} | %M }}}}", values) in ("at 00", "at ")


def test_2_rendering_never_fails_for_arguments_that_were_accepted() -> None:
    longest = "{{ tick.local_at | " + "%c" * 50 + " }}"
    spec = templated(text=longest * 1_000).data.model_copy(update={"name": "s" * 120})
    check_arguments(spec)
    rendered = request_text(spec, UUID(int=0), at(0), names=tick_variables(spec, Tick(at(0), 1, None, None)))
    assert len(rendered) > 1_000 * 50 * len(format(at(0), "%c"))


def test_2_a_name_that_this_release_does_not_know_stays_as_it_is() -> None:
    spec = templated(path="{{ tick.tomorrow }} of {{ tick.run }}").data
    names = tick_variables(spec, Tick(at(0), 1, None, None))
    assert '"{{ tick.tomorrow }} of 1"' in request_text(spec, UUID(int=0), at(0), names=names)


@pytest.mark.parametrize(
    ("rule", "seconds", "before"),
    [
        (IntervalRule(every=timedelta(seconds=1)), 10, 9),
        (IntervalRule(every=timedelta(days=1)), 86_400 * 5, 86_400 * 4),
        (CronRule(expression="0 0 1 1 *"), 86_400 * 365, 0),
        (IntervalRule(every=timedelta(days=1)), 0, None),
    ],
)
def test_2_the_tick_before_a_tick_is_found_by_the_rule(rule: Rule, seconds: int, before: int | None) -> None:
    spec = events.SchedulePutData(name="one", rule=rule, job_type="flights.load")
    assert previous_nominal(spec, at(0), at(seconds)) == (None if before is None else at(before))


def templated(every: float = 1, overlap: str = "allow", **arguments: Any) -> events.Event[Any]:
    rule = IntervalRule(every=timedelta(seconds=every))
    return changed(put(rule=rule, timezone="Europe/Berlin", overlap=overlap), arguments=arguments)


async def paths(stage: Stage) -> list[Any]:
    jobs = await stage.store.jobs_by_id([tick.job_id for tick in await stage.tick_rows() if tick.job_id])
    found = (jobs.get(tick.job_id) for tick in await stage.tick_rows() if tick.job_id)
    return [row.arguments["path"] for row in found if row is not None]


async def test_2_the_job_of_each_tick_has_its_own_arguments_and_a_number_stays_a_number(stage: Stage) -> None:
    path = "{{ tick.run }}: {{ tick.local_at | %H:%M:%S }} since {{ tick.previous_at | %H:%M:%S }}"
    await stage.publish(templated(path=path, rows=["{{ tick.run }}"]), then=2.5)
    first, *others = await paths(stage)
    assert first == "1: 01:00:01 since ", "the first has none before it"
    assert others == ["2: 01:00:02 since 00:00:01", "3: 01:00:03 since 00:00:02"]
    jobs = await stage.store.jobs_by_id([tick.job_id for tick in await stage.tick_rows() if tick.job_id])
    assert sorted(row.arguments["rows"] for row in jobs.values()) == [[1], [2], [3]]


async def test_2_a_tick_that_is_published_again_requests_the_same(stage: Stage) -> None:
    await stage.publish(templated(path="{{ tick.run }} {{ tick.previous_at | %S }}", every=60), then=60)
    stage.broker.stop()
    await stage.clock.advance(60)
    (decided,) = [tick for tick in await stage.tick_rows() if tick.fired_at is None]
    assert decided.request is not None
    stage.broker.start()
    await stage.clock.advance(20)
    assert await paths(stage) == ["1 ", "2 00"]


async def test_2_the_success_before_is_the_newest_tick_whose_job_succeeded(stage: Stage) -> None:
    path = "since {{ tick.previous_success_at | %H:%M:%S }}"
    await stage.publish(templated(path=path, every=10), then=22)
    assert await paths(stage) == ["since ", "since "], "no job has succeeded yet"
    await stage.end_job(stage.job_ids()[0])
    await stage.clock.advance(10)
    await stage.publish(named(events.ScheduleTriggerRequested, event_id="now"), then=1)
    assert (await paths(stage))[2:] == ["since 00:00:10", "since 00:00:10"]


async def test_2_a_tick_that_waited_has_the_names_of_its_own_time(stage: Stage) -> None:
    path = "{{ tick.run }} since {{ tick.previous_at | %S }}"
    await stage.publish(templated(path=path, every=10, overlap="queue_all"), then=35)
    await stage.end_job(stage.job_ids()[0])
    await stage.clock.advance(2)
    assert await paths(stage) == ["1 since ", "2 since 10"]
