"""Schedules that wait for events: received once, judged by their rules, stored until they are ticks."""

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from pydantic import ValidationError
from services.scheduler.tests.stage import SECOND, SETTINGS, Stage, named

from warrener_contracts import events
from warrener_contracts.messages import BATCH_TYPE, EVENT_TYPE, Message
from warrener_contracts.schedule_rules import CronRule, Rule, ScheduleChoices
from warrener_contracts.topology import Exchange, Topology
from warrener_contracts.triggers import (
    AfterRule,
    Condition,
    ConditionOperator,
    EventRule,
    Upstream,
    UpstreamEnd,
)
from warrener_runtime.bus.memory import MemoryBus
from warrener_runtime.virtual_clock import SeededEntropy
from warrener_scheduler.decisions import trigger_graph
from warrener_scheduler.decisions.triggers import passes
from warrener_scheduler.wiring import assemble
from warrener_store.jobs.rows import Save
from warrener_store.schedules.rows import ScheduleRow

AIRPORT = Exchange("airport")
LANDED = EventRule(exchange="airport", key="landed.*", event_argument="path")
PLAIN = LANDED.model_copy(update={"event_argument": None})


def put(name: str, rule: Rule, job_type: str = "flights.load", **choices: Any) -> events.SchedulePut:
    data = events.SchedulePutData(
        name=name,
        rule=rule,
        job_type=job_type,
        arguments={"path": "a.csv"},
        choices=ScheduleChoices.model_validate(choices),
    )
    return events.SchedulePut(id=f"put-{name}-{rule!r}"[:200], source="test", data=data)


def message(number: int | str = 1, data: object = None, **changes: Any) -> Message:
    body = {"specversion": "1.0", "id": f"event-{number}", "source": "tower", "type": "landed", "data": data}
    return raw_message(json.dumps(body | changes).encode(), EVENT_TYPE)


def raw_message(body: bytes, kind: str = "text/json", message_id: str = "") -> Message:
    return Message("airport", "landed.jfk", body, kind, message_id, "", {}, mandatory=False)


async def finish(
    stage: Stage, job: UUID | int, job_type: str = "flights.load", state: str = "succeeded", then: float = 1.0
) -> None:
    """Publish the end of a job, as a supervisor does."""
    job, at = job if isinstance(job, UUID) else UUID(int=job), stage.clock.now()
    terms: dict[str, Any] = {"job_id": job, "job_type": job_type, "state": state, "attempt": 1}
    data = events.JobFinishedData(**terms, requested_at=at, finished_at=at)
    event = events.JobFinished(id=f"{job}:finished", source="warrener/supervisor", time=at, data=data)
    await stage.publish(event, then=then)


@pytest.fixture
async def airport(stage: Stage) -> Stage:
    await stage.bus.declare(Topology((AIRPORT,), ()))
    return stage


async def send(stage: Stage, *published: events.Event[Any], then: float = 0.5) -> None:
    await stage.publish(*published, then=then)


def jobs(stage: Stage) -> list[Mapping[str, Any]]:
    return [event.data.arguments for event in stage.dispatched()]


def refusals(stage: Stage) -> list[str]:
    return [event.data.detail for event in stage.all_of(events.JobRejected)]


class TestEvents:
    async def test_the_trace_of_its_tick_is_linked_to_that_of_the_event(self, airport: Stage) -> None:
        theirs = f"00-{'a' * 32}-{'b' * 16}-01"
        await send(airport, put("landing", PLAIN))
        await airport.send(message(1, traceparent=theirs), message(2, traceparent="nonsense"))
        linked, alone = (span for span in airport.telemetry.spans() if span.name == "tick flights.load")
        (link,) = linked.links
        assert f"00-{link.context.trace_id:032x}-{link.context.span_id:016x}-01" == theirs
        assert linked.parent is None
        assert alone.links == ()

    async def test_the_job_gets_the_event_where_it_is_wanted(self, airport: Stage) -> None:
        named = PLAIN.model_copy(update={"event_argument": "rows"})
        await send(airport, put("plain", PLAIN), put("named", named))
        await airport.send(message(data={"flight": 7}))
        assert [job["path"] for job in jobs(airport)] == ["a.csv"]
        (tick,) = await airport.tick_rows("named")
        assert tick.job_id is not None
        (detail,) = refusals(airport)
        assert "rows" in detail, "the request has the event, which the schema refuses"

    async def test_any_json_with_a_message_id_is_an_event_and_what_cannot_be_read_is_parked(
        self, airport: Stage
    ) -> None:
        where = (Condition(path="data.rows.1.n", check=ConditionOperator.AT_LEAST, value=2),)
        await send(airport, put("landing", PLAIN.model_copy(update={"where": where})))
        good = b'{"rows": [0, {"n": 2}]}'
        await airport.send(
            raw_message(good, message_id="m1"), raw_message(good, message_id="m1"), raw_message(good)
        )
        await airport.send(raw_message(b"{"), raw_message(b'{"specversion": "1.0"}', kind=EVENT_TYPE))
        assert len(jobs(airport)) == 1
        assert [reason for reason, _ in airport.parked()] == ["missing_id", "not_json", "not_an_event"]

    async def test_of_a_batch_each_event_is_judged_by_itself(self, airport: Stage) -> None:
        await send(airport, put("landing", PLAIN))
        body = b'[{"id": "1", "source": "a"}, 7, {"id": "2", "source": "a", "time": "2020-01-01T00:00:00Z"}]'
        await airport.send(raw_message(body, kind=BATCH_TYPE))
        assert airport.parked() == [("not_an_event", b"7")]
        ticks = await airport.tick_rows("landing")
        assert [tick.reason for tick in ticks] == ["event 2", "event 1"]
        row = (await airport.store.schedules())["landing"]
        assert ticks[0].nominal_at == row.put_at, "what has happened before is as if it happened then"

    async def test_two_events_of_one_instant_are_two_ticks(self, airport: Stage) -> None:
        await send(airport, put("landing", PLAIN))
        same = "2020-01-01T00:00:00Z"
        await airport.send(*(message(number, time=same) for number in range(20)))
        assert await airport.statuses("landing") == ["fired"] * 20
        assert len(set(airport.job_ids())) == 20

    async def test_what_no_request_could_hold_is_parked_and_requests_nothing(self, airport: Stage) -> None:
        await send(airport, put("landing", LANDED))
        await airport.send(message(1, data="x" * 600_000), message(2, data={"pilot": "\x00"}))
        assert [reason for reason, _ in airport.parked()] == ["too_large", "bad_fields"]
        assert await airport.statuses("landing") == []

    async def test_the_choices_of_the_owner_hold(self, airport: Stage) -> None:
        later = airport.clock.now() + timedelta(hours=1)
        await send(
            airport,
            put("twice", PLAIN, max_runs=2),
            put("single", PLAIN, overlap="skip"),
            put("queue", PLAIN, overlap="queue_all"),
            put("not.yet", PLAIN, start=later),
            put("paused", PLAIN),
            named(events.SchedulePauseRequested, "paused", "p"),
        )
        await airport.send(*(message(number) for number in range(3)), then=0.5)
        assert await airport.statuses("twice") == ["fired", "fired"]
        assert await airport.statuses("single") == ["fired", "skipped", "skipped"]
        assert await airport.statuses("queue") == ["fired", "waiting", "waiting"]
        assert await airport.statuses("not.yet") == []
        assert await airport.statuses("paused") == ["skipped"] * 3

    async def test_one_that_waited_for_the_end_of_a_job_still_has_its_event(self, airport: Stage) -> None:
        await send(airport, put("queue", LANDED, job_type="any.thing", overlap="queue_all"))
        await airport.send(message(1, data="first"), message(2, data="second"), then=0.5)
        (one, two) = await airport.tick_rows("queue")
        assert [one.status, two.status] == ["fired", "waiting"]
        await airport.clock.advance(62)  # nobody knows any.thing: its job was rejected, and is not waited for
        published = airport.all_of(events.JobRejected)
        assert len(published) == 2
        assert (await airport.tick_rows("queue"))[1].job_id == published[1].data.job_id
        requests = [json.loads(body)["data"]["arguments"] for _, body in airport.parked()]
        assert [arguments["path"]["data"] for arguments in requests] == ["first", "second"]
        assert await airport.store.triggers.arrivals_of("queue") == []


class TestDebounce:
    RULE = EventRule(exchange="airport", key="#", debounce=5 * SECOND, max_wait=12 * SECOND)

    async def test_the_last_of_a_burst_stands_for_all(self, airport: Stage) -> None:
        await send(airport, put("quiet", self.RULE))
        for number in range(3):
            await airport.send(message(number), then=3)
        assert await airport.statuses("quiet") == ["coalesced", "coalesced"]
        await airport.clock.advance(2.1)
        assert await airport.statuses("quiet") == ["coalesced", "coalesced", "fired"]
        assert (await airport.tick_rows("quiet"))[-1].reason == "event event-2"
        await airport.clock.advance(60)
        assert len(jobs(airport)) == 1

    async def test_a_burst_without_end_is_not_waited_for(self, airport: Stage) -> None:
        await send(airport, put("quiet", self.RULE))
        for number in range(10):
            await airport.send(message(number), then=3)
        await airport.clock.advance(6)
        assert len(jobs(airport)) == 3
        assert (await airport.statuses("quiet")).count("fired") == 3
        assert len(await airport.tick_rows("quiet")) == 10

    async def test_more_than_are_decided_at_once_are_still_one_burst(self, airport: Stage) -> None:
        await send(airport, put("quiet", self.RULE))
        await airport.send(*(message(number) for number in range(1100)), then=7)
        found = await airport.statuses("quiet")
        assert (len(found), found.count("fired"), len(jobs(airport))) == (1100, 1, 1)


class TestAfter:
    LOAD, MAIL = Upstream(job_type="flights.load"), Upstream(schedule="mail")

    async def test_after_a_job_type_has_succeeded_or_failed_or_finished(self, stage: Stage) -> None:
        for end in UpstreamEnd:
            rule = AfterRule(upstreams=(Upstream(job_type="nightly", end=end),))
            await send(stage, put(f"after.{end}", rule))
        for number, state in enumerate(("succeeded", "dead", "expired", "cancelled")):
            await finish(stage, number, "nightly", state)
        await finish(stage, 9, "other")
        await finish(stage, 0, "nightly")
        counts = {end.value: len(await stage.tick_rows(f"after.{end}")) for end in UpstreamEnd}
        assert counts == {"succeeded": 1, "failed": 2, "finished": 4}

    async def test_after_the_jobs_of_a_schedule_whatever_else_has_its_type(self, stage: Stage) -> None:
        first = put("first", CronRule(expression="0 0 1 1 *"))
        second = put("second", AfterRule(upstreams=(Upstream(schedule="first"),)), job_type="flights.load")
        await send(stage, second)  # the other is not there yet
        trigger = named(events.ScheduleTriggerRequested, "first", "now")
        await send(stage, first, trigger, then=2)
        (job,) = stage.job_ids()
        await finish(stage, 7)
        assert await stage.statuses("second") == []
        await finish(stage, job, then=2)
        assert await stage.statuses("second") == ["fired"]
        assert (await stage.tick_rows("second"))[0].reason == "after schedule:first"

    async def test_all_of_several_within_a_window(self, stage: Stage) -> None:
        types = ("a", "b", "c")
        rule = AfterRule(upstreams=tuple(Upstream(job_type=name) for name in types), within=60 * SECOND)
        await send(stage, put("all", rule))
        await finish(stage, 1, "a", then=10)
        await finish(stage, 2, "a", then=40)
        await finish(stage, 3, "b", then=25)
        assert await stage.statuses("all") == ["coalesced"]
        await finish(stage, 4, "c", then=150)
        rows = await stage.tick_rows("all")
        assert [row.status for row in rows] == ["coalesced", "skipped", "skipped", "skipped"]
        assert rows[1].reason == "after a, but not within the window after b, c"
        for number, name in enumerate(types, 5):
            await finish(stage, number, name)
        assert [row.reason for row in await stage.tick_rows("all")][4:] == ["after a, b, c"]
        assert len(jobs(stage)) == 1
        assert await stage.store.triggers.arrivals_of("all") == []


class TestBindings:
    async def test_nothing_is_bound_without_such_a_schedule(self, airport: Stage) -> None:
        await send(airport, put("clock", CronRule(expression="* * * * *")), then=65)
        assert await airport.store.triggers.add_bindings([]) == set()
        result = await airport.bus.publish([message()._replace(mandatory=True)])
        assert result == ["unroutable"]

    async def test_they_go_with_their_schedules_and_others_keep_theirs(self, airport: Stage) -> None:
        other = LANDED.model_copy(update={"key": "landed.#"})
        await send(airport, put("landing", LANDED), put("twin", LANDED), put("other", other))
        await self.remove(airport, "other")
        assert await self.routed(airport, "landed.a.b") is False
        assert await self.routed(airport, "landed.a") is True
        await self.remove(airport, "landing")
        assert await self.routed(airport, "landed.a") is True
        await send(airport, put("twin", CronRule(expression="@daily")))
        assert await self.routed(airport, "landed.a") is False
        assert await airport.store.triggers.add_bindings([]) == set()

    async def remove(self, stage: Stage, name: str) -> None:
        await send(stage, named(events.ScheduleRemoveRequested, name, f"r-{name}"))

    async def routed(self, stage: Stage, key: str) -> bool:
        [result] = await stage.bus.publish([message()._replace(routing_key=key, mandatory=True)])
        return result == "confirmed"

    async def test_they_are_made_again_after_the_exchange_was(self, airport: Stage) -> None:
        await send(airport, put("landing", LANDED))
        airport.broker.delete_exchange("airport")
        await airport.bus.declare(Topology((AIRPORT,), ()))
        assert await self.routed(airport, "landed.a") is False
        await airport.clock.advance(31)
        assert await self.routed(airport, "landed.a") is True

    async def test_an_exchange_that_is_not_there_is_refused(self, stage: Stage) -> None:
        await send(stage, put("landing", LANDED), put("fine", CronRule(expression="@daily")))
        assert refusals(stage) == ["expected an exchange that is there, got 'airport': declare it first"]
        assert list(await stage.store.schedules()) == ["fine"]

    async def test_what_is_put_elsewhere_is_known_to_every_scheduler(self, airport: Stage) -> None:
        """Both consume one queue: the one that receives a message reads the schedules from the store."""
        bus = MemoryBus(airport.broker, name="second")
        await bus.start()
        second = assemble(bus, airport.store, airport.clock, SeededEntropy(2), airport.telemetry, SETTINGS)
        await second.start()
        await send(airport, put("landing", PLAIN))
        await airport.send(*(message(number) for number in range(50)), then=3)
        assert len(set(airport.job_ids())) == len(jobs(airport)) == 50
        await second.stop()
        await bus.close()


class TestAllowedAddresses:
    @pytest.mark.parametrize("key", ["#", "*.me", "reply.#", "reply.shop-1", "#.me", "command.handled"])
    async def test_a_rule_for_replies_is_refused(self, stage: Stage, key: str) -> None:
        await send(stage, put("thief", EventRule(key=key)), put("fine", EventRule(key="job.*.pay")))
        (refusal,) = refusals(stage)
        assert f"got {key!r}" in refusal
        assert list(await stage.store.schedules()) == ["fine"]

    @pytest.mark.parametrize(
        ("key", "is_allowed"), [("landed.*", True), ("landed.jfk", True), ("landed.#", False), ("#", False)]
    )
    def test_a_pattern_covers_bindings_that_receive_no_more(self, key: str, *, is_allowed: bool) -> None:
        allowed = {"airport": ["left.#", "landed.*"]}
        assert trigger_graph.is_allowed(("airport", key), allowed) is is_allowed
        assert not trigger_graph.is_allowed(("harbour", key), allowed)

    async def test_an_exchange_that_no_setting_names_is_refused(self, stage: Stage) -> None:
        await stage.bus.declare(Topology((Exchange("harbour"),), ()))
        await send(stage, put("ships", EventRule(exchange="harbour")))
        (refusal,) = refusals(stage)
        assert "or of an exchange that WARRENER_SCHEDULER_TRIGGER_EXCHANGES allows" in refusal

    async def test_a_schedule_that_was_allowed_before_receives_nothing(self, airport: Stage) -> None:
        thief = put("thief", EventRule(key="reply.#")).data
        await airport.store.put_schedules(
            [ScheduleRow(definition=thief, put_at=airport.clock.now(), zone_version="2026a")]
        )
        await send(airport, put("landing", PLAIN))
        assert ("warrener.events", "reply.#") not in await airport.store.triggers.add_bindings([])


class TestLoops:
    @pytest.mark.parametrize(
        ("rules", "circle"),
        [
            ([("a", AfterRule(upstreams=(Upstream(job_type="type.a"),)))], "a → a"),
            ([("a", AfterRule(upstreams=(Upstream(schedule="a"),)))], "a → a"),
            (
                [
                    ("a", AfterRule(upstreams=(Upstream(schedule="b"),))),
                    ("b", AfterRule(upstreams=(Upstream(job_type="type.c"),))),
                    ("c", EventRule(key="schedule.ticked.fired.a")),
                ],
                "c → b → a → c",
            ),
            ([("a", EventRule(key="job.finished.#")), ("b", EventRule(key="job.dead.*.*"))], "b → a → b"),
        ],
    )
    async def test_schedules_that_would_start_themselves_for_ever_are_refused(
        self, stage: Stage, rules: list[tuple[str, Rule]], circle: str
    ) -> None:
        await send(stage, *(put(name, rule, job_type=f"type.{name}") for name, rule in rules))
        assert [circle in detail for detail in refusals(stage)] == [True], refusals(stage)
        assert len(await stage.store.schedules()) == len(rules) - 1

    async def test_events_of_its_own_ticks_and_jobs_start_nothing(self, stage: Stage) -> None:
        await send(stage, put("all", EventRule(key="job.#")), then=1)
        await send(stage, named(events.ScheduleTriggerRequested, "all", "t"), then=1)
        (job,) = stage.job_ids()
        await finish(stage, job)
        row = (await stage.store.jobs_by_id([job]))[job]
        await stage.store.save_jobs([Save(row)])
        assert await stage.statuses("all") == ["triggered"]
        await finish(stage, 3, "other")
        assert await stage.statuses("all") == ["triggered", "fired"]


async def test_jitter_is_refused(airport: Stage) -> None:
    await send(airport, put("landing", LANDED, jitter=5))
    assert refusals(airport) == ["expected no jitter where events make the ticks: they come when they come"]
    assert await airport.store.triggers.add_bindings([]) == set()


EVENT = {
    "type": "landed",
    "data": {"rows": 10, "late": 0.5, "ok": True, "none": None, "legs": [{"to": "JFK"}], "at": "2026-01-02"},
}


@pytest.mark.parametrize(
    ("path", "check", "value", "holds"),
    [
        ("data.rows", "equals", 10, True),
        ("data.rows", "equals", 10.0, True),
        ("data.rows", "equals", "10", False),
        ("data.ok", "equals", 1, False),
        ("data.ok", "equals", True, True),
        ("data.none", "equals", None, True),
        ("data.missing", "equals", None, False),
        ("data.legs.0.to", "equals", "JFK", True),
        ("data.legs.1.to", "equals", "JFK", False),
        ("data.legs.-1.to", "equals", "JFK", False),
        ("data.legs", "equals", [{"to": "JFK"}], True),
        ("data.rows.0", "exists", None, False),
        ("data.rows", "differs", 11, True),
        ("data.missing", "differs", 11, True),
        ("data.none", "exists", None, True),
        ("data.missing", "exists", None, False),
        ("data.missing", "absent", None, True),
        ("type", "absent", None, False),
        ("type", "one_of", ["started", "landed"], True),
        ("data.ok", "one_of", [1, 0], False),
        ("data.rows", "more", 9, True),
        ("data.rows", "more", 10, False),
        ("data.rows", "at_least", 10, True),
        ("data.late", "less", 1, True),
        ("data.late", "at_most", 0.5, True),
        ("data.at", "more", "2026-01-01", True),
        ("data.at", "more", 2026, False),
        ("data.ok", "at_least", 0, False),
        ("data.missing", "less", 1, False),
    ],
)
def test_one_condition(path: str, check: str, value: Any, *, holds: bool) -> None:
    condition = Condition.model_validate({"path": path, "check": check, "value": value})
    assert passes(EVENT, [condition]) is holds


def test_all_of_them_must_hold_and_none_is_none() -> None:
    good, bad = Condition(path="type", value="landed"), Condition(path="type", value="started")
    assert [passes(EVENT, where) for where in ([], [good, good], [good, bad])] == [True, True, False]


@pytest.mark.parametrize(
    "wrong",
    [
        {"path": "data..rows"},
        {"path": "data rows"},
        {"path": "a", "check": "less", "value": True},
        {"path": "a", "check": "more"},
        {"path": "a", "check": "one_of", "value": "DE"},
        {"path": "a", "check": "one_of", "value": []},
        {"path": "a", "check": "exists", "value": 1},
        {"path": "a", "value": "\0"},
        {"path": "a", "check": "matches", "value": ".*"},
    ],
)
def test_what_is_no_condition_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Condition.model_validate(wrong)
