"""The ledger's statements find rows by key, whatever the table was like when they were planned."""

import asyncio
import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from warrener_agent.ledger import connected_ledger, open_ledger
from warrener_agent.ledger.port import Claim, Completion, Ledger
from warrener_agent.ledger.statements import ledger_statements

if TYPE_CHECKING:
    from services.agent.tests.conftest import Connection

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
LEASE = timedelta(seconds=30)
sql = ledger_statements("postgres")
BATCH = 100
MANY = 100_000

NEVER_ANALYZED = "ALTER TABLE warrener_ledger SET (autovacuum_enabled = false)"
GROW = f"""
INSERT INTO warrener_ledger (job_id, attempt, agent_id, lease_until)
SELECT gen_random_uuid(), 1, 'ada', now() FROM generate_series(1, {MANY})
"""
AGE = "UPDATE warrener_ledger SET claimed_at = now() - interval '8 days' WHERE agent_id IS NULL"
ROWS_READ = """
SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_user_tables WHERE relname = 'warrener_ledger'
"""
OTHERS = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()
"""


async def every_statement(ledger: Ledger) -> None:
    claims = [Claim(uuid4(), 1) for _ in range(BATCH)]
    done = [Completion(one.job_id, 1, "null", (), NOW, NOW) for one in claims]
    await ledger.claim(claims, agent_id="ada", lease=LEASE)
    await ledger.claim(claims, agent_id="bob", lease=LEASE)  # refused, so it looks at the rows
    assert len((await ledger.renew(claims, agent_id="ada", lease=LEASE)).renewed) == BATCH
    await ledger.cancel([uuid4()], now=NOW)
    await ledger.release(claims[:10], agent_id="ada")
    assert len(await ledger.complete(done[10:-1], agent_id="ada")) == BATCH - 11
    async with ledger.transaction(claims[-1], agent_id="ada") as transaction:
        await transaction.execute("SELECT 1")
        assert await transaction.complete(done[-1])


async def test_a_plan_made_while_the_table_was_small_does_not_read_it_all_when_it_is_large(
    postgres_url: str, connection: "Connection"
) -> None:
    ledger = open_ledger(postgres_url)
    await ledger.start()
    await connection.execute(NEVER_ANALYZED)
    for _ in range(8):  # PostgreSQL keeps a general plan from the sixth time on
        await every_statement(ledger)
    await connection.execute(GROW)
    await every_statement(ledger)
    await ledger.close()
    async with asyncio.timeout(60):
        while await connection.fetchval(OTHERS):
            pass  # what a connection has read is counted when it is gone
    assert await connection.fetchval(ROWS_READ) < 100 * BATCH


async def test_the_first_batch_of_an_empty_ledger_compares_no_row_with_every_claim(
    postgres_url: str, connection: "Connection", subtests: pytest.Subtests
) -> None:
    async with connected_ledger(postgres_url):
        pass
    await connection.execute(NEVER_ANALYZED)
    await connection.execute("SET enable_seqscan = off")
    ids, ones = [uuid4() for _ in range(BATCH)], [1] * BATCH
    await connection.fetch(sql["claim"], ids, ones, "ada", LEASE)
    texts, times = ["1"] * BATCH, [NOW] * BATCH
    for name, statement, values in (
        ("renew", sql["renew"], (ids, ones, "ada", LEASE)),
        ("complete", sql["complete"], (ids, ones, texts, texts, times, times, "ada")),
        ("fail", sql["fail"], (ids, ones, texts, times, "ada")),
        ("release", sql["release"], (ids, ones, "ada")),
    ):
        with subtests.test(name):
            rows = await connection.fetch(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}", *values)
            assert compared_for_nothing(json.loads(rows[0][0])[0]["Plan"]) == 0, rows[0][0]


async def test_old_rows_are_found_by_the_index_of_claims_beside_100_000_live_ones(
    postgres_url: str, connection: "Connection"
) -> None:
    ledger = open_ledger(postgres_url)
    await ledger.start()
    await connection.execute(NEVER_ANALYZED)
    await connection.execute(GROW)
    await connection.execute(GROW.replace(str(MANY), "200").replace("'ada', now()", "NULL, NULL"))
    await connection.execute(AGE)
    gone = await ledger.delete_old(datetime.now(UTC) - timedelta(days=7), limit=150)
    assert gone.rows == 200, "released without a lease by an earlier version; all of one moment"
    await ledger.close()
    await connection.execute("SET enable_seqscan = off")
    await connection.execute("SET plan_cache_mode = force_generic_plan")
    await connection.execute(f"PREPARE forget AS {sql['forget']}")
    rows = await connection.fetch("EXPLAIN EXECUTE forget (now(), NULL, 100)")
    plan = "\n".join(str(row[0]) for row in rows)
    assert "Index Scan using warrener_ledger_claimed" in plan, plan
    assert "Seq Scan on warrener_ledger" not in plan, plan


async def test_no_index_has_what_a_completion_writes(connection: "Connection", postgres_url: str) -> None:
    """So a completion stays on the page of its claim, and costs no entry in any."""
    async with connected_ledger(postgres_url):
        pass
    rows = await connection.fetch(
        "SELECT DISTINCT attname::text FROM pg_attribute JOIN pg_index ON attrelid = indexrelid "
        "WHERE indrelid = 'warrener_ledger'::regclass"
    )
    assert {str(row[0]) for row in rows} == {"job_id", "claimed_at"}


def compared_for_nothing(plan: dict[str, Any]) -> int:
    """How many pairs a plan tried that did not belong together."""
    here = int(plan.get("Rows Removed by Join Filter", 0)) * int(plan["Actual Loops"])
    return here + sum(compared_for_nothing(part) for part in plan.get("Plans", ()))
