"""A redrive requests dead jobs again: a canary first, the others at a rate, until the cause is back."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st
from services.scheduler.tests.stage import Stage, event, job_id, request
from tests.store_rows import changed, died, succeeded

from warrener_contracts import events
from warrener_contracts.identity import redrive_job_id
from warrener_contracts.messages import build_message
from warrener_contracts.state_machine import JobState
from warrener_scheduler.decisions.dead_letters import merge_patch
from warrener_store.dead_letters.rows import (
    DeadLetter,
    DeadLetterFilter,
    DeadLetterState,
    RedriveRow,
    RedriveState,
)
from warrener_store.jobs.rows import JobRow

CAUSE, OTHER = "0123456789ab", "ba9876543210"
ALL = DeadLetterFilter(states=(), limit=10_000, oldest_first=True)
REDRIVE = UUID("019440f7-9d20-7f31-8a64-4c1be07d25a9")
BOOM = events.ErrorInfo(kind=events.ErrorKind.ERROR, type="Boom", message="boom")


async def dead_jobs(stage: Stage, count: int, *, cause: str = CAUSE, first: int = 1, **terms: Any) -> None:
    await stage.send_requests(*(request(number, **terms) for number in range(first, first + count)))
    ids = [job_id(number) for number in range(first, first + count)]
    await end(stage, ids, cause)
    await stage.clock.advance(1)


async def end(stage: Stage, ids: Sequence[UUID], cause: str | None) -> None:
    rows = await stage.store.jobs_by_id(ids)
    assert len(rows) == len(ids)
    now = stage.clock.now()
    for row in rows.values():
        if cause is None:
            await stage.store.save_jobs([succeeded(row)])
            continue
        save = died(row, BOOM)
        assert save.dead_letter is not None
        dead_letter = replace(save.dead_letter, fingerprint=cause, died_at=now)
        await stage.store.save_jobs([replace(save, dead_letter=dead_letter)])


async def redrive(stage: Stage, then: float = 3.0, **terms: Any) -> None:
    plain: dict[str, Any] = {
        "selection": events.DeadLetterSelection(fingerprint=CAUSE),
        "canary": 3,
        "rate": 5.0,
    }
    begun = event(events.JobRedriveRequested, str(REDRIVE), stage.clock.now(), by="ann", **(plain | terms))
    await stage.send(build_message(begun), then=then)


async def change(stage: Stage, what: Any, redrive: UUID = REDRIVE) -> None:
    fields = {"redrive_id": redrive, "change": what, "by": "bob", "reason": "because", "reply_to": "desk"}
    command = event(events.RedriveChangeRequested, str(uuid4()), stage.clock.now(), **fields)
    await stage.send(build_message(command), then=3.0)


async def the_redrive(stage: Stage) -> RedriveRow:
    (row,) = await stage.store.dead_letter_store.redrives()
    return row


async def outcome(stage: Stage) -> tuple[RedriveState, Mapping[str, int]]:
    row = await the_redrive(stage)
    return row.state, row.counts


async def dead_letters(stage: Stage, *states: DeadLetterState) -> list[DeadLetter]:
    return await stage.store.dead_letter_store.list_dead_letters(replace(ALL, states=states))


async def heirs(stage: Stage) -> list[JobRow]:
    """Return the jobs that were requested in place of dead ones and are not over."""
    ids = [
        each.redriven_as for each in await dead_letters(stage, DeadLetterState.REDRIVEN) if each.redriven_as
    ]
    return list((await stage.store.jobs_by_id(ids)).values())


async def end_heirs(stage: Stage, cause: str | None = None, then: float = 3.0) -> int:
    found = await heirs(stage)
    await end(stage, [row.job_id for row in found], cause)
    await stage.clock.advance(then)
    return len(found)


async def test_a_canary_goes_first_and_the_others_follow_at_the_rate(stage: Stage) -> None:
    await dead_jobs(stage, 20)
    await redrive(stage)
    assert len(await heirs(stage)) == 3
    await stage.clock.advance(600)
    assert len(await heirs(stage)) == 3, "nothing else is requested until the canary is over"
    assert await end_heirs(stage, then=60) == 3
    assert (await the_redrive(stage)).counts == {"succeeded": 3, "redriven": 17}
    await end_heirs(stage, then=60)
    row = await the_redrive(stage)
    assert (row.state, row.counts, row.wake_at) == (RedriveState.DONE, {"succeeded": 20}, None)
    assert [entry.action.partition(":")[0] for entry in row.journal] == ["requested", "rolling", "done"]
    times = sorted(
        each.redriven_at for each in await dead_letters(stage, DeadLetterState.SUCCEEDED) if each.redriven_at
    )
    assert times[-1] - times[3] >= timedelta(seconds=3.0), "17 at 5 a second"


@pytest.mark.parametrize(
    ("cause", "reason", "state"),
    [
        (CAUSE, "the same failure is back: 10 of 10", "died_again"),
        (OTHER, "the canary fails otherwise: 10 of 10", "died"),
    ],
)
async def test_a_failure_in_the_canary_stops_it_and_frees_the_others(
    stage: Stage, cause: str, reason: str, state: str
) -> None:
    await dead_jobs(stage, 600)
    await redrive(stage, canary=10)
    assert await end_heirs(stage, cause) == 10
    await stage.clock.advance(600)
    row = await the_redrive(stage)
    assert (row.state, row.finished_at is not None) == (RedriveState.STOPPED, True)
    assert row.stop_reason.startswith(reason)
    assert row.counts == {state: 10}
    assert len(await dead_letters(stage, DeadLetterState.OPEN)) == 600, "590, and those of the ten"
    assert not await heirs(stage)


async def test_after_the_canary_only_the_known_failure_stops_it(stage: Stage) -> None:
    await dead_jobs(stage, 30)
    await redrive(stage)
    await end_heirs(stage)
    await end_heirs(stage, OTHER, then=1)
    assert (await the_redrive(stage)).state is RedriveState.ROLLING
    await end_heirs(stage, CAUSE)
    row = await the_redrive(stage)
    assert row.state is RedriveState.STOPPED
    assert row.counts["died_again"] > 0
    assert sum(row.counts.values()) < 30


async def test_some_may_die_again_where_that_is_tolerated(stage: Stage) -> None:
    await dead_jobs(stage, 4)
    await redrive(stage, max_failures=1, canary=1)
    await end_heirs(stage, CAUSE, then=10)
    assert await end_heirs(stage, then=10) == 3
    assert await outcome(stage) == (RedriveState.DONE, {"died_again": 1, "succeeded": 3})


async def test_a_stopped_one_goes_on_with_a_new_canary(stage: Stage) -> None:
    await dead_jobs(stage, 20)
    await redrive(stage)
    await end_heirs(stage, CAUSE)
    await change(stage, "resume")
    row = await the_redrive(stage)
    assert (row.state, row.counts["redriven"], row.journal[-1].by) == (RedriveState.CANARY, 3, "bob")
    await end_heirs(stage, then=30)
    await end_heirs(stage, then=30)
    # 17 of the twenty, and the dead letters of the three heirs that had died
    assert await outcome(stage) == (RedriveState.DONE, {"died_again": 3, "succeeded": 20})


async def test_a_person_stops_it_and_requested_jobs_are_still_counted(stage: Stage) -> None:
    await dead_jobs(stage, 20)
    await redrive(stage)
    await change(stage, "stop")
    assert await outcome(stage) == (RedriveState.STOPPED, {"redriven": 3})
    assert (await the_redrive(stage)).stop_reason == "stopped by bob: because"
    await change(stage, "stop")
    refusal = "expected a redrive that is under way, got one that is stopped"
    assert stage.answers("desk")[-1].data.detail == refusal
    await change(stage, "stop", uuid4())
    ((reason, body),) = stage.parked()
    assert (reason, b"redrive.change_requested" in body) == ("unknown_job", True)
    await end_heirs(stage, then=60)
    row = await the_redrive(stage)
    assert (row.counts, row.finished_at is not None) == ({"succeeded": 3}, True)
    assert len(await dead_letters(stage, DeadLetterState.OPEN)) == 17


async def test_the_new_job_is_the_old_one_with_another_id(stage: Stage) -> None:
    trace = "00-" + "a" * 32 + "-" + "b" * 16 + "-01"
    parent = uuid4()
    terms: dict[str, Any] = {"queue": "loading", "parent_id": parent, "idempotency_key": "k"}
    await stage.send_requests(request(1, trace, **terms))
    await end(stage, [job_id(1)], CAUSE)
    await stage.clock.advance(1)
    await redrive(stage, edits={"rows": [1]})
    (heir,) = await heirs(stage)
    (dead,) = (await stage.store.jobs_by_id([job_id(1)])).values()
    assert heir.job_id == redrive_job_id(job_id(1), 1)
    assert heir.source == f"warrener/redrive/{REDRIVE}"
    assert heir.arguments == {"path": "a.csv", "rows": [1]}
    assert (heir.queue, heir.parent_id, heir.idempotency_key) == ("loading", parent, None)
    (span,) = (span for span in stage.telemetry.spans() if span.name == "redrive flights.load")
    assert span.parent is None, "a trace of its own"
    assert span.context is not None
    assert (heir.traceparent or "")[3:35] == f"{span.context.trace_id:032x}"
    (link,) = span.links
    assert f"00-{link.context.trace_id:032x}-{link.context.span_id:016x}-01" == dead.traceparent
    assert (span.attributes or {})["warrener.redriven.job.id"] == str(dead.job_id)


async def test_edits_that_the_schema_refuses_stop_it_before_anything_is_requested(stage: Stage) -> None:
    await dead_jobs(stage, 5)
    await redrive(stage, edits={"path": 5})
    row = await the_redrive(stage)
    assert (row.state, row.counts) == (RedriveState.STOPPED, {"rejected": 5})
    assert "arguments.path: expected string, got 5" in row.stop_reason
    rejected = await dead_letters(stage, DeadLetterState.REJECTED)
    assert {each.note for each in rejected} == {"arguments.path: expected string, got 5"}
    assert not await heirs(stage)


async def test_a_dry_run_counts_what_would_be_done_and_does_nothing(stage: Stage) -> None:
    await dead_jobs(stage, 1200)
    before = await dead_letters(stage)
    await redrive(stage, dry_run=True)
    assert await outcome(stage) == (RedriveState.DONE, {"claimed": 1200})
    assert await dead_letters(stage) == before
    assert not await heirs(stage)


@pytest.mark.parametrize("wanted", [False, True], ids=["skipped by default", "requested again if wanted"])
async def test_what_has_succeeded_since(stage: Stage, *, wanted: bool) -> None:
    await dead_jobs(stage, 2)
    await stage.send_requests(request(3))
    await end(stage, [job_id(3)], None)
    await redrive(stage, even_if_succeeded=wanted)
    assert len(await heirs(stage)) == (2 if wanted else 0)
    if not wanted:
        assert await outcome(stage) == (RedriveState.DONE, {"already_succeeded": 2})
        first = (await dead_letters(stage, DeadLetterState.ALREADY_SUCCEEDED))[0]
        assert str(job_id(3)) in (first.note or "")


async def test_a_limit_takes_those_that_died_first(stage: Stage) -> None:
    await dead_jobs(stage, 3)
    await stage.clock.advance(5)
    await dead_jobs(stage, 3, first=4)
    await redrive(stage, limit=3)
    requested = {each.job_id for each in await dead_letters(stage, DeadLetterState.REDRIVEN)}
    assert requested == {job_id(number) for number in (1, 2, 3)}
    await end_heirs(stage)
    assert (await the_redrive(stage)).state is RedriveState.DONE


async def test_a_cancelled_heir_leaves_its_dead_letter_to_the_next_redrive_and_a_slow_one_begins_at_once(
    stage: Stage,
) -> None:
    await dead_jobs(stage, 2)
    await redrive(stage, canary=0, rate=1e-300)  # no calendar has its next job
    (heir,) = await heirs(stage)
    assert (await the_redrive(stage)).state is RedriveState.ROLLING
    over = changed(heir, state=JobState.CANCELLED, wake_at=None, finished_at=stage.clock.now())
    await stage.store.save_jobs([over])
    await change(stage, "stop")  # it is not looked at before that for a year
    await stage.clock.advance(10)
    (dead_letter,) = await dead_letters(stage, DeadLetterState.REOPENED)
    assert dead_letter.state.unresolved


async def test_a_request_that_was_lost_is_published_again_under_its_id(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The scheduler was killed after it had noted the dead letters, and before it published."""
    await dead_jobs(stage, 3)
    publish = stage.bus.publish
    lost: list[object] = []

    async def lose(sent: Sequence[Any]) -> Any:
        if any(b"warrener/redrive" in message.body for message in sent) and not lost:
            lost.append(sent)
            raise ConnectionError("killed here")
        return await publish(sent)

    monkeypatch.setattr(stage.bus, "publish", lose)
    await redrive(stage)
    assert lost
    assert len(await dead_letters(stage, DeadLetterState.REDRIVEN)) == 3
    assert not await heirs(stage)
    await stage.clock.advance(60)
    assert len(await heirs(stage)) == 3
    assert {each.redrives for each in await dead_letters(stage, DeadLetterState.REDRIVEN)} == {1}


async def test_dropped_dead_letters_stay_with_who_dropped_them_and_why(stage: Stage) -> None:
    await dead_jobs(stage, 1100)
    await dead_jobs(stage, 1, first=2000, cause=OTHER)
    which = events.DeadLetterSelection(fingerprint=CAUSE)
    drop = event(events.JobDropRequested, str(REDRIVE), selection=which, by="ann", reason="withdrawn")
    await stage.send(build_message(drop))
    assert await outcome(stage) == (RedriveState.DONE, {"dropped": 1100})
    dropped = await dead_letters(stage, DeadLetterState.DROPPED)
    assert {each.note for each in dropped} == {"dropped by ann: withdrawn"}
    (left,) = await dead_letters(stage, DeadLetterState.OPEN)
    assert left.fingerprint == OTHER


async def test_a_redrive_or_drop_without_an_unresolved_dead_letter_is_refused(stage: Stage) -> None:
    await stage.send_requests(request(1))
    for selection in (
        events.DeadLetterSelection(job_ids=(job_id(1),)),
        events.DeadLetterSelection(job_ids=(uuid4(),)),
        events.DeadLetterSelection(fingerprint=OTHER),
    ):
        await redrive(stage, selection=selection, reply_to="desk")
    which = events.DeadLetterSelection(job_type="flights.load")
    drop = event(events.JobDropRequested, "drop", selection=which, by="bob", reason="old", reply_to="desk")
    await stage.send(build_message(drop))
    answers = [one.data for one in stage.answers("desk") if isinstance(one, events.CommandHandled)]
    assert [(answer.accepted, answer.detail.partition(":")[0]) for answer in answers] == [
        (False, "expected a dead job, got one that is queued"),
        (False, "expected a dead job, got one that is unknown"),
        (False, "expected unresolved dead letters, got none that meets the conditions"),
        (False, "expected unresolved dead letters, got none that meets the conditions"),
    ]
    assert await stage.store.dead_letter_store.redrives() == []


async def test_a_repeat_of_a_redrive_that_has_claimed_all_is_no_refusal(stage: Stage) -> None:
    await dead_jobs(stage, 1)
    for _ in range(2):
        await redrive(stage, reply_to="desk")
    answers = [one.data for one in stage.answers("desk") if isinstance(one, events.CommandHandled)]
    assert [answer.accepted for answer in answers] == [True, True]
    assert (await the_redrive(stage)).counts == {"redriven": 1}
    assert len(await heirs(stage)) == 1
    assert "reply_to" not in (await the_redrive(stage)).request


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=6,
)
OBJECTS = st.dictionaries(st.text(max_size=2), VALUES, max_size=4)


@pytest.mark.parametrize(
    ("arguments", "patch", "expected"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_the_examples_of_the_standard(
    arguments: dict[str, Any], patch: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert merge_patch(arguments, patch) == expected


@given(OBJECTS, OBJECTS)
def test_what_is_patched_twice_is_patched_once(arguments: dict[str, Any], patch: dict[str, Any]) -> None:
    once = merge_patch(arguments, patch)
    assert merge_patch(once, patch) == once
    assert merge_patch(arguments, {}) == arguments
