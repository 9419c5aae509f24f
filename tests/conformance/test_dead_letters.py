"""Dead letters and redrives, alike in every store."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

import pytest
from tests.store_rows import NOON, after, died, queued_job, redrive_row, succeeded

from warrener_contracts.events import ErrorInfo, ErrorKind
from warrener_contracts.state_machine import JobState
from warrener_store import Store
from warrener_store.dead_letters.rows import (
    DeadLetter,
    DeadLetterFilter,
    DeadLetterState,
    DeadLetterTransition,
    JournalEntry,
    RedriveRow,
    RedriveState,
)
from warrener_store.jobs.rows import AttemptOutcome

BOOM = ErrorInfo(kind=ErrorKind.ERROR, type="Boom", message="7 columns", stack="File x")
CAUSE, OTHER = "0123456789ab", "ba9876543210"


async def bury(store: Store, cause: str = CAUSE, at: float = 60, **fields: Any) -> DeadLetter:
    row = queued_job(**fields)
    await store.insert_jobs([row])
    save = died(row, BOOM)
    assert save.dead_letter is not None
    dead_letter = replace(save.dead_letter, fingerprint=cause, died_at=after(at))
    assert await store.save_jobs([replace(save, dead_letter=dead_letter)]) == {row.job_id}
    return dead_letter


def next_of(row: RedriveRow, **changes: Any) -> RedriveRow:
    return replace(row, version=row.version + 1, **changes)


def moved(
    dead_letter: DeadLetter, to: DeadLetterState, by: RedriveRow, **changes: Any
) -> DeadLetterTransition:
    return DeadLetterTransition(
        dead_letter.state, replace(dead_letter, state=to, redrive_id=by.redrive_id, **changes)
    )


async def requeue(store: Store, dead_letter: DeadLetter, by: RedriveRow, heir: UUID) -> RedriveRow:
    """`by` as it is after it has asked for this dead letter's job."""
    saved = next_of(by)
    move = moved(
        dead_letter, DeadLetterState.REDRIVEN, by, redriven_as=heir, redrives=1, redriven_at=after(100)
    )
    assert await store.save_redrive(saved, [move])
    return saved


def ids(dead_letters: Sequence[DeadLetter]) -> list[UUID]:
    return [dead_letter.job_id for dead_letter in dead_letters]


async def only(store: Store, job_id: UUID) -> DeadLetter:
    (found,) = await store.list_dead_letters(DeadLetterFilter(states=(), job_ids=(job_id,)))
    return found


class TestDeadLetterFilters:
    async def test_a_dead_letter_comes_back_as_it_was_saved(self, store: Store) -> None:
        dead_letter = await bury(store)
        for which in (DeadLetterFilter(), DeadLetterFilter(states=())):
            assert await store.list_dead_letters(which) == [dead_letter]
        (attempt,) = await store.attempts_of([dead_letter.job_id])
        assert (attempt.error, attempt.outcome) == (BOOM, AttemptOutcome.FAILED)

    async def test_each_word_of_a_filter_narrows(self, store: Store, subtests: pytest.Subtests) -> None:
        first = await bury(store, at=10)
        second = await bury(store, OTHER, at=20, job_type="mail.send")
        third = await bury(store, at=30)
        assert ids(await store.list_dead_letters(DeadLetterFilter())) == ids([third, second, first])
        narrowed: list[tuple[dict[str, Any], list[DeadLetter]]] = [
            ({"fingerprint": CAUSE}, [third, first]),
            ({"job_type": "mail.send"}, [second]),
            ({"died_after": after(20)}, [third, second]),
            ({"died_before": after(20)}, [first]),
            ({"job_ids": (first.job_id, second.job_id)}, [second, first]),
            ({"oldest_first": True, "limit": 2}, [first, second]),
            ({"oldest_first": True, "after": (first.died_at, first.job_id)}, [second, third]),
            ({"after": (third.died_at, third.job_id)}, [second, first]),
            ({"states": (DeadLetterState.DROPPED,)}, []),
            ({"states": (), "fingerprint": OTHER}, [second]),
        ]
        for words, expected in narrowed:
            with subtests.test(repr(words)):
                which = DeadLetterFilter(**words)
                assert ids(await store.list_dead_letters(which)) == ids(expected)
                if "limit" not in words:
                    counted = await store.count_dead_letters(which)
                    assert sum(counted.values()) == len(expected)

    async def test_causes_are_groups_with_their_times_and_an_example(self, store: Store) -> None:
        first, second, third = [await bury(store, at=each) for each in (10, 20, 30)]
        alone = await bury(store, OTHER, at=25)
        elsewhere = await bury(store, CAUSE, at=5, job_type="mail.send")
        groups = await store.group_dead_letters(DeadLetterFilter())
        assert [(group.fingerprint, group.job_type, group.dead_letters) for group in groups] == [
            (CAUSE, "flights.load", 3),
            (OTHER, "flights.load", 1),
            (CAUSE, "mail.send", 1),
        ]
        assert (groups[0].first_died_at, groups[0].last_died_at) == (first.died_at, third.died_at)
        assert [group.example for group in groups] == [third, alone, elsewhere]
        assert second not in [group.example for group in groups]
        assert [group.fingerprint for group in await store.group_dead_letters(DeadLetterFilter(limit=1))] == [
            CAUSE
        ]


class TestRedrives:
    async def test_a_redrive_comes_back_as_it_went_and_is_inserted_once(self, store: Store) -> None:
        row = redrive_row(
            requested_by="ann@here",
            reason="mended\x00",
            journal=(JournalEntry(at=after(1), by="ann", action="begun\ud800"),),
            counts={"redriven": 3},
            counts_at_start={"redriven": 1},
            after=(after(2), uuid4()),
            stop_reason="stopped",
            state=RedriveState.STOPPED,
            finished_at=after(9),
        )
        assert await store.save_redrive(row)
        assert not await store.save_redrive(replace(row, reason="another"))
        assert await store.redrives() == [row]
        assert await store.redrives([row.redrive_id, uuid4()]) == [row]
        assert await store.redrives([uuid4()]) == []

    async def test_no_two_claim_the_same_and_a_claim_runs_out(self, store: Store) -> None:
        rows = [redrive_row(wake_at=after(each)) for each in (3, 1, 2, 4, 5)]
        for row in (*rows, redrive_row(wake_at=None), redrive_row(wake_at=after(100))):
            await store.save_redrive(row)
        first = await store.claim_redrives(after(10), after(40), 2)
        assert [row.redrive_id for row in first] == [rows[n].redrive_id for n in (1, 2)], "the longest due"
        claims = await asyncio.gather(*(store.claim_redrives(after(10), after(40), 2) for _ in range(4)))
        claimed = [row for claim in (first, *claims) for row in claim]
        assert {row.redrive_id for row in claimed} == {row.redrive_id for row in rows}
        assert len(claimed) == 5
        assert {(row.version, row.wake_at) for row in claimed} == {(2, after(40))}
        assert await store.claim_redrives(after(39), after(60), 9) == []
        again = await store.claim_redrives(after(40), after(70), 9)
        assert [row.version for row in again] == [3] * 5

    async def test_who_has_lost_its_claim_moves_nothing(self, store: Store) -> None:
        dead_letter, row = await bury(store), redrive_row()
        await store.save_redrive(row)
        (mine,) = await store.claim_redrives(NOON, after(10), 1)
        (others,) = await store.claim_redrives(after(10), after(20), 1)
        take = moved(dead_letter, DeadLetterState.CLAIMED, row)
        assert not await store.save_redrive(next_of(mine), [take])
        assert (await only(store, dead_letter.job_id)).state is DeadLetterState.OPEN
        assert await store.save_redrive(next_of(others, state=RedriveState.ROLLING), [take])
        assert (await only(store, dead_letter.job_id)) == take.dead_letter
        (held,) = await store.redrives([row.redrive_id])
        assert (held.state, held.version) == (RedriveState.ROLLING, others.version + 1)

    async def test_a_dead_letter_that_another_redrive_has_stays_with_it(self, store: Store) -> None:
        dead_letter, mine, other = await bury(store), redrive_row(), redrive_row()
        free = await bury(store)
        for row in (mine, other):
            await store.save_redrive(row)
        taken = moved(dead_letter, DeadLetterState.CLAIMED, mine)
        assert await store.save_redrive(next_of(mine), [taken])
        late = [moved(one, DeadLetterState.CLAIMED, other) for one in (dead_letter, free)]
        assert await store.save_redrive(next_of(other), late)
        assert (await only(store, dead_letter.job_id)).redrive_id == mine.redrive_id
        assert (await only(store, free.job_id)).redrive_id == other.redrive_id
        steal = moved(taken.dead_letter, DeadLetterState.DROPPED, other)
        assert await store.save_redrive(next_of(next_of(other)), [steal])
        assert (await only(store, dead_letter.job_id)).state is DeadLetterState.CLAIMED
        by_state = DeadLetterFilter(states=(), redrive_id=other.redrive_id)
        assert await store.count_dead_letters(by_state) == {DeadLetterState.CLAIMED: 1}
        assert await store.list_dead_letters(DeadLetterFilter(states=(), not_by=mine.redrive_id)) == [
            await only(store, free.job_id)
        ]

    async def test_a_dead_letter_may_be_given_back_and_claimed_by_another(self, store: Store) -> None:
        dead_letter, mine, other = await bury(store), redrive_row(), redrive_row()
        for row in (mine, other):
            await store.save_redrive(row)
        refused = moved(dead_letter, DeadLetterState.REJECTED, mine, note="expected a path\x00")
        assert await store.save_redrive(next_of(mine), [refused])
        assert await store.list_dead_letters(DeadLetterFilter()) == [refused.dead_letter]
        assert await store.list_dead_letters(DeadLetterFilter(not_by=mine.redrive_id)) == []
        taken = moved(refused.dead_letter, DeadLetterState.CLAIMED, other, note=None)
        assert await store.save_redrive(next_of(other), [taken])
        assert await only(store, dead_letter.job_id) == taken.dead_letter


class TestRedriveOutcomes:
    async def test_the_end_of_a_redriven_job_is_found_with_its_cause(self, store: Store) -> None:
        row = redrive_row()
        await store.save_redrive(row)
        ends: dict[UUID, tuple[JobState | None, str | None]] = {}
        for number, end in enumerate((JobState.SUCCEEDED, JobState.DEAD, None)):
            dead_letter, heir = await bury(store, at=number), queued_job()
            ends[dead_letter.job_id] = (end, OTHER if end is JobState.DEAD else None)
            if end is JobState.DEAD:
                row = await requeue(store, dead_letter, row, (await bury(store, OTHER)).job_id)
                continue
            await store.insert_jobs([heir])
            if end is JobState.SUCCEEDED:
                await store.save_jobs([succeeded(heir)])
            row = await requeue(store, dead_letter, row, heir.job_id)
        found = await store.redrive_outcomes(row.redrive_id, NOON, 10)
        found_ends = {heir.dead_letter.job_id: (heir.state, heir.fingerprint) for heir in found}
        assert found_ends == {job_id: end for job_id, end in ends.items() if end[0] is not None}
        assert len(await store.redrive_outcomes(row.redrive_id, NOON, 1)) == 1

    async def test_an_unaccepted_redrive_is_found_when_it_is_time(self, store: Store) -> None:
        row, dead_letter, heir = redrive_row(), await bury(store), uuid4()
        await store.save_redrive(row)
        await requeue(store, dead_letter, row, heir)
        assert await store.redrive_outcomes(row.redrive_id, after(99), 10) == []
        (found,) = await store.redrive_outcomes(row.redrive_id, after(100), 10)
        assert (found.dead_letter.redriven_as, found.state) == (heir, None)
        origins = DeadLetterFilter(states=(), redriven_as=(heir, uuid4()))
        assert await store.list_dead_letters(origins) == [found.dead_letter]

    async def test_only_later_successes_of_the_same_request_are_found(self, store: Store) -> None:
        rows = [
            queued_job(request_hash="a", accepted_at=after(10)),
            queued_job(request_hash="a", accepted_at=after(1)),
            queued_job(request_hash="b", accepted_at=after(10)),
            queued_job(request_hash="a", accepted_at=after(10), job_type="mail.send"),
            queued_job(request_hash="a", accepted_at=after(20)),
        ]
        await store.insert_jobs(rows)
        await store.save_jobs([succeeded(row) for row in rows[:-1]])
        found = await store.succeeded_since(["a", "c"], ["flights.load"], after(5))
        assert [(each.job_id, each.request_hash, each.accepted_at) for each in found] == [
            (rows[0].job_id, "a", after(10))
        ]
        assert await store.succeeded_since([], ["flights.load"], after(5)) == []


async def test_unresolved_causes_have_their_deaths_by_hour_and_their_newest_example(store: Store) -> None:
    assert await store.unresolved_causes(NOON, 10) == []
    old = await bury(store, CAUSE, at=-7200)
    await bury(store, CAUSE, at=10)
    newest = await bury(store, CAUSE, at=3700)
    other = await bury(store, OTHER, at=20, job_type="mail.send")
    unknown = await bury(store, "", at=-10)
    causes = await store.unresolved_causes(NOON, 10)
    assert [cause.fingerprint for cause in causes] == [CAUSE, OTHER, ""]
    first = causes[0]
    assert (first.dead_letters, first.first_died_at) == (3, old.died_at)
    assert first.example == newest
    hour = NOON.replace(minute=0, second=0, microsecond=0)
    assert first.deaths == {hour: 1, hour.replace(hour=hour.hour + 1): 1}, "the first died before"
    assert [cause.example for cause in causes[1:]] == [other, unknown]
    assert causes[2].deaths == {}

    found = store.unresolved_causes
    assert [cause.fingerprint for cause in await found(NOON, 10, fingerprint=CAUSE)] == [CAUSE]
    assert [cause.fingerprint for cause in await found(NOON, 10, job_type="mail.send")] == [OTHER]
    assert len(await found(NOON, 1)) == 1
    row = redrive_row()
    await store.save_redrive(row)
    assert await store.save_redrive(next_of(row), [moved(other, DeadLetterState.CLAIMED, row)])
    assert await found(NOON, 10, fingerprint=OTHER) == []
