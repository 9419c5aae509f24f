"""Requests become jobs, duplicates are recognised, rejections give their reason; full queues are closed."""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import jsonschema_rs
import pytest
from services.scheduler.tests.stage import Stage, announcement, declaration, job_id, request
from tests.security.attacks import attack
from tests.store_rows import queued_job, succeeded

from warrener_contracts import topology
from warrener_contracts.codec import MAX_DECODE_FAILURES
from warrener_contracts.events import JobCancelRequested, JobDeduplicated, JobFinished, JobRejected, Reason
from warrener_contracts.identity import child_source, undo_source
from warrener_contracts.json_safety import is_array
from warrener_contracts.messages import batch_messages, build_message
from warrener_contracts.policy import JobPolicy, Limit, PolicyOverrides
from warrener_contracts.private_payloads import MARK
from warrener_contracts.state_machine import JobState
from warrener_runtime.health import HealthRegistry, NotReady, current_health_registry
from warrener_runtime.telemetry import to_nanoseconds
from warrener_runtime.virtual_clock import VirtualClock
from warrener_scheduler.decisions.admission import find_argument_error
from warrener_scheduler.dispatch import CongestedQueues, wait_before_gate
from warrener_scheduler.ports import SchedulerPorts
from warrener_store.gates.rows import SlotClaim, slot_claim
from warrener_store.jobs.rows import Inserted, JobRow
from warrener_store.jobs.views import END_REASON, CancelledTree
from warrener_store.memory import MemoryStore

WHY = "with the tree of 1: wrong file"


async def _row(stage: Stage, number: int = 1) -> JobRow:
    return (await stage.store.jobs_by_id([job_id(number)]))[job_id(number)]


async def test_a_request_becomes_a_job_that_is_dispatched_once(stage: Stage) -> None:
    await stage.send_requests(request(2, queue="later"))
    assert stage.broker.ready("warrener.queue.later") == 1, "nobody serves it yet: it waits there"
    await stage.send_requests(request(policy=PolicyOverrides(max_attempts=2), reply_to="me"))
    row = await _row(stage)
    assert (row.state, row.attempt, row.queue, row.watchers) == (JobState.QUEUED, 1, "default", ("me",))
    assert row.policy.max_attempts == 2
    (dispatch,) = stage.dispatched()
    assert (dispatch.data.job_id, dispatch.data.attempt) == (job_id(1), 1)
    assert dispatch.data.arguments == {"path": "a.csv"}
    assert stage.pending() == 0


async def test_a_repeat_changes_nothing_makes_no_message_and_watches_the_job(stage: Stage) -> None:
    await stage.send_requests(request(), request(), request())
    assert len({event.id for event in stage.dispatched()}) == 1
    dispatches = len(stage.received[topology.DISPATCH])
    for _ in range(5):  # as a client does every minute while it waits
        await stage.send_requests(request(reply_to="me"), then=60)
    assert len(stage.received[topology.DISPATCH]) == dispatches
    assert (await _row(stage)).watchers == ("me",)
    assert not stage.parked()


async def test_a_scheduler_that_was_stopped_between_slot_and_insert_dispatches_nothing_without_a_slot(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It goes on after a quarter of an hour, when a supervisor has given the slot to another job."""
    await stage.send(build_message(announcement(declaration(policy=JobPolicy(gates=(Limit(1),))))), then=40)
    take_slots = stage.store.take_slots

    async def take_and_stop(*given: Any, **named: Any) -> set[UUID]:
        granted = await take_slots(*given, **named)
        monkeypatch.undo()
        await stage.clock.sleep(900)
        return granted

    monkeypatch.setattr(stage.store, "take_slots", take_and_stop)
    await stage.send_requests(request())
    await stage.store.drop_slots(await stage.store.slots_after(("", 0), 9))
    another = SlotClaim(job_id(2), 1, stage.clock.now(), (("job/flights.load", 1),))
    assert await stage.store.take_slots([another], stage.clock.now()) == {job_id(2)}
    await stage.clock.advance(960)
    assert (await _row(stage)).state is JobState.WAITING
    assert not stage.dispatched()


async def test_the_jobs_of_a_batch_wait_in_the_order_of_their_requests(stage: Stage) -> None:
    await stage.send(build_message(announcement(declaration(policy=JobPolicy(gates=(Limit(1),))))), then=40)
    numbers = [901, 55, 700, 3, 400]  # ids have another order
    await stage.send(*batch_messages([build_message(request(number)) for number in numbers]))
    await stage.store.release_slots([(job_id(901), 1)])
    line = await stage.store.line_heads(["job/flights.load"], 9, beyond=True)
    assert [waiter.job_id for waiter in line] == [job_id(number) for number in numbers[1:]]


async def test_a_slot_that_a_repeat_does_not_need_wakes_the_job_that_was_refused_it_meanwhile(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    await stage.send(build_message(announcement(declaration(policy=JobPolicy(gates=(Limit(1),))))), then=40)
    await stage.send_requests(request(1, idempotency_key="k"))
    await stage.end_job(job_id(1))
    await stage.store.release_slots([(job_id(1), 1)])
    insert_jobs = stage.store.insert_jobs

    async def insert_beside(rows: Sequence[JobRow], **named: Any) -> list[Inserted]:
        monkeypatch.undo()
        other = replace(rows[0], job_id=job_id(3), idempotency_key=None)
        await insert_jobs([wait_before_gate(other, stage.clock.now())])
        await stage.store.wait_for_slots([slot_claim(other, stage.clock.now())], stage.clock.now())
        return list(await insert_jobs(rows, **named))

    monkeypatch.setattr(stage.store, "insert_jobs", insert_beside)
    await stage.send_requests(request(2, idempotency_key="k"), then=30)
    assert [event.data.job_id for event in stage.dispatched()][-1] == job_id(3)


@pytest.mark.parametrize("ends", ["its process", "its broker"])
async def test_1_a_request_whose_dispatch_may_not_have_been_published_is_dispatched(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, ends: str
) -> None:
    """Killed, or failed, between the insert and the publish: somebody handles it again."""
    calls: list[int] = []

    async def fail(*given: Any, **named: Any) -> Any:
        calls.append(1)
        if len(calls) > 1:
            monkeypatch.undo()
            if ends == "its process":
                stage.broker.drop_connections()
        raise RuntimeError("ordered by the test")

    monkeypatch.setattr(SchedulerPorts, "publish", fail)
    await stage.send_requests(request(), then=30)
    assert len(calls) > 1
    assert (await _row(stage)).state is JobState.QUEUED
    assert {event.data.job_id for event in stage.dispatched()} == {job_id(1)}


async def test_a_repeat_of_what_is_over_is_answered_with_its_end(stage: Stage) -> None:
    await stage.send_requests(request())
    await stage.store.save_jobs([succeeded(await _row(stage), 42)])
    await stage.send_requests(request(reply_to="me"))
    answer = stage.answer("me", JobFinished)
    assert (answer.data.state, answer.data.result) == (JobState.SUCCEEDED, 42)


async def test_the_same_id_with_another_content_is_a_conflict(stage: Stage) -> None:
    await stage.send_requests(request(), request(arguments={"path": "b.csv"}, reply_to="me"))
    assert stage.answer("me", JobRejected).data.reason is Reason.CONFLICTING_REPEAT
    assert (await _row(stage)).arguments == {"path": "a.csv"}


async def test_an_idempotency_key_stands_for_the_first_job(stage: Stage) -> None:
    await stage.send_requests(request(1, idempotency_key="day-1"))
    await stage.send_requests(request(2, idempotency_key="day-1", reply_to="me"))
    answer = stage.answer("me", JobDeduplicated)
    assert (answer.data.requested_job_id, answer.data.job_id) == (job_id(2), job_id(1))
    assert (await _row(stage)).watchers == ("me",)
    assert len(stage.dispatched()) == 1


async def test_a_used_key_with_other_arguments_is_a_conflict_that_names_the_job(stage: Stage) -> None:
    await stage.send_requests(request(1, idempotency_key="day-1"))
    other = {"path": "b.csv"}
    await stage.send_requests(request(2, idempotency_key="day-1", arguments=other, reply_to="me"))
    rejected = stage.answer("me", JobRejected).data
    assert rejected.reason is Reason.CONFLICTING_REPEAT
    assert "'day-1'" in rejected.detail
    assert str(job_id(1)) in rejected.detail
    assert len(stage.dispatched()) == 1
    later = request(3, idempotency_key="day-1", delay=timedelta(hours=1), reply_to="later")
    await stage.send_requests(later)
    assert stage.answer("later", JobDeduplicated).data.job_id == job_id(1), "when it runs is no other work"


async def test_a_key_of_another_source_or_job_type_is_another_key(stage: Stage) -> None:
    await stage.send(build_message(announcement(declaration(), declaration(name="flights.sum"))))
    first = request(1, idempotency_key="day-1")
    elsewhere = request(2, idempotency_key="day-1").model_copy(update={"source": "elsewhere"})
    await stage.send_requests(first, elsewhere, request(3, idempotency_key="day-1", job_type="flights.sum"))
    assert stage.job_ids() == [job_id(1), job_id(2), job_id(3)]


async def test_an_announcement_in_the_same_batch_comes_before_the_request(stage: Stage) -> None:
    new = announcement(declaration(name="flights.sum", queue="sums"))
    await stage.send(build_message(request(job_type="flights.sum")), build_message(new))
    assert (await _row(stage)).queue == "sums"


async def test_what_another_scheduler_received_is_known_at_once(stage: Stage) -> None:
    rows = (await stage.store.job_types()).values()
    await stage.store.put_job_types([replace(row, name="flights.sum") for row in rows])
    await stage.send_requests(request(job_type="flights.sum"))
    assert (await _row(stage)).state is JobState.QUEUED


@pytest.mark.parametrize(
    ("changes", "reason", "words"),
    [
        ({"job_type": "flights.lod"}, "unknown_job_type", "flights.lod"),
        ({"job_type": "flights.lod", "queue": "nobody"}, "unknown_job_type", "flights.lod"),
        ({"queue": "nobody"}, "bad_fields", "got 'nobody': name none or one of default, la*, loading"),
        ({"arguments": {}}, "bad_arguments", "arguments: expected 'path', got none"),
        ({"arguments": {"path": "a", "rows": ["x"]}}, "bad_arguments", 'rows.0: expected integer, got "x"'),
        ({"arguments": {"path": "a", "q": 1}}, "bad_arguments", "expected no 'q'"),
    ],
)
async def test_g7_a_wrong_request_gets_the_reason_and_is_parked(
    stage: Stage, changes: dict[str, Any], reason: str, words: str
) -> None:
    await stage.send_requests(request(1, **changes, reply_to="me"), request(2))
    answer = stage.answer("me", JobRejected)
    assert answer.data.reason == reason
    assert words in answer.data.detail
    assert [why for why, _ in stage.parked()] == [reason]
    assert [event.data.job_id for event in stage.dispatched()] == [job_id(2)], "the one beside it goes on"
    assert stage.pending() == 0


_RAW = {"specversion": "1.0", "source": "shell", "type": "job.requested.v1"}
_GOOD = {**_RAW, "id": "a", "data": {"job_type": "flights.load", "arguments": {"path": "a"}}}


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"{broken", Reason.NOT_JSON),
        ({"hello": "there"}, Reason.NOT_AN_EVENT),
        ({**_RAW, "data": {"job_type": "flights.load"}}, Reason.MISSING_ID),
        ({**_RAW, "id": "1", "data": {"job_type": "flights.load", "delay": 1e300}}, Reason.BAD_FIELDS),
        (b" " * (2 * 1024 * 1024), Reason.TOO_LARGE),
    ],
    ids=lambda value: value.value if isinstance(value, Reason) else "",
)
async def test_g7_what_cannot_be_understood_is_parked_and_nothing_loops(
    stage: Stage, body: bytes | dict[str, Any], reason: Reason
) -> None:
    await stage.send_raw(body)
    assert [why for why, _ in stage.parked()] == [reason.value]
    assert [event.data.reason for event in stage.all_of(JobRejected)] == [reason]
    assert stage.pending() == 0


async def test_g7_a_requester_is_answered_even_if_only_its_address_can_be_read(stage: Stage) -> None:
    await stage.send_raw({**_RAW, "id": "1", "data": {"job_type": 7, "reply_to": "me"}})
    answer = stage.answer("me", JobRejected)
    assert (answer.data.request_id, answer.data.reason) == ("1", Reason.BAD_FIELDS)


async def test_g7_a_thousand_bad_elements_are_few_parked_messages_and_answers(stage: Stage) -> None:
    await stage.send_raw([*({**_RAW, "n": n} for n in range(500)), _GOOD, *([17] * 500)])
    assert len(stage.dispatched()) == 1
    assert len(stage.parked()) == MAX_DECODE_FAILURES + 1
    parked_bodies = [json.loads(body) for _, body in stage.parked()]
    assert sum(len(one) if is_array(one) else 1 for one in parked_bodies) == 1000, "none is lost"
    assert len(stage.all_of(JobRejected)) == len(parked_bodies)


async def test_a_request_under_the_key_of_another_job_type_is_answered_and_parked(stage: Stage) -> None:
    """Permissions by routing key would mean nothing otherwise."""
    wanted = {"job_type": "flights.load", "reply_to": "me"}
    await stage.send_raw({**_GOOD, "data": wanted}, key="flights.look")
    assert stage.answer("me", JobRejected).data.reason is Reason.ROUTING_KEY_MISMATCH
    assert [why for why, _ in stage.parked()] == [Reason.ROUTING_KEY_MISMATCH.value]
    assert not stage.dispatched()


async def test_g7_each_element_of_a_batch_is_judged_alone_also_by_the_key_of_the_message(
    stage: Stage,
) -> None:
    agent = {"agent_id": "forged", "queues": ["default"], "job_types": []}
    announced = {**_RAW, "id": "b", "type": "agent.announced.v1", "data": agent}
    cancel = {**_RAW, "id": "c", "type": "job.cancel_requested.v1", "data": {"job_id": str(job_id(1))}}
    await stage.send_raw([announced, _GOOD, cancel, {**_RAW, "data": {}}, {**_GOOD, "id": "d"}])
    assert len(stage.dispatched()) == 2
    reasons = [Reason.MISSING_ID, Reason.ROUTING_KEY_MISMATCH, Reason.WRONG_QUEUE]
    assert sorted(why for why, _ in stage.parked()) == reasons
    assert not stage.published(topology.STATUS), "no cancel was forwarded"
    assert not stage.published(topology.COMMANDS)


async def test_g7_a_batch_without_one_event_is_parked_once(stage: Stage) -> None:
    await stage.send_raw([1] * 5000)
    ((reason, body),) = stage.parked()
    assert (reason, json.loads(body)) == ("not_an_event", [1] * 5000)


async def test_an_id_of_any_length_and_characters_stops_nothing(stage: Stage) -> None:
    odd = "ß" * 200
    data = {"job_type": "flights.load", "arguments": {"path": "ß"}}
    await stage.send_raw({**_RAW, "id": odd, "data": data})
    await stage.send_raw({**_RAW, "id": odd, "data": {**data, "arguments": {}}})
    assert len(stage.dispatched()) == 1
    assert all(len((one.message_id or "").encode()) <= 255 for one in stage.received[topology.DISPATCH])


async def test_a_schema_that_cannot_be_used_stops_nothing(stage: Stage) -> None:
    odd = ({"type": "objekt"}, {"$ref": "http://nowhere.invalid/x"}, {"$ref": "#/y"})
    for number, schema in enumerate(odd):
        name = f"odd-{number}"
        await stage.send(build_message(announcement(declaration(name=name, arguments_schema=schema))))
        await stage.send_requests(request(10 + number, job_type=name, arguments={"anything": 1}))
        assert (await _row(stage, 10 + number)).state is JobState.QUEUED


async def test_a_request_that_was_accepted_stays_so_when_its_type_has_changed(stage: Stage) -> None:
    await stage.send_requests(request())
    stricter = declaration(arguments_schema={"type": "object", "required": ["day"]})
    await stage.send(build_message(announcement(stricter)))
    await stage.send_requests(request(reply_to="me"))
    assert not stage.parked()
    assert (await _row(stage)).watchers == ("me",)


THEIRS = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


async def test_a_trace_goes_on_through_acceptance_and_begins_there_if_there_is_none(stage: Stage) -> None:
    await stage.send_requests(request(1, trace=THEIRS), request(2))
    row, without = await _row(stage, 1), await _row(stage, 2)
    by_name = {
        span.attributes["warrener.job.id"]: span
        for span in stage.telemetry.spans()
        if span.attributes and span.name.startswith("accept")
    }
    span = by_name[str(job_id(1))]
    assert span.name == "accept flights.load"
    assert span.parent is not None
    assert f"{span.parent.span_id:016x}" == "b7ad6b7169203331"
    assert span.context is not None
    assert row.traceparent == f"00-0af7651916cd43dd8448eb211c80319c-{span.context.span_id:016x}-01"
    assert by_name[str(job_id(2))].parent is None
    assert without.traceparent is not None
    assert {event.traceparent for event in stage.dispatched()} == {row.traceparent, without.traceparent}


async def test_a_rejection_is_an_error_and_a_duplicate_leads_to_the_trace_of_its_job(stage: Stage) -> None:
    await stage.send_requests(request(1, trace=THEIRS))
    await stage.send_requests(request(1, trace=THEIRS), request(2, trace=THEIRS, arguments={"rows": "no"}))
    first, duplicate, rejected = (
        span for span in stage.telemetry.spans() if span.name == "accept flights.load"
    )
    outcomes = [(span.attributes or {})["warrener.outcome"] for span in (first, duplicate, rejected)]
    assert outcomes == ["accepted", "duplicate", "rejected"]
    assert first.context is not None
    assert [link.context.span_id for link in duplicate.links] == [first.context.span_id]
    assert not rejected.status.is_ok
    assert (rejected.attributes or {})["error.type"] == "bad_arguments"
    assert first.status.is_unset
    assert duplicate.status.is_unset


async def test_a_delayed_job_waits_in_the_store_and_is_dispatched_when_due_and_the_delay_is_a_span(
    stage: Stage,
) -> None:
    delay, age = timedelta(seconds=30), timedelta(hours=1)
    await stage.send_requests(request(trace=THEIRS, delay=delay, policy=PolicyOverrides(max_age=age)))
    waiting = await _row(stage)
    assert waiting.policy.max_age == delay + age, "its age begins when it is due"
    assert waiting.state is JobState.WAITING
    assert waiting.due_at is not None
    assert not stage.dispatched()
    assert not [span for span in stage.telemetry.spans() if span.name.startswith("wait")]
    await stage.clock.advance(30)
    row = await _row(stage)
    assert (row.state, row.attempt) == (JobState.QUEUED, 1)
    assert row.dispatched_at is not None
    assert row.wake_at == row.dispatched_at + row.policy.start_timeout
    assert [event.data.attempt for event in stage.dispatched()] == [1]
    wait, *_ = (span for span in stage.telemetry.spans() if span.name.startswith("wait"))
    assert (wait.attributes or {})["warrener.wait.cause"] == "delay"
    times = to_nanoseconds(row.accepted_at), to_nanoseconds(waiting.due_at)
    assert (wait.start_time, wait.end_time) == times
    assert wait.parent is not None
    assert f"{wait.parent.span_id:016x}" == (row.traceparent or "").split("-")[2]


async def test_what_has_expired_before_it_came_is_not_dispatched(stage: Stage) -> None:
    await stage.send_requests(
        request(1, deadline=stage.clock.now()), request(2, delay=timedelta(seconds=9), expires_after=5)
    )
    await stage.clock.advance(60)
    assert not stage.dispatched(), "the supervisor ends them"


class TestCancelledTrees:
    """A cancelled tree does not grow: its child jobs are cancelled as they come."""

    @pytest.fixture(autouse=True)
    async def cancelled_tree(self, stage: Stage) -> None:
        await stage.send_requests(request(1))
        tree = CancelledTree(job_id=job_id(1), reason=WHY, cancelled_at=stage.clock.now())
        await stage.store.mark_cancelled([tree])

    def _cancelled(self, stage: Stage) -> list[tuple[object, str, bool]]:
        cancels = [event.data for event in stage.all_of(JobCancelRequested)]
        return [(data.job_id, data.reason, data.tree) for data in cancels]

    async def test_a_child_job_of_a_cancelled_tree_is_stored_and_not_dispatched(self, stage: Stage) -> None:
        await stage.send_requests(
            request(2, parent_id=job_id(1)), request(3, parent_id=job_id(9)), request(4)
        )
        assert {event.data.job_id for event in stage.dispatched()} == {job_id(1), job_id(3), job_id(4)}
        assert self._cancelled(stage) == [(job_id(2), WHY, True)]
        assert (await _row(stage, 2)).state is JobState.QUEUED, "the supervisor ends it"

    @pytest.mark.parametrize("delay", [None, timedelta(hours=1)], ids=["at once", "one that is to wait"])
    async def test_a_crash_between_the_insert_and_the_look_is_repeated(
        self, stage: Stage, delay: timedelta | None
    ) -> None:
        """The row is there and the request is redelivered: it is a duplicate, and not dispatched either."""
        for times in (1, 2):
            await stage.send_requests(request(2, parent_id=job_id(1), delay=delay))
            assert self._cancelled(stage) == [(job_id(2), WHY, True)] * times
        assert job_id(2) not in {event.data.job_id for event in stage.dispatched()}

    async def test_a_job_that_undoes_a_call_of_the_tree_is_spared(self, stage: Stage) -> None:
        undo = request(2, parent_id=job_id(1)).model_copy(update={"source": undo_source(job_id(1))})
        await stage.send_requests(undo)
        assert self._cancelled(stage) == []
        assert stage.job_ids() == [job_id(1), job_id(2)]

    async def test_the_end_of_a_workflow_cancels_what_its_handler_requests_and_no_detached_one(
        self, stage: Stage
    ) -> None:
        await stage.send_requests(request(9))
        why = f"{END_REASON}{job_id(9)} ends: too late"
        end = CancelledTree(job_id=job_id(9), reason=why, cancelled_at=stage.clock.now())
        await stage.store.mark_cancelled([end])
        child, detached, compensation = (request(number, parent_id=job_id(9)) for number in (2, 3, 4))
        child = child.model_copy(update={"source": child_source(job_id(9))})
        detached = detached.model_copy(update={"source": child_source(job_id(9), detached=True)})
        await stage.send_requests(child, detached, compensation)
        assert self._cancelled(stage) == [(job_id(2), why, True)]
        assert {job_id(3), job_id(4)} <= set(stage.job_ids())

    async def test_a_cancelled_tree_takes_detached_child_jobs_with_it(self, stage: Stage) -> None:
        detached = request(2, parent_id=job_id(1))
        detached = detached.model_copy(update={"source": child_source(job_id(1), detached=True)})
        await stage.send_requests(detached)
        assert self._cancelled(stage) == [(job_id(2), WHY, True)]

    async def test_a_batch_without_child_jobs_costs_no_other_query(
        self, stage: Stage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def never(_: object) -> None:
            raise AssertionError("expected no look at cancelled trees")

        monkeypatch.setattr(stage.store, "cancelled_among", never)
        await stage.send_requests(request(2), request(3))
        assert len(stage.dispatched()) == 3


class TestRejectedChildJobs:
    """A workflow waits for an end of each job that it has requested, also of one that never began."""

    @pytest.fixture(autouse=True)
    async def suspended_parent(self, stage: Stage) -> None:
        now = stage.clock.now()
        fields: dict[str, Any] = {"job_id": job_id(1), "updated_at": now, "wake_at": now + timedelta(hours=1)}
        await stage.store.insert_jobs([queued_job(state=JobState.SUSPENDED, suspensions=1, **fields)])

    async def test_its_rejection_is_its_end_and_wakes_the_parent(self, stage: Stage) -> None:
        for _ in range(2):  # as after a crash
            await stage.send_requests(request(2, arguments={"path": 7}, parent_id=job_id(1), reply_to="me"))
        row = await _row(stage, 2)
        assert (row.state, row.attempt, row.parent_id) == (JobState.DEAD, 0, job_id(1))
        assert row.error is not None
        assert (row.error.type, row.error.message) == (
            "Rejected",
            "arguments.path: expected a value that meets `type`, got another",
        )
        assert (await _row(stage)).wake_at == stage.clock.now() - timedelta(seconds=2)
        assert [type(event) for event in stage.answers("me")] == [JobRejected] * 2

    async def test_one_of_an_unknown_job_type_waits_for_an_agent(self, stage: Stage) -> None:
        await stage.send_requests(request(2, job_type="cards.charge", parent_id=job_id(1)))
        assert not await stage.store.jobs_by_id([job_id(2)])

    async def test_a_job_that_is_there_stays(self, stage: Stage) -> None:
        await stage.send_requests(request(2, parent_id=job_id(1)))
        await stage.send_requests(request(2, arguments={"path": "b.csv"}, parent_id=job_id(1)))
        assert (await _row(stage, 2)).state is JobState.QUEUED

    async def test_a_request_without_a_parent_leaves_nothing(self, stage: Stage) -> None:
        await stage.send_requests(request(2, arguments={"path": 7}))
        assert not await stage.store.jobs_by_id([job_id(2)])


async def test_2_a_queue_that_refuses_for_some_time_is_named_until_it_takes_a_job() -> None:
    clock, vitals = VirtualClock(), HealthRegistry()
    token = current_health_registry.set(vitals)
    congestion = CongestedQueues(MemoryStore(), clock)

    def row(queue: str = "full") -> JobRow:
        return queued_job(queue=queue, dispatched_at=clock.now())

    async def refuse(*others: JobRow) -> None:
        refused = row()
        await congestion.record_refusals([(refused.job_id, refused.attempt)], [refused, *others])

    async def check() -> str | None:
        try:
            await vitals.checks["dispatch queues"]()
        except NotReady as why:
            return str(why)
        return None

    before = row()
    await refuse(row("other"), before)
    assert await check() is None, "a moment without room is no trouble"
    for pause in (5, 10):  # at each try, as soon as the queue is tried again
        await clock.advance(pause)
        await refuse()
    assert await check() == "dispatch queues take no messages, full or without a quorum: full"
    assert not congestion.is_closed("other", clock.now())
    await clock.advance(20)
    assert not congestion.is_closed("full", clock.now()), "it is tried again"
    await congestion.record_refusals([], [row("other"), before])
    assert await check() is not None, "another queue, and what was dispatched before, do not count"
    await congestion.record_refusals([], [row()])
    assert await check() is None
    for pause in (0, 5, 10):
        await clock.advance(pause)
        await refuse()
    assert await check() is not None
    await clock.advance(timedelta(minutes=2).total_seconds())
    assert await check() is None, "no job comes for it: it is not named without end"
    current_health_registry.reset(token)


@attack(
    "an observer of events, logs or parked messages",
    "reads values out of the rejections of others' requests",
    refused="values go to the asker alone; everybody else gets the path, the expectation and the type",
)
async def test_a_rejection_quotes_the_value_to_the_asker_alone(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    await stage.send_requests(request(2, arguments={"path": 4111111111111111}, reply_to="me"))
    reply = stage.answer("me", JobRejected)
    assert reply.data.detail == "arguments.path: expected string, got 4111111111111111"
    (public,) = [one for one in stage.all_of(JobRejected) if one.data.detail != reply.data.detail]
    assert public.data.detail == "arguments.path: expected a value that meets `type`, got another"
    assert [why for why, _ in stage.parked()] == ["bad_arguments"]
    parked = [one for one in stage.received[topology.DEAD] if b"4111" in one.body]
    assert all("4111" not in str(one.headers) for one in parked)
    assert "4111" not in capsys.readouterr().err


@attack(
    "operator",
    "reads plain arguments of a private job type, or beside encrypted ones, among the parked messages",
    refused="scheduler: such a request is parked without its arguments",
)
async def test_plain_arguments_of_a_private_job_type_are_not_parked(stage: Stage) -> None:
    await stage.send_requests(request(1))
    await stage.send(build_message(announcement(declaration(policy=JobPolicy(encrypted=True)))), then=40)
    await stage.send_requests(
        request(1, arguments={"path": "s3cret"}),  # the id of a job that was accepted
        request(2, arguments={"path": "s3cret"}),
        request(3, arguments={"path": "s3cret"}, queue="of-nobody"),
        request(
            4, arguments={MARK: {"key": "k", "nonce": "", "data": "", "for": "schedule"}, "path": "s3cret"}
        ),
        request(5, arguments={MARK: {"path": "s3cret"}}),
    )
    assert [why for why, _ in stage.parked()] == ["bad_arguments"] * 5
    assert all(json.loads(body)["data"]["arguments"] == {} for _, body in stage.parked())
    assert all(b"s3cret" not in one.body for one in stage.received[topology.DEAD])


@pytest.mark.parametrize(
    ("schema", "value", "public"),
    [
        ({"maxLength": 2}, "s3cret", "maxLength"),
        ({"pattern": "^x"}, "s3cret", "pattern"),
        ({"enum": ["a", "b"]}, "s3cret", "enum"),
        ({"const": 5}, "s3cret", "const"),
        ({"anyOf": [{"type": "null"}, {"minLength": 90}]}, "s3cret", "anyOf"),
        ({"not": {"type": "string"}}, "s3cret", "not"),
        ({"propertyNames": {"maxLength": 2}}, {"a": "s3cret"}, None),
        ({"items": False}, ["s3cret"], None),
    ],
)
def test_no_expectation_quotes_the_value_in_public(schema: Any, value: Any, public: str | None) -> None:
    found = find_argument_error(jsonschema_rs.validator_for({"properties": {"x": schema}}), {"x": value})
    assert found is None or "s3cret" not in found.public
    if public is not None:
        assert found is not None
        assert found.public == f"arguments.x: expected a value that meets `{public}`, got another"
