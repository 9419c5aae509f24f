"""Sessions of the PostgreSQL ledger: locked rows, silent connections, and a database that is killed."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from services.agent.tests.stage import Stage
from tests.faults.postgres_proxy import COMMIT, How, PostgresProxy, When, by_way_of
from tests.servers.kinds import PostgresServer

from warrener_agent import Agent, JobContext
from warrener_agent.ledger import connected_ledger, open_ledger, port
from warrener_contracts.events import AttemptFailed, AttemptReleased, AttemptSucceeded

if TYPE_CHECKING:
    from services.agent.tests.conftest import Connection

# -- locked rows and connections that do not answer: all else goes on ---------------------------------------

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
LATER = NOW + timedelta(seconds=20)
LEASE = timedelta(seconds=30)
ENDED = timedelta(0)
WAIT = 60.0


@pytest.fixture
async def ledger(postgres_url: str) -> AsyncIterator[port.Ledger]:
    async with connected_ledger(postgres_url) as one:
        yield one


@pytest.fixture
def proxy(postgres: PostgresServer) -> Iterator[PostgresProxy]:
    one = PostgresProxy(postgres.port)
    yield one
    one.close()


@pytest.fixture
async def behind(postgres_url: str, proxy: PostgresProxy, ledger: port.Ledger) -> AsyncIterator[port.Ledger]:
    async with connected_ledger(by_way_of(postgres_url, proxy.port)) as one:
        yield one
        proxy.heal()


@pytest.fixture
async def held(connection: "Connection", ledger: port.Ledger) -> AsyncIterator[port.Claim]:
    """A claim of ada's whose row is locked by a transaction that does not end."""
    mine = port.Claim(uuid4(), 1)
    await ledger.claim([mine], agent_id="ada", lease=ENDED)
    async with connection.transaction():
        await connection.execute("SELECT 1 FROM warrener_ledger WHERE job_id = $1 FOR UPDATE", mine.job_id)
        yield mine


def done(claim: port.Claim) -> port.Completion:
    return port.Completion(claim.job_id, claim.attempt, json.dumps("it's \\ done"), (), NOW, LATER)


async def test_3_a_locked_row_holds_up_no_other_claim(ledger: port.Ledger, held: port.Claim) -> None:
    free = [port.Claim(uuid4(), 1) for _ in range(50)]
    async with asyncio.timeout(WAIT):
        for claims in ([*free[:25], held], [held, *free[25:]], [held]):
            answers = await ledger.claim(claims, agent_id="bob", lease=LEASE)
            for claim, answer in zip(claims, answers, strict=True):
                assert answer.status is (port.ClaimStatus.HELD if claim == held else port.ClaimStatus.GRANTED)
                assert answer.locked is (claim == held)


async def test_3_a_locked_row_is_neither_renewed_nor_lost(ledger: port.Ledger, held: port.Claim) -> None:
    mine, gone = port.Claim(uuid4(), 1), port.Claim(uuid4(), 1)
    await ledger.claim([mine], agent_id="ada", lease=ENDED)
    async with asyncio.timeout(WAIT):
        renewal = await ledger.renew([held, mine, gone], agent_id="ada", lease=LEASE)
    assert renewal.renewed == {mine.job_id}
    assert renewal.locked == {held.job_id}


async def test_3_a_locked_row_holds_up_no_other_end(ledger: port.Ledger, held: port.Claim) -> None:
    ended = [port.Claim(uuid4(), 1) for _ in range(3)]
    await ledger.claim(ended, agent_id="ada", lease=ENDED)
    one, two, three = ended
    async with asyncio.timeout(WAIT):
        states = [port.SavedCheckpoint(claim.job_id, 1, 1, "{}") for claim in (held, one)]
        assert await ledger.save_checkpoints(states, agent_id="ada", now=NOW) == {one.job_id}
        assert await ledger.complete([done(held), done(one)], agent_id="ada") == {one.job_id}
        failures = [port.Failure(claim.job_id, 1, None, NOW, NOW) for claim in (held, two)]
        assert await ledger.fail(failures, agent_id="ada") == {two.job_id}
        await ledger.release([held, three], agent_id="ada")
        answers = await ledger.claim(ended, agent_id="bob", lease=LEASE)
        with pytest.raises(port.LedgerUnavailable, match="1 locked"):
            await ledger.cancel([held.job_id, uuid4()], now=NOW)
    assert [answer.status for answer in answers] == [
        port.ClaimStatus.COMPLETED,
        port.ClaimStatus.FAILED,
        port.ClaimStatus.GRANTED,
    ]


async def test_3_a_cut_at_the_commit_leaves_the_row_free(
    ledger: port.Ledger, behind: port.Ledger, proxy: PostgresProxy
) -> None:
    mine, other = port.Claim(uuid4(), 1), port.Claim(uuid4(), 1)
    await ledger.claim([mine], agent_id="ada", lease=ENDED)
    async with behind.transaction(mine, agent_id="ada", time_left=60) as transaction:
        await transaction.execute("CREATE TABLE effects (note text)")
        proxy.strike(COMMIT, When.BEFORE, How.SILENT)
        committing = asyncio.create_task(transaction.complete(done(mine)))
        assert await asyncio.to_thread(proxy.wait_struck)
        async with asyncio.timeout(WAIT):
            answers = await ledger.claim([mine, other], agent_id="bob", lease=LEASE)
        assert [answer.status for answer in answers] == [port.ClaimStatus.GRANTED] * 2
        with pytest.raises(port.LedgerUnavailable):
            await committing


@pytest.mark.parametrize("how", How)
async def test_3_a_commit_whose_answer_is_lost_is_in_doubt_within_the_attempts_time(
    ledger: port.Ledger, behind: port.Ledger, proxy: PostgresProxy, how: How
) -> None:
    mine = port.Claim(uuid4(), 1)
    await ledger.claim([mine], agent_id="ada", lease=ENDED)
    async with asyncio.timeout(WAIT), behind.transaction(mine, agent_id="ada", time_left=2) as transaction:
        await transaction.execute("CREATE TABLE effects (note text)")
        proxy.strike(COMMIT, When.AFTER, how)
        with pytest.raises(port.LedgerUnavailable):
            await transaction.complete(done(mine))
    (answer,) = await behind.claim([mine], agent_id="ada", lease=ENDED)
    assert answer.completion == done(mine)


async def test_3_the_server_ends_the_transaction_of_an_agent_that_is_cut_off(
    ledger: port.Ledger, behind: port.Ledger, proxy: PostgresProxy, connection: "Connection"
) -> None:
    mine = port.Claim(uuid4(), 1)
    async with behind.transaction(mine, agent_id="ada", time_left=0.1) as transaction:
        await transaction.execute("CREATE TABLE effects (note text)")
        proxy.silence()
        async with asyncio.timeout(WAIT):  # CREATE TABLE waits for the other one of that name
            await connection.execute("CREATE TABLE effects (note text)")


async def test_3_connections_that_were_idle_when_they_went_silent_cost_no_transaction(
    behind: port.Ledger, proxy: PostgresProxy
) -> None:
    async with behind.transaction(port.Claim(uuid4(), 1), agent_id="ada", time_left=60) as transaction:
        await transaction.execute("SELECT 1")
    proxy.silence()
    async with (
        asyncio.timeout(WAIT),
        behind.transaction(port.Claim(uuid4(), 1), agent_id="ada", time_left=60) as transaction,
    ):
        assert await transaction.execute("SELECT 1 AS one") == [{"one": 1}]


async def test_13_a_transaction_that_is_rolled_back_is_no_error(
    ledger: port.Ledger, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        async with ledger.transaction(port.Claim(uuid4(), 1), agent_id="ada") as transaction:
            await transaction.execute("CREATE TABLE effects (note text)")
    assert caplog.records == []


async def test_a_session_is_clean_for_the_next_handler(ledger: port.Ledger) -> None:
    mine = port.Claim(uuid4(), 1)
    await ledger.claim([mine], agent_id="ada", lease=ENDED)
    async with ledger.transaction(mine, agent_id="ada") as transaction:
        await transaction.execute("SET search_path = nowhere, public")
        await transaction.execute("SELECT pg_advisory_lock(7)")
        assert await transaction.complete(done(mine))
    async with ledger.transaction(mine, agent_id="ada") as transaction:
        ((path,),) = [row.values() for row in await transaction.execute("SHOW search_path")]
        locks = await transaction.execute("SELECT 1 FROM pg_locks WHERE locktype = 'advisory'")
    assert "nowhere" not in path
    assert locks == []


async def test_7_a_database_that_is_read_only_does_not_answer_a_ping(
    ledger: port.Ledger, postgres_url: str, connection: "Connection"
) -> None:
    await ledger.ping()
    names = await connection.fetch("SELECT DISTINCT application_name FROM pg_stat_activity")
    assert "warrener-agent" in {row["application_name"] for row in names}
    name = await connection.fetchval("SELECT current_database()")
    await connection.execute(f'ALTER DATABASE "{name}" SET default_transaction_read_only = on')
    again = open_ledger(postgres_url)
    with pytest.raises(port.LedgerUnavailable, match="is a standby, or read-only; name the primary"):
        await again.start()
    again = open_ledger(f"{postgres_url}?target_session_attrs=any")
    await again.start()
    with pytest.raises(port.LedgerUnavailable, match="read-only"):
        await again.ping()
    with pytest.raises(port.LedgerUnavailable):
        await again.claim([port.Claim(uuid4(), 1)], agent_id="ada", lease=ENDED)
    await again.close()


# -- a database that is killed while a handler works --------------------------------------------------------


class Writer:
    def __init__(self, *, write_again: bool) -> None:
        self.agent = Agent()
        self.written = asyncio.Event()
        self.go_on = asyncio.Event()

        @self.agent.job("write", guarantee="transactional")
        async def write(job: JobContext) -> int:
            transaction = await job.transaction()
            await transaction.execute("CREATE TABLE IF NOT EXISTS effects (note TEXT)")
            await transaction.execute("INSERT INTO effects VALUES (:note)", {"note": f"by {job.attempt}"})
            self.written.set()
            await self.go_on.wait()
            if write_again:
                await transaction.execute("INSERT INTO effects VALUES ('more')")
            return job.attempt


@pytest.mark.parametrize("write_again", [False, True], ids=["at the commit", "between two statements"])
async def test_g4_a_database_killed_in_the_middle_of_a_transaction_costs_an_attempt_and_doubles_nothing(
    stage: Stage, own_postgres: PostgresServer, *, write_again: bool
) -> None:
    stage.ledger_url = own_postgres.url
    writer = Writer(write_again=write_again)
    await stage.enter(writer.agent)
    job = await stage.dispatch("write")
    async with asyncio.timeout(WAIT):
        await writer.written.wait()
    await asyncio.to_thread(own_postgres.kill)
    writer.go_on.set()
    await asyncio.to_thread(own_postgres.start)
    # A commit that cannot be is given back; a statement that cannot be is the handler's error, tried again.
    if write_again:
        assert (await stage.wait_for_event(AttemptFailed, job)).data.error.retryable
    else:
        await stage.wait_for_event(AttemptReleased, job)
    assert not stage.of(AttemptSucceeded)
    await stage.dispatch("write", job_id=job, attempt=2)  # as the supervisor does then
    assert (await stage.wait_for_event(AttemptSucceeded, job)).data.result == 2
    assert sorted(await stage.effects()) == (["by 2", "more"] if write_again else ["by 2"])
