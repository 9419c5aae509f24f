"""The stories that every state store tells alike: in memory, SQLite and PostgreSQL."""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from uuid import UUID, uuid4

import pytest

from warrener_contracts.events import ErrorInfo, ErrorKind
from warrener_contracts.policy import Backoff, JobPolicy
from warrener_contracts.state_machine import TERMINAL, JobState
from warrener_store import StateStore, StoreRefused
from warrener_store.dead_letters.rows import DeadLetterFilter
from warrener_store.jobs.rows import AttemptOutcome, JobFilter, JobRow, Save
from warrener_store.jobs.views import Success
from warrener_store.testing import (
    NOON,
    after,
    attempt_of,
    changed,
    died,
    queued_job,
    running_job,
    succeeded,
    waiting_job,
)


async def load_job(store: StateStore, job_id: UUID) -> JobRow:
    return (await store.jobs_by_id([job_id]))[job_id]


class TestInsert:
    async def test_everything_of_a_row_comes_back_as_it_went(self, store: StateStore) -> None:
        row = running_job(
            policy=JobPolicy(max_attempts=7, backoff=Backoff(factor=3.5)),
            idempotency_key="monthly-2026-11",
            parent_id=uuid4(),
            traceparent="00-" + "a" * 32 + "-" + "b" * 16 + "-01",
            tracestate="vendor=1",
            baggage="tenant=acme,x=\u00fc",
            deadline_at=after(3600),
            request_hash="f" * 64,
            failures=2,
            losses=1,
            watchers=("reply-1", "reply-2"),
            cancel_reason="requested",
            due_at=after(-1),
            progress=0.25,
            progress_note="a quarter",
            error=ErrorInfo(kind=ErrorKind.ERROR, type="ValueError", message="no", stack="line 1\nline 2"),
        )
        await store.insert_jobs([row])
        assert await load_job(store, row.job_id) == row

    async def test_each_of_a_batch_keeps_its_own_whatever_the_others_hold(self, store: StateStore) -> None:
        """What all rows of a batch have alike is handed over once, and what none of them has not at all."""
        alike = [queued_job(arguments={"of": each}) for each in (1, True, 1.0)]
        over = [
            queued_job(state=JobState.SUCCEEDED, wake_at=None, finished_at=NOON, result=result)
            for result in (None, {"n": 0}, {"n": False})
        ]
        mixed = [running_job(watchers=("me",)), *(queued_job(job_type=kind) for kind in ("a", "b"))]
        for batch in (alike, over, [*mixed, *(replace(row, job_id=uuid4()) for row in (*alike, *over))]):
            await store.insert_jobs(batch)
            stored = await store.jobs_by_id([row.job_id for row in batch])
            assert [repr(stored[row.job_id]) for row in batch] == [repr(row) for row in batch]

    async def test_the_same_request_twice_is_one_job(self, store: StateStore) -> None:
        row = queued_job()
        first, again = await store.insert_jobs([row]), await store.insert_jobs([row])
        assert [(answer.row, answer.new) for answer in (*first, *again)] == [(row, True), (row, False)]
        assert len(await store.list_jobs(JobFilter())) == 1

    async def test_a_repeat_gets_the_current_state_of_the_job(self, store: StateStore) -> None:
        row = queued_job()
        await store.insert_jobs([row])
        over = succeeded(row, {"rows": 3})
        await store.save_jobs([over])
        (answer,) = await store.insert_jobs([row])
        assert (answer.new, answer.row) == (False, over.row)

    async def test_an_idempotency_key_stands_for_the_first_job_that_used_it(self, store: StateStore) -> None:
        first, second = queued_job(idempotency_key="k"), queued_job(idempotency_key="k")
        await store.insert_jobs([first])
        (answer,) = await store.insert_jobs([second])
        assert (answer.new, answer.row.job_id) == (False, first.job_id)
        assert await store.jobs_by_id([second.job_id]) == {}

    async def test_of_two_rows_of_a_batch_with_one_key_the_first_is_inserted(self, store: StateStore) -> None:
        rows = [queued_job(idempotency_key="k") for _ in range(2)]
        second, first = sorted(
            rows, key=lambda row: row.job_id
        )  # not the order of ids counts: that of the batch
        other = queued_job()
        answers = await store.insert_jobs([first, other, second])
        assert [answer.new for answer in answers] == [True, True, False]
        assert [answer.row.job_id for answer in answers] == [first.job_id, other.job_id, first.job_id]

    async def test_of_two_rows_of_a_batch_with_one_id_the_first_is_inserted(self, store: StateStore) -> None:
        row = queued_job()
        answers = await store.insert_jobs([row, replace(row, queue="other")])
        assert [(answer.new, answer.row.queue) for answer in answers] == [
            (True, "default"),
            (False, "default"),
        ]

    async def test_the_id_decides_before_the_key(self, store: StateStore) -> None:
        mine, keyed = queued_job(), queued_job(idempotency_key="k")
        await store.insert_jobs([mine, keyed])
        (answer,) = await store.insert_jobs([replace(mine, idempotency_key="k")])
        assert answer.row.job_id == mine.job_id

    async def test_a_row_excluded_by_its_key_does_not_exclude_another_of_its_id(
        self, store: StateStore
    ) -> None:
        taken = queued_job(idempotency_key="k")
        await store.insert_jobs([taken])
        row = queued_job(idempotency_key="k")
        answers = await store.insert_jobs([row, replace(row, idempotency_key="free")])
        assert [answer.new for answer in answers] == [False, True]
        assert [answer.row.job_id for answer in answers] == [taken.job_id, row.job_id]

    async def test_concurrent_inserts_of_the_same_requests_make_each_job_once(
        self, store: StateStore
    ) -> None:
        rows = [queued_job(idempotency_key=f"k{n}" if n % 3 else None) for n in range(40)]
        batches = [rows if n % 2 else rows[::-1] for n in range(8)]
        answers = await asyncio.gather(*(store.insert_jobs(batch) for batch in batches))
        new = Counter(answer.row.job_id for batch in answers for answer in batch if answer.new)
        assert new == Counter(row.job_id for row in rows)

    async def test_a_thousand_rows_in_one_batch(self, store: StateStore) -> None:
        rows = [queued_job() for _ in range(1000)]
        assert all(answer.new for answer in await store.insert_jobs(rows))
        found = await store.jobs_by_id([row.job_id for row in rows])
        assert found == {row.job_id: row for row in rows}
        assert len(await store.save_jobs([succeeded(row, {"n": 1}) for row in rows])) == 1000

    async def test_what_was_stored_does_not_change_with_what_was_handed_in(self, store: StateStore) -> None:
        row = queued_job(arguments={"paths": ["a"]})
        await store.insert_jobs([row])
        row.arguments["paths"].append("b")
        assert (await load_job(store, row.job_id)).arguments == {"paths": ["a"]}

    async def test_a_row_that_may_not_be_is_refused_with_its_whole_batch(self, store: StateStore) -> None:
        good, bad = queued_job(), replace(queued_job(), attempt=0)
        with pytest.raises(StoreRefused, match="attempt_where_dispatched"):
            await store.insert_jobs([good, bad])
        assert await store.list_jobs(JobFilter()) == []

    async def test_empty_batches_change_nothing(self, store: StateStore) -> None:
        assert await store.insert_jobs([]) == []
        assert await store.save_jobs([]) == set()
        assert await store.add_watchers([]) == set()
        assert await store.jobs_by_id([]) == {}
        await store.put_job_types([])
        await store.put_agents([])
        await store.park([])


ODD_TEXTS = [
    "nul \x00 in it",
    "sub \x1a and \x1a0000",
    "lone \udcff surrogate",
    "emoji 🐇",
    "quote ' \" \\ \\u0000",
    "",
]


class TestOddContent:
    @pytest.mark.parametrize("text", ODD_TEXTS, ids=ascii)
    async def test_any_text_comes_back_and_breaks_no_batch(self, store: StateStore, text: str) -> None:
        odd = queued_job(
            arguments={"text": text, text: [text]},
            source=text or "-",
            idempotency_key=f"key {text}",
            watchers=(f"w{text}",),
            cancel_reason=text,
            progress_note=text,
            agent_id=text,
        )
        plain = queued_job()
        assert [answer.new for answer in await store.insert_jobs([plain, odd])] == [True, True]
        assert await load_job(store, odd.job_id) == odd
        (again,) = await store.insert_jobs([replace(odd, job_id=uuid4())])
        assert again.row.job_id == odd.job_id
        assert await store.add_watchers([(odd.job_id, f"x{text}")]) == {odd.job_id}
        now = await load_job(store, odd.job_id)
        assert now.watchers == (f"w{text}", f"x{text}")
        await store.save_jobs([succeeded(now, {"text": text})])
        assert (await load_job(store, odd.job_id)).result == {"text": text}

    async def test_texts_that_look_like_escapes_stay_different_keys(self, store: StateStore) -> None:
        keys = ["a\x00", "a\x1a0000", "a\\u0000", "a"]
        answers = await store.insert_jobs([queued_job(idempotency_key=key) for key in keys])
        assert all(answer.new for answer in answers)

    async def test_odd_numbers_come_back(self, store: StateStore) -> None:
        row = queued_job(
            arguments={"huge": 10**40, "tiny": 5e-324, "big": 1e308, "inf": float("inf"), "neg": -0.0}
        )
        await store.insert_jobs([row])
        assert (await load_job(store, row.job_id)).arguments == row.arguments

    async def test_not_a_number_breaks_no_batch(self, store: StateStore) -> None:
        row = queued_job(arguments={"x": float("nan")})
        await store.insert_jobs([row, queued_job()])
        (x,) = (await load_job(store, row.job_id)).arguments.values()
        assert x != x  # noqa: PLR0124 - only NaN is not itself

    async def test_a_huge_document_comes_back(self, store: StateStore) -> None:
        row = queued_job(arguments={"text": "🐇" * 500_000, "list": list(range(50_000))})
        await store.insert_jobs([row])
        assert (await load_job(store, row.job_id)).arguments == row.arguments

    @pytest.mark.parametrize("result", [0, False, "", [], {}, "text", 1.5, [None]], ids=repr)
    async def test_any_result_is_distinguished_from_none(self, store: StateStore, result: object) -> None:
        row = queued_job()
        await store.insert_jobs([row])
        await store.save_jobs([succeeded(row, result)])
        assert (await load_job(store, row.job_id)).result == result


class TestSave:
    async def test_a_save_counts_only_from_the_version_before(self, store: StateStore) -> None:
        row = queued_job()
        await store.insert_jobs([row])
        mine, yours = changed(row, failures=1), changed(row, losses=1)
        assert await store.save_jobs([mine]) == {row.job_id}
        assert await store.save_jobs([yours]) == set()
        assert await load_job(store, row.job_id) == mine.row

    async def test_of_two_savers_at_once_one_wins(self, store: StateStore) -> None:
        rows = [queued_job() for _ in range(20)]
        await store.insert_jobs(rows)
        batches = [[changed(row, progress_note=f"saver {n}") for row in rows] for n in range(8)]
        applied = await asyncio.gather(*(store.save_jobs(batch) for batch in batches))
        assert Counter(job_id for ids in applied for job_id in ids) == Counter(row.job_id for row in rows)
        for n, ids in enumerate(applied):
            for job_id in ids:
                assert (await load_job(store, job_id)).progress_note == f"saver {n}"

    @pytest.mark.parametrize("alike", [True, False])
    async def test_each_of_a_batch_becomes_what_was_judged_of_it_whatever_the_others_became(
        self, store: StateStore, *, alike: bool
    ) -> None:
        """What all rows of a batch have alike is handed over once, and what none of them has not at all."""
        over, waits = running_job(deadline_at=after(-1)), running_job(deadline_at=after(-1))
        await store.insert_jobs([over, waits])
        end = succeeded(over, {"rows": 1})
        other = (
            succeeded(waits, {"rows": 1})
            if alike
            else changed(
                waits,
                state=JobState.RETRYING,
                attempt=2,
                failures=1,
                losses=1,
                agent_id=None,
                watchers=("reply-1",),
                cancel_reason="requested",
                due_at=after(5),
                wake_at=after(6),
                dispatched_at=None,
                started_at=None,
                lease_until=None,
                progress=0.5,
                progress_note="half",
                error=ErrorInfo(kind=ErrorKind.ERROR, type="ValueError", message="no"),
                updated_at=after(1),
            )
        )
        assert await store.save_jobs([end, other]) == {over.job_id, waits.job_id}
        assert await store.jobs_by_id([over.job_id, waits.job_id]) == {
            over.job_id: end.row,
            waits.job_id: other.row,
        }
        assert await store.attempts_of([over.job_id]) == [end.attempt]
        overdue = await store.claim_deadlines(NOON, after(10), 100)
        assert {row.job_id for row in overdue} == (set() if alike else {waits.job_id})

    @pytest.mark.parametrize("state", sorted(TERMINAL))
    async def test_a_terminal_state_is_never_left(self, store: StateStore, state: JobState) -> None:
        row = running_job()
        await store.insert_jobs([row])
        over = changed(row, state=state, wake_at=None, finished_at=after(1))
        assert await store.save_jobs([over]) == {row.job_id}
        back = changed(over.row, state=JobState.QUEUED, wake_at=NOON, finished_at=None)
        assert await store.save_jobs([back]) == set()
        assert await store.save_jobs([changed(over.row, progress_note="still")]) == set()
        assert await load_job(store, row.job_id) == over.row

    async def test_the_request_never_changes(self, store: StateStore) -> None:
        row = queued_job(idempotency_key="k")
        await store.insert_jobs([row])
        await store.save_jobs([changed(row, arguments={"path": "other"}, queue="other", idempotency_key="j")])
        now = await load_job(store, row.job_id)
        assert (now.arguments, now.queue, now.idempotency_key) == (row.arguments, row.queue, "k")

    async def test_an_unknown_job_is_not_saved(self, store: StateStore) -> None:
        known, unknown = queued_job(), queued_job()
        await store.insert_jobs([known])
        assert await store.save_jobs([succeeded(unknown), succeeded(known)]) == {known.job_id}
        assert await store.attempts_of([unknown.job_id]) == []

    async def test_attempts_are_stored_once_and_in_order(self, store: StateStore) -> None:
        first = running_job()
        await store.insert_jobs([first])
        failed = attempt_of(first, AttemptOutcome.FAILED)
        retry = changed(first, state=JobState.RETRYING, attempt=2, agent_id=None)
        assert await store.save_jobs([replace(retry, attempt=failed)])
        twice = replace(succeeded(retry.row), attempt=replace(failed, verdict="another word"))
        assert await store.save_jobs([twice])
        assert await store.attempts_of([first.job_id]) == [failed]

    async def test_attempts_of_several_jobs_come_by_job_and_number(self, store: StateStore) -> None:
        jobs = sorted((running_job() for _ in range(3)), key=lambda row: row.job_id)
        await store.insert_jobs(jobs)
        failed = [attempt_of(row, AttemptOutcome.FAILED) for row in jobs]
        retries = [changed(row, state=JobState.RETRYING, attempt=2) for row in jobs]
        await store.save_jobs(
            [replace(save, attempt=attempt) for save, attempt in zip(retries, failed, strict=True)]
        )
        over = [succeeded(save.row) for save in retries]
        await store.save_jobs(over)
        found = await store.attempts_of([jobs[2].job_id, jobs[0].job_id, uuid4()])
        assert found == [failed[0], over[0].attempt, failed[2], over[2].attempt]
        assert await store.attempts_of([]) == []

    async def test_a_save_that_is_not_applied_leaves_no_attempt_and_no_dead_letter(
        self, store: StateStore
    ) -> None:
        row = running_job()
        await store.insert_jobs([row])
        await store.save_jobs([succeeded(row)])
        assert await store.save_jobs([died(row)]) == set()
        assert [attempt.outcome for attempt in await store.attempts_of([row.job_id])] == [
            AttemptOutcome.SUCCEEDED
        ]
        assert await store.dead_letter_store.list_dead_letters(DeadLetterFilter(states=())) == []

    async def test_a_refused_row_takes_its_whole_batch_with_it(self, store: StateStore) -> None:
        good, bad = running_job(), running_job()
        await store.insert_jobs([good, bad])
        with pytest.raises(StoreRefused, match="result_only_if_succeeded"):
            await store.save_jobs([died(good), changed(bad, result={"rows": 1})])
        assert await load_job(store, good.job_id) == good
        assert await store.attempts_of([good.job_id]) == []
        assert [(count.state, count.jobs) for count in await store.count_jobs()] == [(JobState.RUNNING, 2)]

    async def test_two_steps_of_one_job_in_one_batch(self, store: StateStore) -> None:
        row = queued_job()
        await store.insert_jobs([row])
        started = changed(row, state=JobState.RUNNING, agent_id="a1", lease_until=after(30))
        assert await store.save_jobs([started, succeeded(started.row, 7)]) == {row.job_id}
        now = await load_job(store, row.job_id)
        assert (now.version, now.state, now.result) == (3, JobState.SUCCEEDED, 7)
        assert len(await store.attempts_of([row.job_id])) == 1
        assert [(count.state, count.jobs) for count in await store.count_jobs()] == [(JobState.SUCCEEDED, 1)]

    async def test_two_words_about_one_version_in_one_batch_are_a_bug(self, store: StateStore) -> None:
        row = queued_job()
        await store.insert_jobs([row])
        with pytest.raises(StoreRefused, match="successive versions"):
            await store.save_jobs([changed(row, failures=1), changed(row, losses=1)])
        over = succeeded(row)
        with pytest.raises(StoreRefused, match="never left"):
            await store.save_jobs([over, changed(over.row)])
        assert await load_job(store, row.job_id) == row

    async def test_overlapping_batches_in_opposite_order_all_end(self, store: StateStore) -> None:
        rows = [queued_job() for _ in range(60)]
        await store.insert_jobs(rows)

        async def supervisor(order: Callable[[list[Save]], list[Save]]) -> int:
            applied = 0
            for _ in range(10):
                now = await store.jobs_by_id([row.job_id for row in rows])
                saves = order([changed(row, failures=row.failures + 1) for row in now.values()])
                applied += len(await store.save_jobs(saves))
            return applied

        def forwards(saves: list[Save]) -> list[Save]:
            return sorted(saves, key=lambda save: save.row.job_id)

        def backwards(saves: list[Save]) -> list[Save]:
            return forwards(saves)[::-1]

        applied = await asyncio.gather(*(supervisor(order) for order in (forwards, backwards) * 3))
        now = await store.jobs_by_id([row.job_id for row in rows])
        assert sum(applied) == sum(row.failures for row in now.values())
        assert all(row.version == row.failures + 1 for row in now.values())


class TestClaim:
    async def test_what_is_due_comes_oldest_first_and_is_claimed(self, store: StateStore) -> None:
        late, early = waiting_job(wake_at=after(-1)), waiting_job(wake_at=after(-5))
        future, other = waiting_job(wake_at=after(1)), queued_job(wake_at=after(-9))
        await store.insert_jobs([late, early, future, other])
        claimed = await store.claim_due({JobState.WAITING}, NOON, after(10), 100)
        assert claimed == [replace(row, version=2, wake_at=after(10)) for row in (early, late)]
        assert await store.jobs_by_id([late.job_id, early.job_id]) == {row.job_id: row for row in claimed}
        assert await store.claim_due({JobState.WAITING}, NOON, after(10), 100) == []

    async def test_a_claim_runs_out(self, store: StateStore) -> None:
        row = waiting_job()
        await store.insert_jobs([row])
        await store.claim_due({JobState.WAITING}, NOON, after(10), 1)
        assert await store.claim_due({JobState.WAITING}, after(9.999), after(20), 1) == []
        (again,) = await store.claim_due({JobState.WAITING}, after(10), after(20), 1)
        assert again.job_id == row.job_id

    async def test_the_claimer_saves_what_it_got(self, store: StateStore) -> None:
        await store.insert_jobs([waiting_job()])
        (row,) = await store.claim_due({JobState.WAITING}, NOON, after(10), 1)
        assert await store.save_jobs([changed(row, state=JobState.QUEUED, attempt=1)]) == {row.job_id}

    async def test_a_save_decided_before_a_claim_is_not_applied(self, store: StateStore) -> None:
        row = waiting_job()
        await store.insert_jobs([row])
        await store.claim_due({JobState.WAITING}, NOON, after(10), 1)
        assert await store.save_jobs([changed(row, cancel_reason="stale")]) == set()

    async def test_no_two_callers_get_the_same_job(self, store: StateStore) -> None:
        rows = [queued_job(wake_at=after(-n)) for n in range(100)]
        await store.insert_jobs(rows)
        states = {JobState.QUEUED, JobState.RUNNING, JobState.RETRYING}

        async def claimer() -> list[UUID]:
            mine: list[UUID] = []
            while batch := await store.claim_due(states, NOON, after(10), 7):
                mine += [row.job_id for row in batch]
            return mine

        claims = await asyncio.gather(*(claimer() for _ in range(8)))
        assert Counter(job_id for mine in claims for job_id in mine) == Counter(row.job_id for row in rows)

    async def test_the_limit_is_respected(self, store: StateStore) -> None:
        await store.insert_jobs([waiting_job() for _ in range(5)])
        assert len(await store.claim_due({JobState.WAITING}, NOON, after(10), 3)) == 3
        assert len(await store.claim_due({JobState.WAITING}, NOON, after(10), 3)) == 2

    async def test_deadlines_are_claimed_beside_what_is_due(self, store: StateStore) -> None:
        waits = waiting_job(wake_at=after(10_000), deadline_at=after(-1))
        runs = running_job(wake_at=after(30), deadline_at=after(-2))
        in_time, without = queued_job(deadline_at=after(1)), queued_job()
        await store.insert_jobs([waits, runs, in_time, without])
        claimed = await store.claim_deadlines(NOON, after(10), 100)
        assert claimed == [replace(row, version=2) for row in (runs, waits)]
        assert await store.claim_deadlines(NOON, after(10), 100) == []
        again = await store.claim_deadlines(after(10), after(20), 100)
        assert [row.job_id for row in again] == [in_time.job_id, *sorted((runs.job_id, waits.job_id))]

    async def test_no_two_callers_get_the_same_deadline(self, store: StateStore) -> None:
        rows = [queued_job(deadline_at=after(-n)) for n in range(60)]
        await store.insert_jobs(rows)
        claims = await asyncio.gather(*(store.claim_deadlines(NOON, after(10), 10) for _ in range(8)))
        assert all(count == 1 for count in Counter(row.job_id for rows in claims for row in rows).values())

    async def test_a_job_that_is_over_has_no_deadline(self, store: StateStore) -> None:
        row = queued_job(deadline_at=after(5))
        await store.insert_jobs([row])
        await store.save_jobs([succeeded(row)])
        assert await store.claim_deadlines(after(100), after(110), 10) == []


class TestWatchers:
    async def test_each_address_stands_once_and_the_oldest_give_way(self, store: StateStore) -> None:
        row = queued_job(watchers=("w0", "w1"))
        await store.insert_jobs([row])
        watchers = [(row.job_id, f"w{n}") for n in (2, 3, 1, 4, 5, 6, 7, 8, 5)]
        assert await store.add_watchers(watchers) == {row.job_id}
        assert (await load_job(store, row.job_id)).watchers == (
            "w2",
            "w3",
            "w1",
            "w4",
            "w6",
            "w7",
            "w8",
            "w5",
        )

    async def test_watchers_of_finished_jobs_are_refused(self, store: StateStore) -> None:
        live, over = queued_job(), queued_job()
        await store.insert_jobs([live, over])
        end = succeeded(over)
        await store.save_jobs([end])
        watchers = [(live.job_id, "w"), (over.job_id, "w"), (uuid4(), "w")]
        assert await store.add_watchers(watchers) == {live.job_id}
        assert await load_job(store, over.job_id) == end.row

    async def test_no_watcher_is_lost_to_a_save_decided_before_it_came(self, store: StateStore) -> None:
        row = queued_job()
        await store.insert_jobs([row])
        await store.add_watchers([(row.job_id, "w")])
        assert await store.save_jobs([succeeded(row)]) == set()
        assert await store.save_jobs([succeeded(await load_job(store, row.job_id))]) == {row.job_id}
        assert (await load_job(store, row.job_id)).watchers == ("w",)

    async def test_watchers_that_come_at_once_all_stay(self, store: StateStore) -> None:
        rows = [queued_job() for _ in range(10)]
        await store.insert_jobs(rows)
        batches = [[(row.job_id, f"w{n}") for row in rows[:: 1 if n % 2 else -1]] for n in range(6)]
        await asyncio.gather(*(store.add_watchers(batch) for batch in batches))
        for row in (await store.jobs_by_id([row.job_id for row in rows])).values():
            assert set(row.watchers) == {f"w{n}" for n in range(6)}


class TestCounts:
    async def test_counts_follow_every_step(self, store: StateStore) -> None:
        jobs, other = [queued_job() for _ in range(3)], waiting_job(job_type="a.b")
        await store.insert_jobs([*jobs, other, jobs[0]])
        await store.insert_jobs(jobs)
        await store.save_jobs([succeeded(jobs[0]), died(jobs[1]), changed(jobs[2], failures=1)])
        await store.save_jobs([succeeded(jobs[1])])
        counts = [(count.job_type, count.state, count.jobs) for count in await store.count_jobs()]
        assert counts == [
            ("a.b", JobState.WAITING, 1),
            ("flights.load", JobState.DEAD, 1),
            ("flights.load", JobState.QUEUED, 1),
            ("flights.load", JobState.SUCCEEDED, 1),
        ]

    async def test_queues_are_counted_by_the_jobs_own_queue(self, store: StateStore) -> None:
        here, there = queued_job(queue="here"), queued_job(queue="there")
        ended, waiting = queued_job(queue="there"), waiting_job(queue="here", job_type="a.b")
        await store.insert_jobs([here, there, ended, waiting])
        await store.save_jobs([died(here)])
        await store.succeed_jobs([Success(ended.job_id, 1, "a1", None, NOON, after(1))], after(2))
        counts = [
            (count.job_type, count.queue, count.state, count.jobs) for count in await store.count_jobs()
        ]
        assert counts == [
            ("a.b", "here", JobState.WAITING, 1),
            ("flights.load", "here", JobState.DEAD, 1),
            ("flights.load", "there", JobState.QUEUED, 1),
            ("flights.load", "there", JobState.SUCCEEDED, 1),
        ]
