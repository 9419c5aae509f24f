"""Jobs, alike in every store: inserts, saves, claims, watchers, and what stands beside a job."""

import asyncio
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from tests.store_access import load_job
from tests.store_rows import NOON, after, attempt_of, changed, died, queued_job, running_job, succeeded

from warrener_contracts.events import ErrorInfo, ErrorKind, JsonObject
from warrener_contracts.policy import Backoff, JobPolicy, RetryRule
from warrener_contracts.state_machine import JobState
from warrener_store import StateStore, StoreRefused
from warrener_store.encoding import escape
from warrener_store.jobs.rows import AttemptOutcome, Inserted, JobFilter, JobRow, Save
from warrener_store.jobs.views import CancelledTree, CheckpointRow, ChildJob


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

    async def test_a_row_that_may_not_be_is_refused_with_its_whole_batch(self, store: StateStore) -> None:
        good, bad = queued_job(), replace(queued_job(), attempt=0)
        with pytest.raises(StoreRefused, match="attempt_where_dispatched"):
            await store.insert_jobs([good, bad])
        assert await store.list_jobs(JobFilter()) == []

    async def test_empty_batches_change_nothing(self, store: StateStore) -> None:
        await store.escalations.raise_incidents([])
        await store.keep_checkpoints([])
        assert await store.checkpoints_of([]) == {}
        assert await store.mark_cancelled([]) == []
        assert await store.cancelled_among([]) == {}
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

    async def test_a_key_belongs_to_its_source_and_job_type(self, store: StateStore) -> None:
        ours = queued_job(source="shop", job_type="pay", idempotency_key="k")
        others = [
            queued_job(source="guest", job_type="pay", idempotency_key="k"),
            queued_job(source="shop", job_type="mail", idempotency_key="k"),
            queued_job(source="shop", job_type="pay", idempotency_key="K"),
        ]
        assert all(answer.new for answer in await store.insert_jobs([ours, *others]))
        again = replace(ours, job_id=uuid4())
        assert await store.insert_jobs([again]) == [Inserted(ours, new=False)]
        assert [row.idempotency_key for row in (await store.jobs_by_id([ours.job_id])).values()] == ["k"]

    @pytest.mark.parametrize("key", ["k", "a\x1a:b", "a\x00"])
    async def test_a_key_that_an_earlier_version_stored_without_a_scope_stands_for_its_job(
        self, store: StateStore, monkeypatch: pytest.MonkeyPatch, key: str
    ) -> None:
        old = queued_job(source="shop", job_type="pay", idempotency_key=key)
        with monkeypatch.context() as earlier:
            earlier.setattr(JobRow, "stored_key", property(lambda row: escape(row.idempotency_key)))
            await store.insert_jobs([old])
        again = replace(old, job_id=uuid4())
        guest = replace(again, job_id=uuid4(), source="guest")
        answers = await store.insert_jobs([again, queued_job(), guest])
        assert [(answer.row.job_id, answer.new) for answer in answers[::2]] == [
            (old.job_id, False),
            (guest.job_id, True),
        ]
        assert {row.job_id for row in await store.find_jobs(key, 5)} == {old.job_id, guest.job_id}
        await store.save_jobs([succeeded(old)])
        (freed,) = await store.insert_jobs([again], without_keys=[old.job_id])
        assert freed.new

    @pytest.mark.parametrize(
        "arguments",
        [
            {"huge": 10**40, "tiny": 5e-324, "big": 1e308, "inf": float("inf"), "neg": -0.0},
            {"text": "🐇" * 500_000, "list": list(range(50_000))},
        ],
        ids=["odd numbers", "a huge document"],
    )
    async def test_any_arguments_come_back(self, store: StateStore, arguments: JsonObject) -> None:
        row = queued_job(arguments=arguments)
        await store.insert_jobs([row])
        assert (await load_job(store, row.job_id)).arguments == arguments

    async def test_not_a_number_breaks_no_batch(self, store: StateStore) -> None:
        row = queued_job(arguments={"x": float("nan")})
        await store.insert_jobs([row, queued_job()])
        (x,) = (await load_job(store, row.job_id)).arguments.values()
        assert x != x  # noqa: PLR0124 - only NaN is not itself

    async def test_any_result_is_distinguished_from_none(self, store: StateStore) -> None:
        results: list[Any] = [0, False, "", [], {}, "text", 1.5, [None]]
        for result in results:
            row = queued_job()
            await store.insert_jobs([row])
            await store.save_jobs([succeeded(row, result)])
            assert repr((await load_job(store, row.job_id)).result) == repr(result)


class TestSave:
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

    async def test_a_job_goes_to_another_queue_and_is_counted_there(self, store: StateStore) -> None:
        moves, stays = running_job(), running_job()
        await store.insert_jobs([moves, stays])
        elsewhere = {"queue": "high-memory", "timeout_seconds": 7200.5}
        retry = changed(moves, state=JobState.QUEUED, attempt=2, agent_id=None, **elsewhere)
        assert await store.save_jobs([retry, changed(stays)]) == {moves.job_id, stays.job_id}
        stored = await load_job(store, moves.job_id)
        assert (stored, stored.timeout) == (retry.row, timedelta(seconds=7200.5))
        assert [(count.queue, count.state, count.jobs) for count in await store.count_jobs()] == [
            ("default", JobState.RUNNING, 1),
            ("high-memory", JobState.QUEUED, 1),
        ]
        assert [head.queue for head in await store.queue_heads()] == ["high-memory"]
        back = changed(retry.row, queue="default")
        assert await store.save_jobs([back]) == {moves.job_id}
        assert {count.queue for count in await store.count_jobs()} == {"default"}

    async def test_the_last_failed_attempts_of_a_job_are_read_without_their_texts(
        self, store: StateStore
    ) -> None:
        def ended(row: JobRow, outcome: AttemptOutcome, error: ErrorInfo | None) -> Save:
            attempt = replace(attempt_of(row, outcome), error=error, verdict=f"retry {row.attempt}")
            return replace(changed(row, attempt=row.attempt + 1), attempt=attempt)

        error = ErrorInfo(
            kind=ErrorKind.CRASH,
            type="app.\u00dcber",
            message="no\x00",
            stack="x" * 60_000,
            base_classes=("OSError",),
        )
        lost = ErrorInfo(kind=ErrorKind.LOST, type="lost", message="gone")
        rules = JobPolicy(retry_rules=(RetryRule(errors=["lost"], queue="other"),))
        job, other = running_job(policy=rules), running_job()
        workflow = running_job(settled_attempt=2, suspensions=1)
        await store.insert_jobs([job, other, workflow])
        for row, times in ((job, 14), (workflow, 3)):
            for _ in range(times):
                save = ended(row, AttemptOutcome.FAILED, error)
                await store.save_jobs([save])
                row = save.row  # noqa: PLW2901 - the next attempt is of what the last one has left
            for outcome, why in (
                (AttemptOutcome.LOST, lost),
                (AttemptOutcome.RELEASED, error),
                (AttemptOutcome.SNOOZED, None),
            ):
                save = ended(row, outcome, why)
                await store.save_jobs([save])
                row = save.row  # noqa: PLW2901 - the same
        found = await store.failed_attempts([job.job_id, other.job_id, workflow.job_id])
        assert found.keys() == {job.job_id, workflow.job_id}
        assert [one.attempt for one in found[job.job_id]] == [*range(6, 16)], "the last ten"
        assert [one.attempt for one in found[workflow.job_id]] == [3, 4], "of its current turn"
        first, last = found[job.job_id][0], found[job.job_id][-1]
        assert (first.cause, first.error_type, first.base_classes) == ("crash", "app.\u00dcber", ("OSError",))
        assert found[workflow.job_id][0] == first._replace(
            job_id=workflow.job_id, attempt=3, base_classes=(), verdict="retry 3"
        ), "base classes are read for rules alone"
        assert (last.cause, last.error_type, last.base_classes, last.verdict) == (
            "lost",
            "lost",
            (),
            "retry 15",
        )
        assert (last.agent_id, last.finished_at) == ("a1", after(60))
        assert await store.failed_attempts([]) == {}

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
        ids = [row.job_id for row in rows]

        async def supervisor(order: int) -> int:
            applied = 0
            for _ in range(10):
                now = sorted((await store.jobs_by_id(ids)).items())
                saves = [changed(row, failures=row.failures + 1) for _, row in now]
                applied += len(await store.save_jobs(saves[::order]))
            return applied

        applied = await asyncio.gather(*(supervisor(order) for order in (1, -1) * 3))
        now = await store.jobs_by_id(ids)
        assert sum(applied) == sum(row.failures for row in now.values())
        assert all(row.version == row.failures + 1 for row in now.values())


class TestClaim:
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

    async def test_no_two_callers_get_the_same_deadline(self, store: StateStore) -> None:
        rows = [queued_job(deadline_at=after(-n)) for n in range(60)]
        await store.insert_jobs(rows)
        claims = await asyncio.gather(*(store.claim_deadlines(NOON, after(10), 10) for _ in range(8)))
        assert all(count == 1 for count in Counter(row.job_id for rows in claims for row in rows).values())


class TestWatchers:
    async def test_each_address_stands_once_and_the_oldest_give_way(self, store: StateStore) -> None:
        row = queued_job(watchers=("w0", "w1"))
        await store.insert_jobs([row])
        watchers = [(row.job_id, f"w{n}") for n in (2, 3, 1, 4, 5, 6, 7, 8, 5)]
        assert await store.add_watchers(watchers) == {row.job_id}
        assert [*(await load_job(store, row.job_id)).watchers] == [f"w{n}" for n in (2, 3, 1, 4, 6, 7, 8, 5)]

    async def test_watchers_that_come_at_once_all_stay(self, store: StateStore) -> None:
        rows = [queued_job() for _ in range(10)]
        await store.insert_jobs(rows)
        batches = [[(row.job_id, f"w{n}") for row in rows[:: 1 if n % 2 else -1]] for n in range(6)]
        await asyncio.gather(*(store.add_watchers(batch) for batch in batches))
        for row in (await store.jobs_by_id([row.job_id for row in rows])).values():
            assert set(row.watchers) == {f"w{n}" for n in range(6)}


def saved(row: JobRow, number: int, state: Any = None) -> CheckpointRow:
    return CheckpointRow(job_id=row.job_id, attempt=1, number=number, state=state, saved_at=NOON)


async def test_a_checkpoint_comes_back_as_it_went(store: StateStore) -> None:
    states = [None, 0, "row 5", {"row": 5, "seen": ["a", "\0"]}, [1.5, True]]
    rows = [queued_job() for _ in states]
    await store.insert_jobs(rows)
    held = {row.job_id: saved(row, 1, state) for row, state in zip(rows, states, strict=True)}
    await store.keep_checkpoints([*held.values()])
    assert await store.checkpoints_of([*held]) == held


async def test_the_greater_number_counts_whatever_comes_later(store: StateStore) -> None:
    one, other = queued_job(), queued_job()
    await store.insert_jobs([one, other])
    await store.keep_checkpoints(
        [saved(one, 2, "b"), saved(one, 3, "c"), saved(one, 1, "a"), saved(other, 1)]
    )
    await store.keep_checkpoints([saved(one, 2, "late"), saved(one, 3, "a repeat")])
    found = await store.checkpoints_of([one.job_id, other.job_id])
    assert found == {one.job_id: saved(one, 3, "c"), other.job_id: saved(other, 1)}


def _tree(row: JobRow) -> CancelledTree:
    return CancelledTree(job_id=row.job_id, reason="wrong file", cancelled_at=NOON)


async def test_a_mark_is_stored_once_with_its_first_reason_of_a_job_that_is_over_too(
    store: StateStore,
) -> None:
    one, other = queued_job(), queued_job()
    over = queued_job(state=JobState.SUCCEEDED, wake_at=None, finished_at=NOON)
    await store.insert_jobs([one, other, over])
    first = CancelledTree(job_id=one.job_id, reason="wrong \0 file", cancelled_at=NOON)
    later = CancelledTree(job_id=one.job_id, reason="again", cancelled_at=after(5))
    await store.mark_cancelled([first, later])
    await store.mark_cancelled([later])
    assert await store.cancelled_among([one.job_id, other.job_id, uuid4()]) == {one.job_id: first}
    await store.mark_cancelled([_tree(over)])
    assert await store.cancelled_among([over.job_id]) == {over.job_id: _tree(over)}


async def test_children_are_those_that_a_job_has_requested_over_or_not(store: StateStore) -> None:
    root, other = queued_job(), queued_job()
    runs = running_job(parent_id=root.job_id)
    done = queued_job(parent_id=root.job_id, state=JobState.SUCCEEDED, wake_at=None, finished_at=NOON)
    grandchild = queued_job(parent_id=runs.job_id)
    await store.insert_jobs([root, other, runs, done, grandchild])
    children = await store.mark_cancelled([_tree(root), _tree(other)])
    assert sorted(children, key=lambda child: child.over) == [
        ChildJob(job_id=runs.job_id, parent_id=root.job_id, over=False),
        ChildJob(job_id=done.job_id, parent_id=root.job_id, over=True),
    ]
    both = {child.job_id for child in await store.mark_cancelled([_tree(root), _tree(runs)])}
    assert both == {runs.job_id, done.job_id, grandchild.job_id}
