"""What every store says of the attempts that run."""

import asyncio
from collections import Counter
from datetime import datetime
from uuid import uuid4

from warrener_contracts.state_machine import JobState
from warrener_store.agents.rows import AgentRow
from warrener_store.jobs.views import RunningAttemptRow
from warrener_store.store import StateStore
from warrener_store.testing import NOON, after, queued_job, running_job, succeeded


def agent(agent_id: str, seen: datetime) -> AgentRow:
    return AgentRow(
        agent_id=agent_id,
        host="here",
        pid=1,
        queues=("default",),
        slots=4,
        running=1,
        draining=False,
        started_at=NOON,
        last_seen_at=seen,
    )


class TestOwners:
    async def test_each_owner_is_named_once_with_its_last_heartbeat(self, store: StateStore) -> None:
        await store.put_agents([agent("a1", after(5)), agent("a3", after(7))])
        rows = [running_job(agent_id=name) for name in ("a1", "a1", "a2%", "a1", "a2%")]
        await store.insert_jobs([*rows, queued_job(agent_id="a3")])
        assert await store.running_owners() == {"a1": after(5), "a2%": None}

    async def test_where_nothing_runs_there_is_no_owner(self, store: StateStore) -> None:
        row = running_job()
        assert await store.running_owners() == {}
        await store.insert_jobs([row])
        await store.save_jobs([succeeded(row)])
        assert await store.running_owners() == {}


class TestRunning:
    async def test_what_agents_run(self, store: StateStore) -> None:
        one, other = running_job(), running_job(agent_id="a2", attempt=3, cancel_reason="wrong file")
        await store.insert_jobs([one, other, queued_job(agent_id="a1"), running_job(agent_id="a3")])
        ran = {
            RunningAttemptRow(one.job_id, 1, "a1", after(30), cancelled=False),
            RunningAttemptRow(other.job_id, 3, "a2", after(30), cancelled=True),
        }
        found = await store.running_attempts(owners=["a1", "a2", "nobody"])
        assert found == {one.job_id: one for one in ran}
        assert await store.running_attempts() == {}
        assert await store.running_attempts(owners=["a2"], job_ids=[one.job_id, other.job_id]) == found

    async def test_which_of_these_run(self, store: StateStore) -> None:
        runs, waits, over = running_job(), queued_job(), running_job()
        await store.insert_jobs([runs, waits, over])
        await store.save_jobs([succeeded(over)])
        ids = [runs.job_id, waits.job_id, over.job_id, uuid4()]
        among = await store.running_attempts(job_ids=ids)
        assert among == {runs.job_id: RunningAttemptRow(runs.job_id, 1, "a1", after(30), cancelled=False)}


class TestLosses:
    async def test_a_loss_is_claimed_once_and_again_when_the_claim_is_over(self, store: StateStore) -> None:
        row = running_job()
        await store.insert_jobs([row])
        assert await store.claim_lost([row.job_id], after(29), after(39)) == []
        (claimed,) = await store.claim_lost([row.job_id], after(30), after(40))
        assert (claimed.version, claimed.lease_until, claimed.wake_at) == (2, after(40), row.wake_at)
        assert (await store.jobs_by_id([row.job_id]))[row.job_id] == claimed
        assert await store.claim_lost([row.job_id], after(39), after(49)) == []
        assert len(await store.claim_lost([row.job_id], after(40), after(50))) == 1

    async def test_only_what_runs_can_be_lost(self, store: StateStore) -> None:
        rows = [queued_job(), running_job(state=JobState.RETRYING, due_at=NOON)]
        await store.insert_jobs(rows)
        ids = [*(row.job_id for row in rows), uuid4()]
        assert await store.claim_lost(ids, after(100), after(110)) == []
        assert await store.claim_lost([], after(100), after(110)) == []

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
