"""Conformance of stored log lines."""

from dataclasses import replace
from uuid import uuid4

from tests.store_rows import after, log_chunk, queued_job, succeeded

from warrener_contracts.events import LogEntry
from warrener_contracts.state_machine import JobState
from warrener_store import Store
from warrener_store.jobs.rows import JobRow
from warrener_store.logs.rows import MAX_LOGGED_ATTEMPTS, LogLimit, LogReader
from warrener_store.retention.rows import JobsBefore

MANY = LogLimit(lines=1000, size=100_000)


async def a_job(store: Store) -> JobRow:
    row = queued_job()
    await store.insert_jobs([row])
    return row


async def test_lines_come_back_as_they_went_whatever_they_hold(store: Store) -> None:
    job = await a_job(store)
    odd = LogEntry(number=1, at=after(1), text="\x00 \x1a \ud800 \x1b[31m é 🐇", trace_id="0" * 31 + "1")
    stored = replace(log_chunk(job.job_id, 1), lines=(odd,))
    await store.append_logs([stored], MANY)
    assert await store.logs_of(job.job_id) == [stored]
    assert odd.text == "\ufffd \x1a \ufffd \x1b[31m é 🐇", "the wire replaces what no database can store"


async def test_a_repeat_changes_nothing_but_that_a_chunk_is_final(store: Store) -> None:
    job = await a_job(store)
    first, second = log_chunk(job.job_id, 1, "first"), log_chunk(job.job_id, 2, "second", "third")
    await store.append_logs([first, log_chunk(job.job_id, 1, "other"), second], MANY)
    await store.append_logs([log_chunk(job.job_id, 1, "third")], MANY)
    assert await store.logs_of(job.job_id) == [first, second]
    await store.append_logs([replace(log_chunk(job.job_id, 2, "again"), final=True)], MANY)
    closed = replace(second, final=True)
    assert await store.logs_of(job.job_id) == [first, closed]
    await store.append_logs([second, first, replace(first, final=True)], MANY)
    assert await store.logs_of(job.job_id) == [replace(first, final=True), closed]


async def test_lines_of_an_unknown_job_are_left_out_and_those_beside_them_are_stored(store: Store) -> None:
    job = await a_job(store)
    known = log_chunk(job.job_id, 1)
    await store.append_logs([log_chunk(uuid4(), 1), known, log_chunk(uuid4(), 2)], MANY)
    assert await store.logs_of(job.job_id) == [known]
    await store.append_logs([], MANY)


async def test_chunks_come_in_order_by_attempt_and_from_a_position_on(store: Store) -> None:
    job, other = await a_job(store), await a_job(store)
    one, two = log_chunk(job.job_id, 1), log_chunk(job.job_id, 2_147_483_648)
    again, next_attempt = log_chunk(job.job_id, 1, started_at=after(5)), log_chunk(job.job_id, 1, attempt=2)
    await store.append_logs([next_attempt, again, two, one, log_chunk(other.job_id, 1)], MANY)
    assert await store.logs_of(job.job_id) == [one, two, again, next_attempt]
    assert await store.logs_of(job.job_id, attempt=1) == [one, two, again]
    assert await store.logs_of(job.job_id, after=two.position) == [again, next_attempt]
    assert await store.logs_of(job.job_id, attempt=2, after=next_attempt.position) == []


async def test_of_each_attempt_the_last_lines_stay(store: Store) -> None:
    job, other = await a_job(store), await a_job(store)
    chunks = [
        log_chunk(job.job_id, number, *"abc", attempt=attempt) for attempt in (1, 2) for number in (1, 4, 7)
    ]
    await store.append_logs([*chunks, log_chunk(other.job_id, 1)], LogLimit(lines=4, size=1000))
    left = [(each.attempt, each.first_line) for each in await store.logs_of(job.job_id)]
    assert left == [(1, 4), (1, 7), (2, 4), (2, 7)], "at least four lines, rounded up to a chunk"
    await store.append_logs([log_chunk(job.job_id, 10, "x" * 50, attempt=2)], LogLimit(lines=1000, size=50))
    left = [(each.attempt, each.first_line) for each in await store.logs_of(job.job_id)]
    assert left == [(1, 4), (1, 7), (2, 10)]
    assert len(await store.logs_of(other.job_id)) == 1


async def test_of_a_job_the_last_attempts_stay(store: Store) -> None:
    job = await a_job(store)
    last = MAX_LOGGED_ATTEMPTS + 5
    for attempt in range(1, last + 1):
        await store.append_logs([log_chunk(job.job_id, 1, attempt=attempt)], MANY)
    left = [each.attempt for each in await store.logs_of(job.job_id)]
    assert left == list(range(6, last + 1))


async def test_lines_are_deleted_with_their_job(store: Store) -> None:
    job = await a_job(store)
    await store.append_logs([log_chunk(job.job_id, 1)], MANY)
    await store.save_jobs([succeeded(job)])
    old = JobsBefore(job.job_type, JobState.SUCCEEDED, after(1000), after(1000))
    assert await store.retention.delete_jobs(old, [job.job_id]) == 1
    assert await store.logs_of(job.job_id) == []
    await store.append_logs([log_chunk(job.job_id, 2)], MANY)
    assert await store.logs_of(job.job_id) == []


def test_a_reader_returns_each_line_once_and_counts_those_that_are_missing() -> None:
    job_id, reader = uuid4(), LogReader()
    read = reader.read(
        [log_chunk(job_id, 3, "c", "d"), log_chunk(job_id, 4, "d", "e"), log_chunk(job_id, 9, "i")]
    )
    assert [(line.omitted, line.entry.text) for line in read] == [(2, "c"), (0, "d"), (0, "e"), (3, "i")]
    read = reader.read(
        [log_chunk(job_id, 9, "i", "j"), log_chunk(job_id, 1, "once more", started_at=after(5))]
    )
    assert [(line.omitted, line.entry.text) for line in read] == [(0, "j"), (0, "once more")]
