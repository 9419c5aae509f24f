"""The stories of job types, agents and what is buried, alike in every state store."""

from dataclasses import replace

import pytest
from tests.store_rows import after, agent_row, job_type_row

from warrener_contracts.policy import Guarantee, JobPolicy
from warrener_store import StateStore

LOAD = job_type_row(
    arguments_schema={"type": "object", "properties": {"path": {"type": "string"}}},
    guarantee=Guarantee.TRANSACTIONAL,
    policy=JobPolicy(max_attempts=2),
    description="Loads one day\x00.",
)
AGENT = agent_row(
    queues=("default", "slow"),
    job_types=("flights.list", "flights.load"),
    free_slots={"default": 3, "slow": 4},
    trouble="the ledger does not answer\x00",
)


class TestJobTypes:
    async def test_they_come_back_as_they_went(self, store: StateStore) -> None:
        other = replace(LOAD, name="flights.list", result_schema={"type": "integer"})
        await store.put_job_types([LOAD, other])
        assert await store.job_types() == {LOAD.name: LOAD, other.name: other}
        assert await store.job_types(["flights.list", "unknown"]) == {other.name: other}
        assert await store.job_types([]) == {}

    async def test_a_newer_announcement_replaces_and_an_older_one_does_not(self, store: StateStore) -> None:
        newer, older = (
            replace(LOAD, queue="new", announced_at=after(1)),
            replace(LOAD, announced_at=after(-1)),
        )
        await store.put_job_types([LOAD])
        await store.put_job_types([newer])
        await store.put_job_types([older])
        assert await store.job_types() == {LOAD.name: newer}

    async def test_of_two_announcements_in_one_batch_the_newest_counts(self, store: StateStore) -> None:
        newer = replace(LOAD, queue="new", announced_at=after(1))
        await store.put_job_types([newer, LOAD])
        assert await store.job_types() == {LOAD.name: newer}


class TestAgents:
    async def test_the_last_seen_comes_first(self, store: StateStore) -> None:
        later = replace(AGENT, agent_id="a0", draining=True, last_seen_at=after(5))
        await store.put_agents([AGENT, later])
        assert await store.agents() == [later, AGENT]
        assert await store.agents(after(5)) == [later], "only those that were seen since"

    @pytest.mark.parametrize("together", [True, False], ids=["in one batch", "one by one"])
    async def test_an_older_word_does_not_replace_a_newer_one(
        self, store: StateStore, *, together: bool
    ) -> None:
        newer, older = replace(AGENT, running=3, last_seen_at=after(5)), replace(AGENT, last_seen_at=after(1))
        for batch in [[AGENT, newer, older]] if together else [[AGENT], [newer], [older]]:
            await store.put_agents(batch)
        assert await store.agents() == [newer]


class TestLifecycle:
    async def test_closing_twice_and_starting_again(self, store: StateStore) -> None:
        await store.put_agents([AGENT])
        await store.close()
        await store.close()
        await store.start()
        assert await store.agents() == [AGENT]
