"""Conformance of the audit log."""

from dataclasses import replace
from uuid import UUID, uuid4

from tests.store_rows import after, recorded_action

from warrener_store import Store
from warrener_store.audit.rows import AuditFilter, AuditOutcome, AuditRecord


async def test_an_action_is_recorded_before_its_end_is_known(store: Store) -> None:
    record = recorded_action()
    await store.record_action(record)
    assert await store.audit_records() == [record]
    assert (record.outcome, record.completed_at) == (AuditOutcome.REQUESTED, None)


async def test_its_end_is_stored_once_and_never_changed(store: Store) -> None:
    record = recorded_action()
    await store.record_action(record)
    assert await store.complete_action(record.record_id, AuditOutcome.REFUSED, "the job is over", after(1))
    assert not await store.complete_action(record.record_id, AuditOutcome.ACCEPTED, "no", after(2))
    await store.record_action(replace(record, actor="mallory"))
    assert await store.audit_records() == [
        replace(record, outcome=AuditOutcome.REFUSED, sentence="the job is over", completed_at=after(1))
    ]
    assert not await store.complete_action(uuid4(), AuditOutcome.ACCEPTED, "no such record", after(2))


async def test_texts_come_back_as_they_went_whatever_they_hold(store: Store) -> None:
    odd = "'; DROP TABLE warrener_audit; -- \x00 \x1a \ud800 é 🐇 <script>"
    record = recorded_action(odd, actor=odd, reason=odd, action=odd, address=odd)
    await store.record_action(record)
    assert await store.complete_action(record.record_id, AuditOutcome.FAILED, odd, after(1))
    (found,) = await store.audit_records(AuditFilter(actor=odd, action=odd, subject=odd))
    assert (found.reason, found.address, found.sentence) == (odd, odd, odd)


async def test_records_come_newest_first_in_pages_that_miss_none_of_the_same_moment(store: Store) -> None:
    records = [
        recorded_action(f"job {number}", record_id=UUID(int=number + 1), recorded_at=after(number // 3))
        for number in range(8)
    ]
    for record in records[4:] + records[:4]:
        await store.record_action(record)
    found: list[AuditRecord] = []
    while page := await store.audit_records(limit=3, after=found[-1].position if found else None):
        found += page
    assert found == records[::-1]


async def test_records_are_selected_by_who_what_and_subject(store: Store) -> None:
    ada = recorded_action("job 1", recorded_at=after(1))
    grace = recorded_action("job 1", actor="grace", recorded_at=after(2))
    paused = recorded_action("nightly", actor="grace", action="schedule.pause", recorded_at=after(3))
    for record in (ada, grace, paused):
        await store.record_action(record)
    for which, expected in (
        (AuditFilter(actor="grace"), [paused, grace]),
        (AuditFilter(action="job.cancel"), [grace, ada]),
        (AuditFilter(subject="job 1"), [grace, ada]),
        (AuditFilter(actor="grace", action="job.cancel", subject="job 1"), [grace]),
        (AuditFilter(actor=""), []),
    ):
        assert await store.audit_records(which) == expected
    assert await store.audit_records(AuditFilter(subject="job 1"), after=grace.position) == [ada]
