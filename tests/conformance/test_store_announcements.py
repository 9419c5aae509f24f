"""Agents, job types, breakers and duties, alike in every store."""

import asyncio
from dataclasses import replace

import pytest
from tests.store_rows import (
    NOON,
    after,
    agent_row,
    breaker_row,
    changed,
    job_type_row,
    queued_job,
    succeeded,
    waiting_job,
)

from warrener_contracts.circuit_breaker import BreakerPolicy, BreakerState
from warrener_contracts.policy import Guarantee, JobPolicy
from warrener_contracts.state_machine import JobState
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
        seen = LOAD, replace(LOAD, queue="new", announced_at=after(1)), replace(LOAD, announced_at=after(-1))
        for one in seen:
            await store.put_job_types([one])
        assert await store.job_types() == {LOAD.name: seen[1]}

    async def test_of_one_user_the_agent_that_started_last_counts_and_not_the_last_to_speak(
        self, store: StateStore
    ) -> None:
        newer = replace(LOAD, broker_user="loader", started_at=after(9), queue="new")
        older = replace(newer, started_at=after(1), announced_at=after(20), queue="old")
        silent = replace(newer, started_at=None, announced_at=after(30), queue="previous release")
        for one in (newer, older, newer):
            await store.put_job_types([one])
            assert await store.job_types() == {LOAD.name: newer}
        await store.put_job_types([silent])
        assert await store.job_types() == {LOAD.name: silent}, "where one does not say, the last to speak"

    @pytest.mark.parametrize("user", ["stranger", None])
    async def test_a_job_type_belongs_to_its_user_until_another_takes_it_over(
        self, store: StateStore, user: str | None
    ) -> None:
        owned = replace(LOAD, broker_user="loader", started_at=after(1))
        foreign = replace(
            LOAD, broker_user=user, started_at=after(90), announced_at=after(90), arguments_schema={"not": {}}
        )
        await store.put_job_types([replace(LOAD, announced_at=after(-1))])
        for one in (owned, foreign):
            await store.put_job_types([one])
        assert await store.job_types() == {LOAD.name: owned}, "it had no user, and has one now"
        await asyncio.gather(*(store.put_job_types([foreign]) for _ in range(3)))
        assert await store.job_types() == {LOAD.name: owned}
        await store.put_job_types([foreign], takes_over=True)
        assert await store.job_types() == {LOAD.name: foreign}

    async def test_one_that_took_over_is_not_replaced_by_an_older_one_of_its_own(
        self, store: StateStore
    ) -> None:
        newer = replace(LOAD, broker_user="loader", started_at=after(9), queue="new")
        older = replace(newer, started_at=after(1), announced_at=after(20), queue="old")
        for one in (newer, older):
            await store.put_job_types([one], takes_over=True)
        assert await store.job_types() == {LOAD.name: newer}


class TestAgents:
    async def test_the_last_seen_comes_first(self, store: StateStore) -> None:
        later = replace(AGENT, agent_id="a0", draining=True, last_seen_at=after(5))
        await store.put_agents([AGENT, later])
        assert await store.agents() == [later, AGENT]
        assert await store.agents(after(5)) == [later], "only those that were seen since"

    async def test_an_older_word_does_not_replace_a_newer_one(self, store: StateStore) -> None:
        newer, older = replace(AGENT, running=3, last_seen_at=after(5)), replace(AGENT, last_seen_at=after(1))
        seen = AGENT, newer, older
        alone = [replace(each, agent_id="one by one") for each in seen]
        for batch in (seen, *([each] for each in alone)):
            await store.put_agents(batch)
        assert {each.agent_id: each for each in await store.agents()} == {
            AGENT.agent_id: newer,
            "one by one": alone[1],
        }

    async def test_closing_twice_and_starting_again(self, store: StateStore) -> None:
        await store.put_agents([AGENT])
        await store.close()
        await store.close()
        await store.start()
        assert await store.agents() == [AGENT]


BILLING = breaker_row(
    "dependency:billing-api",
    manual=True,
    until=after(30),
    times_opened=2,
    probes_succeeded=1,
    reason="being upgraded\x00",
    job_types=("flights.load", "flights.bill"),
    policy=BreakerPolicy(failure_rate=0.3, half_open_calls=3),
)


async def test_breakers_come_back_as_they_went(store: StateStore) -> None:
    mail = replace(BILLING, name="job:mail.send", until=None, manual=False, job_types=())
    assert not await store.put_breaker(replace(BILLING, version=2)), "a version follows the one before"
    assert await store.breakers() == []
    assert await store.put_breaker(mail)
    assert await store.put_breaker(BILLING)
    assert not await store.put_breaker(replace(BILLING, version=3))
    assert await store.breakers() == [BILLING, mail]


async def test_of_several_supervisors_one_changes_a_breaker(store: StateStore) -> None:
    put = await asyncio.gather(*(store.put_breaker(replace(BILLING, times_opened=n)) for n in range(5)))
    assert sum(put) == 1
    closed = replace(BILLING, version=2, state=BreakerState.CLOSED)
    put = await asyncio.gather(*(store.put_breaker(closed) for _ in range(5)))
    assert sum(put) == 1
    assert await store.breakers() == [closed]


async def test_what_was_put_off_is_woken_the_first_due_first(store: StateStore) -> None:
    held = [waiting_job(due_at=after(-n), wake_at=after(600)) for n in (1, 3, 2)]
    await store.insert_jobs(held)
    assert await store.release_held_jobs(["flights.load"], NOON, after(60), 2) == 2
    woken = await store.claim_due([JobState.WAITING], NOON, after(10), 10)
    assert {row.job_id for row in woken} == {held[1].job_id, held[2].job_id}
    assert await store.release_held_jobs(["flights.load"], NOON, after(60), 10) == 1
    assert await store.release_held_jobs(["flights.load"], NOON, after(60), 10) == 0


async def test_jobs_of_a_paused_queue_stay_put_off(store: StateStore) -> None:
    held = [waiting_job(due_at=NOON, wake_at=after(600), queue=queue) for queue in ("loads", "mails")]
    await store.insert_jobs(held)
    assert (
        await store.release_held_jobs(["flights.load"], NOON, after(60), 10, paused=["loads", "bills"]) == 1
    )
    woken = await store.claim_due([JobState.WAITING], NOON, after(10), 10)
    assert [row.queue for row in woken] == ["mails"]


async def test_only_what_is_held_back_is_woken(store: StateStore) -> None:
    another_type = waiting_job(job_type="mail.send", due_at=NOON, wake_at=after(600))
    not_due = waiting_job(due_at=after(5), wake_at=after(5))
    queued = queued_job(wake_at=after(600))
    over = queued_job(wake_at=after(600))
    in_delay_queue = waiting_job(due_at=NOON, wake_at=after(15))
    await store.insert_jobs([another_type, not_due, queued, over, in_delay_queue])
    await store.save_jobs([succeeded(over)])
    assert await store.release_held_jobs(["flights.load"], NOON, after(60), 10) == 0
    assert await store.release_held_jobs([], NOON, after(60), 10) == 0


async def test_a_retry_that_was_put_off_is_woken_and_a_save_decided_before_is_not_applied(
    store: StateStore,
) -> None:
    row = queued_job()
    await store.insert_jobs([row])
    save = changed(row, state=JobState.RETRYING, attempt=2, due_at=NOON, wake_at=after(600))
    await store.save_jobs([save])
    assert await store.release_held_jobs(["flights.load"], NOON, after(60), 10) == 1
    assert await store.save_jobs([changed(save.row, failures=1)]) == set()


async def test_a_duty_has_one_holder_at_a_time_and_a_claim_ends(store: StateStore) -> None:
    assert await store.duties(after(0)) == {}
    assert await store.claim_duty("pruning", "ada", after(0), after(10))
    assert not await store.claim_duty("pruning", "bob", after(5), after(15))
    assert await store.claim_duty("metrics", "bob", after(0), after(20)), "another duty"
    assert not await store.claim_duty("metrics", "ada", after(1), after(11))
    assert await store.duties(after(5)) == {"metrics": "bob", "pruning": "ada"}
    assert await store.duties(after(10)) == {"metrics": "bob"}, "a claim ends at its time"
    assert await store.claim_duty("pruning", "ada", after(8), after(18))
    assert not await store.claim_duty("pruning", "bob", after(15), after(25))
    assert await store.claim_duty("pruning", "bob", after(18), after(28))
    assert not await store.claim_duty("pruning", "ada", after(20), after(30))


async def test_of_several_holders_one_gets_the_duty(store: StateStore) -> None:
    claims = (store.claim_duty("metrics", f"holder {n}", after(0), after(10)) for n in range(5))
    assert sum(await asyncio.gather(*claims)) == 1
