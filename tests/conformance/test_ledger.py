"""What every ledger does, in SQLite and in PostgreSQL alike (guarantees G3 and G4)."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from warrener_agent.ledger import (
    Claim,
    Completion,
    Failure,
    FollowUp,
    Forgotten,
    Grant,
    Granted,
    Ledger,
    LedgerError,
    Saved,
    open_ledger,
)
from warrener_agent.ledger.answers import highest

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
SOON = NOW + timedelta(seconds=10)
LATER = NOW + timedelta(seconds=11)
WAIT = 20.0


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty ledger's URL."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/ledger.db"
    return str(request.getfixturevalue("postgres_url"))


@asynccontextmanager
async def ledger_at(url: str) -> AsyncGenerator[Ledger]:
    """A ledger as one agent process has it."""
    ledger = open_ledger(url)
    await ledger.start()
    try:
        yield ledger
    finally:
        await ledger.close()


@pytest.fixture
async def ledger(url: str) -> AsyncIterator[Ledger]:
    """The ledger of agent `ada`."""
    async with ledger_at(url) as one:
        yield one


@pytest.fixture
async def other(url: str, ledger: Ledger) -> AsyncIterator[Ledger]:
    """The same ledger, opened by another agent's process."""
    async with ledger_at(url) as one:
        yield one


def job(attempt: int = 1) -> Claim:
    return Claim(uuid4(), attempt)


async def claim(ledger: Ledger, *claims: Claim, by: str = "ada", now: datetime = NOW) -> list[Grant]:
    until = now + timedelta(seconds=10)
    return [one.grant for one in await ledger.claim(claims, agent_id=by, now=now, until=until)]


def done(claim: Claim, result: object = None, *follow_ups: FollowUp) -> Completion:
    return Completion(claim.job_id, claim.attempt, json.dumps(result), follow_ups, NOW, LATER)


def failed(claim: Claim, told: object = None) -> Failure:
    return Failure(claim.job_id, claim.attempt, told, NOW, LATER)


async def recorded(ledger: Ledger, claim: Claim) -> Completion:
    (answer,) = await ledger.claim([claim], agent_id="reader", now=NOW, until=SOON)
    assert answer.grant is Grant.COMPLETED, answer
    assert answer.completion is not None
    return answer.completion


async def make_table(ledger: Ledger) -> None:
    """The handlers' own table."""
    mine = job()
    await claim(ledger, mine)
    async with ledger.transaction(mine, agent_id="ada") as transaction:
        await transaction.execute("CREATE TABLE effects (note TEXT)")
        assert await transaction.complete(done(mine))


async def effects(ledger: Ledger) -> list[str]:
    async with ledger.transaction(job(), agent_id="reader") as transaction:
        rows = await transaction.execute("SELECT note FROM effects ORDER BY note")
    return [str(row["note"]) for row in rows]


# -- claims ------------------------------------------------------------------------------------------------


async def test_g3_a_claim_is_granted_once_and_again_to_its_holder(ledger: Ledger, other: Ledger) -> None:
    mine = job()
    assert await claim(ledger, mine) == [Grant.GRANTED]
    assert await claim(ledger, mine) == [Grant.GRANTED]
    assert await claim(other, mine, by="bob") == [Grant.HELD]


async def test_g3_a_lease_that_has_run_out_goes_to_whoever_asks_next(ledger: Ledger, other: Ledger) -> None:
    mine = job()
    await claim(ledger, mine)
    assert await claim(other, mine, by="bob", now=SOON - timedelta(milliseconds=1)) == [Grant.HELD]
    assert await claim(other, mine, by="bob", now=SOON) == [Grant.GRANTED]
    assert await claim(ledger, mine, now=SOON) == [Grant.HELD]
    assert await ledger.complete([done(mine)], agent_id="ada") == set()


async def test_g3_a_higher_attempt_waits_until_the_lease_of_the_lower_one_has_ended(
    ledger: Ledger, other: Ledger
) -> None:
    first = job()
    second, third = first._replace(attempt=2), first._replace(attempt=3)
    await claim(ledger, first)
    assert await claim(other, second, by="bob") == [Grant.HELD]
    assert await claim(other, third, by="bob") == [Grant.HELD]
    assert (await ledger.renew([first], agent_id="ada", until=LATER)).kept == set(), "it is to stop"
    assert await claim(ledger, first) == [Grant.HELD], "nor is it granted again"
    assert await claim(other, second, by="bob", now=SOON) == [Grant.HELD], "a third waits"
    assert await claim(other, third, by="bob", now=SOON) == [Grant.GRANTED]
    assert await claim(ledger, first, second, now=LATER) == [Grant.SUPERSEDED, Grant.SUPERSEDED]
    assert await ledger.complete([done(first)], agent_id="ada") == set()
    assert await other.complete([done(third)], agent_id="bob") == {first.job_id}


async def test_g3_a_higher_attempt_is_granted_at_once_where_the_lower_one_was_let_go(
    ledger: Ledger, other: Ledger
) -> None:
    released, lost, own = job(), job(), job()
    await claim(ledger, released, lost, own)
    await ledger.release([released], agent_id="ada")
    assert await ledger.fail([failed(lost)], agent_id="ada") == {lost.job_id}
    following = [one._replace(attempt=2) for one in (released, lost)]
    assert await claim(other, *following, by="bob") == [Grant.GRANTED, Grant.GRANTED]
    assert await claim(ledger, own._replace(attempt=2)) == [Grant.GRANTED], "its agent knows what it runs"


@pytest.mark.parametrize("ends", ["released", "failed", "completed"])
async def test_while_a_higher_attempt_waits_the_lower_one_may_end(
    ledger: Ledger, other: Ledger, ends: str
) -> None:
    first = job()
    second = first._replace(attempt=2)
    await claim(ledger, first)
    assert await claim(other, second, by="bob") == [Grant.HELD]
    if ends == "released":
        await ledger.release([first], agent_id="ada")
        assert await claim(other, first, by="bob") == [Grant.HELD], "the lower one is not begun any more"
    elif ends == "failed":
        assert await ledger.fail([failed(first)], agent_id="ada") == {first.job_id}
    else:
        assert await ledger.complete([done(first, "late")], agent_id="ada") == {first.job_id}
        assert (await recorded(other, second)).result == "late"
        return
    assert await claim(other, second, by="bob") == [Grant.GRANTED]
    assert (await other.renew([second], agent_id="bob", until=LATER)).kept == {first.job_id}


async def test_a_completed_job_answers_every_later_claim_with_what_was_recorded(ledger: Ledger) -> None:
    first = job()
    await claim(ledger, first)
    follow_up = FollowUp("next", '{"id":"ünïcode"}'.encode())
    completion = done(first, {"rows": 3, "odd": [None, 1.5, "é"]}, follow_up)
    assert await ledger.complete([completion], agent_id="ada") == {first.job_id}
    assert await recorded(ledger, first) == completion
    assert await recorded(ledger, first._replace(attempt=7)) == completion
    assert await ledger.complete([completion], agent_id="ada") == set()


async def test_a_cancelled_job_is_neither_claimed_nor_completed(ledger: Ledger) -> None:
    unknown, running, finished = job(), job(), job()
    await claim(ledger, running, finished)
    await ledger.complete([done(finished)], agent_id="ada")
    await ledger.cancel([unknown.job_id, running.job_id, finished.job_id], now=NOW)
    again = [unknown, running, running._replace(attempt=2), finished]
    answers = await claim(ledger, *again)
    assert answers == [Grant.CANCELLED, Grant.CANCELLED, Grant.CANCELLED, Grant.COMPLETED]
    assert await ledger.complete([done(running)], agent_id="ada") == set()
    assert (await ledger.renew([running], agent_id="ada", until=LATER)).kept == set()


async def test_a_batch_is_answered_in_order(ledger: Ledger, other: Ledger) -> None:
    held, finished, fresh, twice = job(), job(), job(), job()
    await claim(other, held, finished, by="bob")
    await other.complete([done(finished)], agent_id="bob")
    batch = [twice, held, fresh, finished, twice._replace(attempt=2), fresh]
    assert await claim(ledger, *batch) == [
        Grant.SUPERSEDED,
        Grant.HELD,
        Grant.GRANTED,
        Grant.COMPLETED,
        Grant.GRANTED,
        Grant.GRANTED,
    ]


async def test_a_batch_may_be_large_or_empty(ledger: Ledger) -> None:
    assert await claim(ledger) == []
    many = [job() for _ in range(500)]
    assert set(await claim(ledger, *many)) == {Grant.GRANTED}
    assert await ledger.complete([done(one) for one in many], agent_id="ada") == {one.job_id for one in many}
    assert await ledger.complete([], agent_id="ada") == set()


async def test_g3_of_many_who_claim_at_once_one_is_granted(url: str) -> None:
    mine = [job() for _ in range(20)]

    async def compete(name: str) -> list[Grant]:
        async with ledger_at(url) as ledger:
            return await claim(ledger, *mine, by=name)

    answers = await asyncio.gather(*(compete(f"agent-{number}") for number in range(5)))
    for of_one_job in zip(*answers, strict=True):
        assert sorted(of_one_job) == [Grant.GRANTED, *[Grant.HELD] * 4]


async def test_renewing_tells_what_is_lost(ledger: Ledger, other: Ledger) -> None:
    kept, overtaken, released = job(), job(), job()
    await claim(ledger, kept, overtaken, released)
    assert await claim(other, overtaken._replace(attempt=2), by="bob") == [Grant.HELD]
    await ledger.release([released], agent_id="ada")
    until = SOON + timedelta(minutes=1)
    assert (await ledger.renew([kept, overtaken, released], agent_id="ada", until=until)).kept == {
        kept.job_id
    }
    assert await claim(other, kept, by="bob", now=SOON) == [Grant.HELD]


async def test_a_released_attempt_can_be_claimed_at_once_and_only_by_its_holder_be_released(
    ledger: Ledger, other: Ledger
) -> None:
    mine = job()
    await claim(ledger, mine)
    await other.release([mine], agent_id="bob")
    assert await claim(other, mine, by="bob") == [Grant.HELD]
    await ledger.release([mine], agent_id="ada")
    assert await claim(other, mine, by="bob") == [Grant.GRANTED]


async def test_a_failed_attempt_is_told_again_and_granted_to_nobody(ledger: Ledger, other: Ledger) -> None:
    mine = job()
    await claim(ledger, mine)
    failure = failed(mine, {"error": {"message": "n\0 good, \ud800"}, "retry_after_seconds": 1.5})
    assert await ledger.fail([failure], agent_id="ada") == {mine.job_id}
    for where, agent in ((ledger, "ada"), (other, "bob")):
        (answer,) = await where.claim([mine], agent_id=agent, now=LATER, until=LATER)
        assert answer == Granted(Grant.FAILED, failure=failure)
    assert await ledger.fail([failure], agent_id="ada") == set(), "it is nobody's any more"
    assert (await ledger.renew([mine], agent_id="ada", until=LATER)).kept == set()
    assert await ledger.complete([done(mine)], agent_id="ada") == set()


async def test_a_later_attempt_takes_the_place_of_a_failed_one(ledger: Ledger, other: Ledger) -> None:
    first = job()
    second = first._replace(attempt=2)
    await claim(ledger, first)
    await ledger.fail([failed(first)], agent_id="ada")
    assert await claim(other, second, by="bob") == [Grant.GRANTED]
    assert await claim(ledger, first, second) == [Grant.SUPERSEDED, Grant.HELD]
    assert await other.fail([failed(second, "again")], agent_id="bob") == {first.job_id}
    assert await claim(ledger, first, second) == [Grant.SUPERSEDED, Grant.FAILED]
    third = first._replace(attempt=3)
    assert await claim(ledger, third) == [Grant.GRANTED]
    assert await ledger.complete([done(third, "at last")], agent_id="ada") == {first.job_id}
    assert (await recorded(other, second)).result == "at last"


async def test_g3_a_failure_counts_from_the_holder_alone(ledger: Ledger, other: Ledger) -> None:
    running, overtaken, released, cancelled, completed = job(), job(), job(), job(), job()
    await claim(ledger, running, overtaken, released, cancelled, completed)
    await claim(other, overtaken._replace(attempt=2), by="bob", now=SOON)
    await ledger.release([released], agent_id="ada")
    await ledger.cancel([cancelled.job_id], now=NOW)
    await ledger.complete([done(completed)], agent_id="ada")
    lost = [failed(one) for one in (overtaken, released, cancelled, completed)]
    assert await other.fail([failed(running)], agent_id="bob") == set()
    assert await ledger.fail([failed(running), *lost], agent_id="ada") == {running.job_id}
    answers = await claim(ledger, running, overtaken, released, cancelled, completed)
    assert answers == [
        Grant.FAILED,
        Grant.SUPERSEDED,
        Grant.GRANTED,
        Grant.CANCELLED,
        Grant.COMPLETED,
    ]
    assert await ledger.fail([], agent_id="ada") == set()


async def test_a_failure_in_a_transaction_leaves_its_word_alone(ledger: Ledger) -> None:
    """What the handler wrote is undone; that it failed is remembered."""
    await make_table(ledger)
    mine = job()
    await claim(ledger, mine)
    async with ledger.transaction(mine, agent_id="ada") as transaction:
        await transaction.execute("INSERT INTO effects VALUES ('one')")
    assert await ledger.fail([failed(mine)], agent_id="ada") == {mine.job_id}
    assert await effects(ledger) == []
    assert await claim(ledger, mine) == [Grant.FAILED]


async def test_failures_are_forgotten_in_their_time(ledger: Ledger) -> None:
    old, young = job(), job()
    await claim(ledger, old, young)
    before = datetime.now(UTC) + timedelta(days=30)
    ended = replace(failed(young), finished_at=before + timedelta(hours=1))
    assert await ledger.fail([failed(old), ended], agent_id="ada") == {old.job_id, young.job_id}
    assert await ledger.forget(before) == Forgotten(rows=1, completions=0)
    assert await claim(ledger, old, young) == [Grant.GRANTED, Grant.FAILED]


async def test_what_is_old_is_forgotten_and_nothing_else(ledger: Ledger) -> None:
    old, young, running = job(), job(), job()
    before = datetime.now(UTC) + timedelta(days=30)
    await ledger.claim([old, young, running], agent_id="ada", now=NOW, until=before + timedelta(hours=1))
    ended = done(young)._replace(finished_at=before + timedelta(minutes=1))
    assert await ledger.complete([done(old), ended], agent_id="ada") == {old.job_id, young.job_id}
    assert await forget_all(ledger, before) == (1, 1)
    answers = await claim(ledger, young, running, by="bob")
    assert answers == [Grant.COMPLETED, Grant.HELD]


async def test_what_was_released_or_cancelled_or_lost_long_ago_is_forgotten(ledger: Ledger) -> None:
    released, lost = job(3), job(3)
    await claim(ledger, released, lost)
    await ledger.release([released], agent_id="ada")
    cancelled = job()
    await ledger.cancel([cancelled.job_id], now=NOW)
    assert await forget_all(ledger, datetime.now(UTC) - timedelta(days=7)) == (0, 0)
    assert await claim(ledger, released._replace(attempt=2)) == [Grant.SUPERSEDED]
    assert await forget_all(ledger, datetime.now(UTC) + timedelta(days=7)) == (3, 0)
    again = [one._replace(attempt=1) for one in (released, lost, cancelled)]
    assert await claim(ledger, *again, by="bob") == [Grant.GRANTED] * 3


async def test_it_is_forgotten_in_batches_and_what_lives_between_them_stays(ledger: Ledger) -> None:
    before = datetime.now(UTC) + timedelta(days=30)
    claims = [job() for _ in range(25)]
    for one in claims:  # each at a moment of its own, as the claims of a batch share theirs
        await ledger.claim([one], agent_id="ada", now=NOW, until=NOW)
    alive = claims[::5]
    await ledger.renew(alive, agent_id="ada", until=before + timedelta(hours=1))
    batches = [await ledger.forget(before, limit=10)]
    while batches[-1].after is not None:
        batches.append(await ledger.forget(before, after=batches[-1].after, limit=10))
    assert sum(batch.rows for batch in batches) == 20
    assert len(batches) >= 3
    assert await claim(ledger, *alive, by="bob") == [Grant.HELD] * 5


async def test_a_checkpoint_goes_with_its_claim_and_not_before(ledger: Ledger) -> None:
    mine = job()
    await claim(ledger, mine)
    saved = Saved(mine.job_id, 1, 1, '"half"')
    assert await ledger.save_checkpoints([saved], agent_id="ada", now=NOW - timedelta(days=60))
    before = datetime.now(UTC) + timedelta(days=30)
    await ledger.renew([mine], agent_id="ada", until=before + timedelta(hours=1))
    assert await forget_all(ledger, before) == (0, 0)
    (granted,) = await ledger.claim([mine], agent_id="ada", now=NOW, until=SOON)
    assert granted.checkpoint is not None
    assert await forget_all(ledger, before) == (1, 0)
    (granted,) = await ledger.claim([mine], agent_id="ada", now=NOW, until=SOON)
    assert granted.checkpoint is None


async def test_forgetting_reaches_what_was_completed_in_a_transaction(ledger: Ledger) -> None:
    await make_table(ledger)
    _, completions = await forget_all(ledger, datetime.now(UTC) + timedelta(days=1))
    assert completions == 1


async def forget_all(ledger: Ledger, before: datetime) -> tuple[int, int]:
    """Rows and completions that went, batch after batch."""
    batch = await ledger.forget(before)
    rows, completions = batch.rows, batch.completions
    while batch.after is not None:
        batch = await ledger.forget(before, after=batch.after)
        rows, completions = rows + batch.rows, completions + batch.completions
    return rows, completions


# -- transactions ------------------------------------------------------------------------------------------


async def test_g4_effects_result_and_follow_ups_commit_together(ledger: Ledger, other: Ledger) -> None:
    await make_table(ledger)
    mine = job()
    await claim(ledger, mine)
    completion = done(mine, {"rows": 2}, FollowUp("a", b"{}"), FollowUp("b", b'{"x":1}'))
    async with ledger.transaction(mine, agent_id="ada") as transaction:
        await transaction.execute("INSERT INTO effects VALUES (:note)", [{"note": "one"}, {"note": "two"}])
        assert await transaction.complete(completion)
    assert await effects(other) == ["one", "two"]
    assert await recorded(other, mine) == completion


class Killed(Exception):
    """The attempt ends here."""


@pytest.mark.parametrize("step", ["before the first statement", "between two", "before completing"])
async def test_g4_of_an_attempt_that_ends_early_nothing_stays(
    ledger: Ledger, other: Ledger, step: str
) -> None:
    await make_table(ledger)
    mine = job()
    await claim(ledger, mine)

    def maybe_end(here: str) -> None:
        if here == step:
            raise Killed

    async def attempt() -> None:
        async with ledger.transaction(mine, agent_id="ada") as transaction:
            maybe_end("before the first statement")
            await transaction.execute("INSERT INTO effects VALUES ('one')")
            maybe_end("between two")
            await transaction.execute("INSERT INTO effects VALUES ('two')")
            maybe_end("before completing")

    with pytest.raises(Killed):
        await attempt()
    assert await effects(other) == []
    assert await claim(ledger, mine) == [Grant.GRANTED]


@pytest.mark.parametrize("overtaken", ["by a higher attempt", "by another agent", "by a cancellation"])
async def test_g4_a_fenced_completion_is_refused_and_its_effects_are_undone(
    ledger: Ledger, other: Ledger, overtaken: str
) -> None:
    await make_table(ledger)
    mine = job()
    await claim(ledger, mine)
    async with ledger.transaction(mine, agent_id="ada") as transaction:
        await transaction.execute("INSERT INTO effects VALUES ('zombie')")
        if overtaken == "by a higher attempt":
            assert await claim(other, mine._replace(attempt=2), by="bob", now=SOON) == [Grant.GRANTED]
        elif overtaken == "by another agent":
            assert await claim(other, mine, by="bob", now=SOON) == [Grant.GRANTED]
        else:
            await other.cancel([mine.job_id], now=NOW)
        assert not await transaction.complete(done(mine))
    assert await effects(other) == []


async def test_g4_a_completion_is_recorded_once_whichever_way_it_comes(ledger: Ledger) -> None:
    await make_table(ledger)
    mine = job()
    await claim(ledger, mine)
    assert await ledger.complete([done(mine, "first")], agent_id="ada") == {mine.job_id}
    async with ledger.transaction(mine, agent_id="ada") as transaction:
        await transaction.execute("INSERT INTO effects VALUES ('again')")
        assert not await transaction.complete(done(mine, "second"))
    assert await effects(ledger) == []
    assert (await recorded(ledger, mine)).result == "first"


async def test_g3_a_claim_never_waits_for_a_handler_that_writes(ledger: Ledger, other: Ledger) -> None:
    await make_table(ledger)
    slow, quick = job(), job()
    await claim(ledger, slow)
    async with ledger.transaction(slow, agent_id="ada") as transaction:
        await transaction.execute("INSERT INTO effects VALUES ('slow')")
        async with asyncio.timeout(2):
            assert await claim(other, quick, by="bob") == [Grant.GRANTED]
            assert (await ledger.renew([slow], agent_id="ada", until=LATER)).kept == {slow.job_id}
            assert await other.complete([done(quick)], agent_id="bob") == {quick.job_id}
        assert await transaction.complete(done(slow))


async def test_g4_transactions_of_several_agents_wait_for_each_other_and_none_fails(
    ledger: Ledger, other: Ledger
) -> None:
    await make_table(ledger)

    async def work(where: Ledger, agent: str, number: int) -> bool:
        mine = job()
        await claim(where, mine, by=agent)
        async with where.transaction(mine, agent_id=agent) as transaction:
            await transaction.execute("INSERT INTO effects VALUES (:note)", {"note": f"{agent} {number}"})
            await transaction.execute("SELECT count(*) AS rows FROM effects")
            return await transaction.complete(done(mine, number))

    places = [(ledger, "ada"), (other, "bob")]
    async with asyncio.timeout(WAIT):
        told = await asyncio.gather(*(work(*place, number) for number in range(15) for place in places))
    assert all(told)
    assert len(await effects(ledger)) == 30


async def test_g4_a_transaction_that_waits_for_another_can_be_cancelled(
    ledger: Ledger, other: Ledger
) -> None:
    await make_table(ledger)
    first = job()
    await claim(ledger, first)
    started = asyncio.Event()

    async def second() -> None:
        mine = job()
        await claim(other, mine, by="bob")
        async with other.transaction(mine, agent_id="bob") as transaction:
            started.set()
            await transaction.execute("DELETE FROM effects")
            await transaction.execute("SELECT pg_sleep(60)")  # in SQLite it waits with the first statement

    async with ledger.transaction(first, agent_id="ada") as transaction:
        await transaction.execute("INSERT INTO effects VALUES ('kept')")
        waiting = asyncio.create_task(second())
        await started.wait()
        waiting.cancel()
        async with asyncio.timeout(WAIT):
            await asyncio.wait({waiting})
        assert await transaction.complete(done(first))
    assert await effects(other) == ["kept"]


async def test_after_its_end_a_transaction_takes_nothing_more(ledger: Ledger) -> None:
    await make_table(ledger)
    mine = job()
    await claim(ledger, mine)
    async with ledger.transaction(mine, agent_id="ada") as transaction:
        await transaction.execute("INSERT INTO effects VALUES ('one')")
    with pytest.raises(LedgerError, match="is over"):
        await transaction.execute("INSERT INTO effects VALUES ('two')")
    assert await effects(ledger) == []


async def test_a_handler_cannot_end_the_transaction_itself(ledger: Ledger) -> None:
    mine = job()
    await claim(ledger, mine)
    async with ledger.transaction(mine, agent_id="ada") as transaction:
        for statement in ("COMMIT", " rollback;", "BEGIN IMMEDIATE", "END"):
            with pytest.raises(ValueError, match="inside the transaction"):
                await transaction.execute(statement)


async def test_statements_take_named_parameters_and_give_rows_by_name(ledger: Ledger) -> None:
    mine = job()
    await claim(ledger, mine)
    async with ledger.transaction(mine, agent_id="ada") as transaction:
        await transaction.execute("CREATE TABLE things (name TEXT, size INTEGER)")
        rows = [{"name": "it's :name", "size": 1}, {"name": "b", "size": 2}]
        assert await transaction.execute("INSERT INTO things VALUES (:name, :size)", rows) == []
        assert await transaction.execute("INSERT INTO things VALUES (:name, :size)", []) == []
        found = await transaction.execute(
            "SELECT name, size, ':no' AS literal FROM things WHERE size < :limit -- :comment", {"limit": 2}
        )
        assert [dict(row) for row in found] == [{"name": "it's :name", "size": 1, "literal": ":no"}]


@pytest.mark.parametrize("by_transaction", [True, False])
async def test_results_may_be_big_and_hold_anything_that_json_can(
    ledger: Ledger, *, by_transaction: bool
) -> None:
    mine = job()
    await claim(ledger, mine)
    odd: dict[str, Any]
    odd = {"nul": "a\x00b", "surrogate": "\ud800", "big": "ü" * 900_000, "deep": [[[[{}]]]], "n": 2**60}
    if by_transaction:
        async with ledger.transaction(mine, agent_id="ada") as transaction:
            assert await transaction.complete(done(mine, odd))
    else:
        assert await ledger.complete([done(mine, odd)], agent_id="ada") == {mine.job_id}
    assert (await recorded(ledger, mine)).result == odd


async def test_what_is_recorded_outlives_the_process(url: str) -> None:
    mine: Claim = job()
    async with ledger_at(url) as ledger:
        await claim(ledger, mine)
        await ledger.complete([done(mine, "kept")], agent_id="ada")
    async with ledger_at(url) as ledger:
        assert (await recorded(ledger, mine)).result == "kept"


async def test_starting_at_once_in_several_processes_makes_the_tables_once(url: str) -> None:
    ledgers = [open_ledger(url) for _ in range(6)]
    await asyncio.gather(*(ledger.start() for ledger in ledgers))
    await asyncio.gather(*(ledger.ping() for ledger in ledgers))
    await asyncio.gather(*(ledger.close() for ledger in ledgers))


async def test_a_closed_ledger_says_so_and_closing_twice_is_no_matter(url: str) -> None:
    ledger = open_ledger(url)
    await ledger.close()
    await ledger.start()
    await ledger.close()
    await ledger.close()
    with pytest.raises(LedgerError, match="call start"):
        await ledger.ping()


def test_a_url_that_means_no_ledger_is_refused() -> None:
    for wrong in ("mysql://x", "sqlite://", "sqlite:///:memory:", ""):
        with pytest.raises(ValueError, match="expected a ledger URL"):
            open_ledger(wrong)


def test_claims_are_sorted_by_job() -> None:
    """Two agents that lock the same rows in different orders would wait for each other for ever."""
    claims = [Claim(UUID(int=number), 1) for number in (3, 1, 2)]
    assert [one.job_id.int for one in highest(claims)] == [1, 2, 3]
