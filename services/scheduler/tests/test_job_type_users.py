"""The users of the broker to whom job types belong: the first that announces one, or that of a setting."""

from collections.abc import Mapping
from datetime import timedelta
from types import MappingProxyType
from typing import Any

from services.scheduler.tests.stage import Stage, declaration

from warrener_contracts import events
from warrener_contracts.policy import JobPolicy, RetryRule
from warrener_contracts.schedule_rules import IntervalRule
from warrener_scheduler.dispatch import BreakerCache
from warrener_scheduler.job_types import Announcement, AnnouncementHandler, JobTypeUsers, KnownQueues
from warrener_scheduler.metrics import SchedulerMetrics
from warrener_scheduler.ports import SchedulerPorts
from warrener_scheduler.schedules.writer import CodeSchedules, ScheduleWriter
from warrener_scheduler.triggers.bindings import TriggerBindings


class Announced:
    """A handler of announcements beside the scheduler of a stage, on one store."""

    def __init__(self, stage: Stage, users: Mapping[str, str] = MappingProxyType({})) -> None:
        self._stage, store, clock = stage, stage.store, stage.clock
        found = JobTypeUsers(users)
        writer = ScheduleWriter(store, clock, TriggerBindings(stage.bus, store, {}))
        metrics = SchedulerMetrics(stage.telemetry.metrics)
        self._handler = AnnouncementHandler(
            SchedulerPorts(stage.bus, store, clock, stage.telemetry, metrics),
            CodeSchedules(store, clock, lambda: None, writer, found.find),
            BreakerCache(store),
            KnownQueues(store, clock, stage.bus, ()),
            found,
        )

    async def by(self, user: str | None, served: str, /, **more: Any) -> tuple[str | None, str] | None:
        """Have a user announce `mail.send`; return whose it is then, and its queue."""
        data: dict[str, Any] = {
            "queues": (served,),
            "job_types": (declaration(name="mail.send", queue=served),),
        }
        event = events.AgentAnnounced(
            id=f"{user} {served}",
            source="agent",
            data=events.AgentAnnouncedData(agent_id=f"agent-of-{user}", **data | more),
        )
        await self._handler.carry_out([Announcement(event, user)])
        found = (await self._stage.store.job_types({"mail.send"})).get("mail.send")
        return None if found is None else (found.broker_user, found.queue)

    async def reported(self) -> list[str]:
        return [str(one.sample["text"]) for one in await self._stage.store.escalations.incidents()]


async def test_a_job_type_stays_its_users_long_after_the_last_agent_was_seen(stage: Stage) -> None:
    one = Announced(stage)
    assert await one.by("payroll", "pay") == ("payroll", "pay")
    await stage.clock.advance(3600)
    assert await one.by("mallory", "hers") == ("payroll", "pay")
    assert await one.by(None, "hers") == ("payroll", "pay")
    [text] = await one.reported()
    assert "payroll" in text
    assert "WARRENER_SCHEDULER_JOB_TYPE_USERS" in text


async def test_a_setting_gives_a_job_type_to_a_user_before_and_after_others_announce_it(stage: Stage) -> None:
    closed = Announced(stage, {"mail.*": "payroll"})
    assert await closed.by("mallory", "hers") is None, "nobody else is the first"
    assert "an agent of user payroll, to whom mail.send belongs" in (await closed.reported())[0]
    assert await closed.by("payroll", "pay") == ("payroll", "pay")
    given = Announced(stage, {"mail.*": "wages"})
    assert await given.by("wages", "new") == ("wages", "new")
    assert await given.by("payroll", "pay") == ("wages", "new")


async def test_a_setting_keeps_schedules_of_others_from_a_job_type_that_nobody_has_announced(
    stage: Stage,
) -> None:
    closed = Announced(stage, {"mail.*": "payroll"})
    rule = IntervalRule(every=timedelta(minutes=1))
    spec = events.SchedulePutData(name="drain", rule=rule, job_type="mail.send")
    schedules = (events.ScheduleDeclaration(schedule=spec),)
    await closed.by("mallory", "hers", job_types=(), schedules=schedules)
    assert not await stage.store.schedules({"drain"})
    await closed.by("payroll", "pay", schedules=schedules)
    assert await stage.store.schedules({"drain"})


async def test_a_retry_rule_to_ones_own_queue_declares_no_job_type_of_another_queue(stage: Stage) -> None:
    one = Announced(stage)
    policy = JobPolicy(retry_rules=(RetryRule(errors=("memory",), queue="etl"),))
    led = declaration(name="mail.send", queue="payroll", policy=policy)
    assert await one.by("mallory", "etl", queue="etl", job_types=(led,)) is None
    assert await one.by("payroll", "payroll", queue="payroll", job_types=(led,)) == ("payroll", "payroll")
