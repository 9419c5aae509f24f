"""Schedules in the code, and the errors of those that cannot be declared."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from warrener_agent import Agent, JobDefinitionError, Program
from warrener_agent.agent import ScheduleOptions
from warrener_contracts.events import SchedulePutData
from warrener_contracts.schedule_rules import CronRule, IntervalRule, ScheduleChoices
from warrener_contracts.schedule_words import OverlapPolicy
from warrener_contracts.triggers import EventRule


def an_agent(**options: object) -> Agent:
    agent = Agent()
    declare: Callable[..., Callable[[Callable[..., None]], Callable[..., None]]] = agent.schedule

    @declare("hourly", **options)
    @agent.job("flights.load")
    def load(path: str, limit: int = 10) -> None:
        assert path or limit

    load("a.csv")
    return agent


def test_a_schedule_stands_above_its_handler() -> None:
    choices = ScheduleChoices(overlap=OverlapPolicy.SKIP)
    agent = an_agent(
        cron="30 * * * *", timezone="Europe/Berlin", arguments={"path": "a.csv"}, choices=choices, revision=2
    )
    (declared,) = agent.schedules
    assert declared.revision == 2
    assert declared.schedule == SchedulePutData(
        name="hourly",
        rule=CronRule(expression="30 * * * *"),
        timezone="Europe/Berlin",
        job_type="flights.load",
        arguments={"path": "a.csv"},
        choices=choices,
    )


def test_an_interval_takes_an_anchor_and_a_rule_stands_as_it_is() -> None:
    rule = IntervalRule(every=timedelta(hours=1), offset=timedelta(minutes=5))
    arguments = {"path": "a.csv"}
    short = an_agent(every="1h", offset="5m", arguments=arguments).schedules
    assert short == an_agent(rule=rule, arguments=arguments).schedules
    assert short[0].schedule.rule == rule


def test_what_the_tick_fills_in_is_not_checked_by_the_signature() -> None:
    arguments = {"path": "{{ tick.local_at | %Y }}.csv", "limit": "{{ tick.run }}"}
    (nightly,) = an_agent(cron="@daily", arguments=arguments).schedules
    assert nightly.schedule.arguments == arguments
    (landed,) = an_agent(rule=EventRule(key="landed", event_argument="path")).schedules
    assert landed.schedule.arguments == {}


def test_a_program_has_schedules_too() -> None:
    agent = Agent()
    agent.command("files.sweep", Program(["true"], stdin="nothing"), result=None)
    agent.schedule("sweep", job_type="files.sweep", cron="@daily")
    assert [declared.schedule.job_type for declared in agent.schedules] == ["files.sweep"]


def test_what_is_included_brings_its_schedules() -> None:
    whole, one = Agent(), an_agent(cron="@daily", arguments={"path": "a"})
    whole.include(one)
    whole.include(one)
    assert whole.schedules == one.schedules
    other = Agent()
    other.schedule("hourly", cron="@hourly")(other.job("x")(_nothing))
    with pytest.raises(JobDefinitionError, match="expected one declaration, got two that differ"):
        whole.include(other)


def _nothing() -> None:
    """A handler."""


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"arguments": {"path": "a"}}, "expected one of rule, cron, every, at, after, got none of them"),
        ({"cron": "@daily", "every": "1s"}, "got cron and every"),
        ({"cron": "@daily", "anchor": "2026-01-01T00:00Z"}, "expected anchor beside every alone, got cron"),
        ({"every": "often"}, "expected a duration"),
        ({"cron": "@daily", "misfire": "skip"}, "expected options among .*, got misfire"),
        ({"cron": "@daily"}, "path"),
        ({"cron": "@daily", "arguments": {"path": "a", "rows": 1}}, "rows"),
        ({"cron": "@daily", "job_type": "unknown"}, "expected a job type of this agent, got 'unknown'"),
    ],
)
def test_a_schedule_that_cannot_be_declared_names_what_was_expected(
    options: ScheduleOptions, expected: str
) -> None:
    with pytest.raises(JobDefinitionError, match=expected):
        an_agent(**options)


def test_the_error_for_a_schedule_below_its_handler_names_the_right_place() -> None:
    agent = Agent()
    with pytest.raises(JobDefinitionError, match=r"got that of none: put it above @agent\.job"):
        agent.job("flights.load")(agent.schedule("hourly", cron="@daily")(_nothing))
