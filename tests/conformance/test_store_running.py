"""What every store says of the attempts that run."""

import asyncio
from collections import Counter

from tests.store_rows import after, agent_row, queued_job, running_job, succeeded

from warrener_store.store import StateStore


class TestOwners:
    async def test_each_owner_is_named_once_with_its_last_heartbeat(self, store: StateStore) -> None:
        await store.put_agents(
            [agent_row("a1", last_seen_at=after(5)), agent_row("a3", last_seen_at=after(7))]
        )
        rows = [running_job(agent_id=name) for name in ("a1", "a1", "a2%", "a1", "a2%")]
        await store.insert_jobs([*rows, queued_job(agent_id="a3")])
        assert await store.running_owners() == {"a1": after(5), "a2%": None}


class TestLosses:
    async def test_no_two_callers_get_the_same_loss(self, store: StateStore) -> None:
        rows = [running_job() for _ in range(60)]
        await store.insert_jobs(rows)
        ids = [row.job_id for row in rows]
        claims = await asyncio.gather(
            *(store.claim_lost(ids[::step], after(40), after(50)) for step in (1, -1) * 4)
        )
        counts = Counter(row.job_id for claimed in claims for row in claimed)
        assert set(counts.values()) <= {1}

    async def test_claims_and_saves_of_the_same_jobs_all_end(self, store: StateStore) -> None:
        rows = [running_job() for _ in range(60)]
        await store.insert_jobs(rows)
        ids = [row.job_id for row in rows]
        claims = [store.claim_lost(ids[::step], after(40), after(50)) for step in (1, -1) * 5]
        saves = [store.save_jobs([succeeded(row) for row in rows[n : n + 30]]) for n in (0, 15, 30)]
        await asyncio.gather(*claims, *saves)
        assert sum(count.jobs for count in await store.count_jobs()) == len(rows)
