"""Handlers' transactions, in SQLite and in PostgreSQL alike (guarantee G4)."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tests.conformance import ledger_rig

from warrener_agent.ledger import connected_ledger
from warrener_agent.ledger.port import ChildJobRequest, ClaimStatus, Ledger, LedgerError


async def test_a_transaction_that_is_not_completed_leaves_nothing_but_the_failure(ledger: Ledger) -> None:
    await ledger_rig.make_table(ledger)
    mine = ledger_rig.job()
    await ledger_rig.claim(ledger, mine)
    async with ledger.transaction(mine, agent_id="ada") as transaction:
        await transaction.execute("INSERT INTO effects VALUES ('one')")
    with pytest.raises(LedgerError, match="is over"):
        await transaction.execute("INSERT INTO effects VALUES ('two')")
    assert await ledger.fail([ledger_rig.failed(mine)], agent_id="ada") == {mine.job_id}
    assert await ledger_rig.effects(ledger) == []
    assert await ledger_rig.claim(ledger, mine) == [ClaimStatus.FAILED]


async def test_g4_effects_result_and_child_jobs_commit_together(ledger: Ledger, other: Ledger) -> None:
    await ledger_rig.make_table(ledger)
    mine = ledger_rig.job()
    await ledger_rig.claim(ledger, mine)
    completion = ledger_rig.done(
        mine, {"rows": 2}, ChildJobRequest("a", b"{}"), ChildJobRequest("b", b'{"x":1}')
    )
    async with ledger.transaction(mine, agent_id="ada") as transaction:
        await transaction.execute("INSERT INTO effects VALUES (:note)", [{"note": "one"}, {"note": "two"}])
        assert await transaction.complete(completion)
    assert await ledger_rig.effects(other) == ["one", "two"]
    assert await ledger_rig.recorded(other, mine) == completion


class Killed(Exception):
    """The attempt ends here."""


@pytest.mark.parametrize("step", ["before the first statement", "between two", "before completing"])
async def test_g4_of_an_attempt_that_ends_early_nothing_stays(
    ledger: Ledger, other: Ledger, step: str
) -> None:
    await ledger_rig.make_table(ledger)
    mine = ledger_rig.job()
    await ledger_rig.claim(ledger, mine)

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
    assert await ledger_rig.effects(other) == []
    assert await ledger_rig.claim(ledger, mine) == [ClaimStatus.GRANTED]


@pytest.mark.parametrize("overtaken", ["by a higher attempt", "by another agent", "by a cancellation"])
async def test_g4_a_fenced_completion_is_refused_and_its_effects_are_undone(
    ledger: Ledger, other: Ledger, overtaken: str
) -> None:
    await ledger_rig.make_table(ledger)
    mine = ledger_rig.job()
    await ledger_rig.claim(ledger, mine, lease=ledger_rig.ENDED)
    async with ledger.transaction(mine, agent_id="ada") as transaction:
        await transaction.execute("INSERT INTO effects VALUES ('zombie')")
        if overtaken == "by a higher attempt":
            assert await ledger_rig.claim(other, mine._replace(attempt=2), by="bob") == [ClaimStatus.GRANTED]
        elif overtaken == "by another agent":
            assert await ledger_rig.claim(other, mine, by="bob") == [ClaimStatus.GRANTED]
        else:
            await other.cancel([mine.job_id], now=ledger_rig.NOW)
        assert not await transaction.complete(ledger_rig.done(mine))
    assert await ledger_rig.effects(other) == []


async def test_g4_a_completion_is_recorded_once_whichever_way_it_comes(ledger: Ledger) -> None:
    await ledger_rig.make_table(ledger)
    mine = ledger_rig.job()
    await ledger_rig.claim(ledger, mine)
    assert await ledger.complete([ledger_rig.done(mine, "first")], agent_id="ada") == {mine.job_id}
    async with ledger.transaction(mine, agent_id="ada") as transaction:
        await transaction.execute("INSERT INTO effects VALUES ('again')")
        assert not await transaction.complete(ledger_rig.done(mine, "second"))
    assert await ledger_rig.effects(ledger) == []
    assert (await ledger_rig.recorded(ledger, mine)).result == "first"


async def test_g3_a_claim_never_waits_for_a_handler_that_writes(ledger: Ledger, other: Ledger) -> None:
    await ledger_rig.make_table(ledger)
    slow, quick = ledger_rig.job(), ledger_rig.job()
    await ledger_rig.claim(ledger, slow)
    async with ledger.transaction(slow, agent_id="ada") as transaction:
        await transaction.execute("INSERT INTO effects VALUES ('slow')")
        async with asyncio.timeout(ledger_rig.WAIT):
            assert await ledger_rig.claim(other, quick, by="bob") == [ClaimStatus.GRANTED]
            assert (await ledger.renew([slow], agent_id="ada", lease=ledger_rig.LEASE)).renewed == {
                slow.job_id
            }
            assert await other.complete([ledger_rig.done(quick)], agent_id="bob") == {quick.job_id}
        assert await transaction.complete(ledger_rig.done(slow))


async def test_g4_transactions_of_several_agents_wait_for_each_other_and_none_fails(
    ledger: Ledger, other: Ledger
) -> None:
    await ledger_rig.make_table(ledger)

    async def work(where: Ledger, agent: str, number: int) -> bool:
        mine = ledger_rig.job()
        await ledger_rig.claim(where, mine, by=agent)
        async with where.transaction(mine, agent_id=agent) as transaction:
            await transaction.execute("INSERT INTO effects VALUES (:note)", {"note": f"{agent} {number}"})
            await transaction.execute("SELECT count(*) AS rows FROM effects")
            return await transaction.complete(ledger_rig.done(mine, number))

    places = [(ledger, "ada"), (other, "bob")]
    async with asyncio.timeout(ledger_rig.WAIT):
        completed = await asyncio.gather(*(work(*place, number) for number in range(15) for place in places))
    assert all(completed)
    assert len(await ledger_rig.effects(ledger)) == 30


async def test_g4_a_transaction_that_waits_for_another_can_be_cancelled(
    ledger: Ledger, other: Ledger
) -> None:
    await ledger_rig.make_table(ledger)
    first = ledger_rig.job()
    await ledger_rig.claim(ledger, first)
    started = asyncio.Event()

    async def second() -> None:
        mine = ledger_rig.job()
        await ledger_rig.claim(other, mine, by="bob")
        async with other.transaction(mine, agent_id="bob") as transaction:
            started.set()
            await transaction.execute("DELETE FROM effects")
            await transaction.execute("SELECT pg_sleep(60)")  # in SQLite it waits with the first statement

    async with ledger.transaction(first, agent_id="ada") as transaction:
        await transaction.execute("INSERT INTO effects VALUES ('kept')")
        waiting = asyncio.create_task(second())
        await started.wait()
        waiting.cancel()
        async with asyncio.timeout(ledger_rig.WAIT):
            await asyncio.wait({waiting})
        assert await transaction.complete(ledger_rig.done(first))
    assert await ledger_rig.effects(other) == ["kept"]


async def test_statements_take_named_parameters_give_rows_and_end_no_transaction(ledger: Ledger) -> None:
    mine = ledger_rig.job()
    await ledger_rig.claim(ledger, mine)
    async with ledger.transaction(mine, agent_id="ada") as transaction:
        await transaction.execute("CREATE TABLE things (name TEXT, size INTEGER)")
        rows = [{"name": "it's :name", "size": 1}, {"name": "b", "size": 2}]
        assert await transaction.execute("INSERT INTO things VALUES (:name, :size)", rows) == []
        for none in ("INSERT INTO things VALUES (:name, :size)", "SELECT * FROM things WHERE size = :size"):
            assert await transaction.execute(none, []) == []
        found = await transaction.execute(
            "SELECT name, size, ':no' AS literal FROM things WHERE size < :limit -- :comment", {"limit": 2}
        )
        assert [dict(row) for row in found] == [{"name": "it's :name", "size": 1, "literal": ":no"}]
        for statement in ("COMMIT", " rollback;", "BEGIN IMMEDIATE", "END"):
            with pytest.raises(ValueError, match="inside the transaction"):
                await transaction.execute(statement)


async def test_a_handlers_statement_waits_for_no_claim(tmp_path: Path) -> None:
    """The claims of SQLite are a file of their own, whose lock another process may hold for long."""
    mine = ledger_rig.job()
    async with connected_ledger(f"sqlite:///{tmp_path}/ledger.db") as ledger:
        await ledger_rig.claim(ledger, mine)
        with closing(sqlite3.connect(tmp_path / "ledger.db-claims", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            async with ledger.transaction(mine, agent_id="ada") as transaction:
                assert [dict(row) for row in await transaction.execute("SELECT 1 AS one")] == [{"one": 1}]
