"""The stories of job types, agents and what is buried, alike in every state store."""

from dataclasses import replace
from uuid import uuid4

import pytest

from warrener_contracts.events import ErrorInfo, ErrorKind
from warrener_contracts.policy import Guarantee, JobPolicy
from warrener_store import StateStore
from warrener_store.agents.rows import AgentRow, JobTypeRow
from warrener_store.dead_letters.rows import DeadLetterFilter
from warrener_store.parked.rows import ParkedMessage
from warrener_store.testing import NOON, after, died, running_job

LOAD = JobTypeRow(
    name="flights.load",
    queue="default",
    arguments_schema={"type": "object", "properties": {"path": {"type": "string"}}},
    result_schema=None,
    guarantee=Guarantee.TRANSACTIONAL,
    policy=JobPolicy(max_attempts=2),
    description="Loads one day\x00.",
    announced_by="a1",
    announced_at=NOON,
)
AGENT = AgentRow(
    agent_id="a1",
    host="here",
    pid=7,
    queues=("default", "slow"),
    slots=4,
    running=1,
    draining=False,
    started_at=NOON,
    last_seen_at=NOON,
    job_types=("flights.list", "flights.load"),
    free_slots={"default": 3, "slow": 4},
    trouble="the ledger does not answer\x00",
)
MESSAGE = ParkedMessage(
    parked_id="m1",
    queue="warrener.requests",
    reason="not_json",
    detail="line 1: no",
    content_type=None,
    body=bytes(range(256)),
    parked_at=NOON,
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


class TestBuried:
    async def test_a_parked_message_comes_back_byte_for_byte(self, store: StateStore) -> None:
        empty = replace(MESSAGE, parked_id="m2", body=b"", content_type="text/plain", parked_at=after(-1))
        await store.park([MESSAGE, empty])
        assert await store.parked() == [MESSAGE, empty]

    async def test_parking_again_changes_nothing(self, store: StateStore) -> None:
        await store.park([MESSAGE])
        await store.park([replace(MESSAGE, detail="again"), replace(MESSAGE, parked_id="m2"), MESSAGE])
        assert {message.parked_id: message.detail for message in await store.parked()} == {
            "m1": MESSAGE.detail,
            "m2": MESSAGE.detail,
        }

    async def test_the_newest_parked_come_first_up_to_the_limit(self, store: StateStore) -> None:
        messages = [replace(MESSAGE, parked_id=f"m{n}", parked_at=after(n)) for n in range(5)]
        await store.park(messages)
        assert await store.parked(limit=2) == [messages[4], messages[3]]

    async def test_dead_letters_the_newest_first(self, store: StateStore) -> None:
        jobs = [running_job() for _ in range(3)]
        await store.insert_jobs(jobs)
        error = ErrorInfo(kind=ErrorKind.CRASH, type="SIGSEGV", message="nul \x00", retryable=False)
        burials = [died(job, error) for job in jobs]
        dead_letters = [
            replace(burial.dead_letter, died_at=after(n))
            for n, burial in enumerate(burials)
            if burial.dead_letter is not None
        ]
        assert len(
            await store.save_jobs(
                [
                    replace(burial, dead_letter=dead_letter)
                    for burial, dead_letter in zip(burials, dead_letters, strict=True)
                ]
            )
        ) == len(jobs)
        assert (
            await store.dead_letter_store.list_dead_letters(DeadLetterFilter(states=())) == dead_letters[::-1]
        )
        assert (
            await store.dead_letter_store.list_dead_letters(DeadLetterFilter(states=(), limit=1))
            == dead_letters[2:]
        )

    async def test_a_job_without_attempts_has_none(self, store: StateStore) -> None:
        assert await store.attempts_of([uuid4()]) == []


class TestLifecycle:
    async def test_ping_answers(self, store: StateStore) -> None:
        await store.ping()

    async def test_closing_twice_and_starting_again(self, store: StateStore) -> None:
        await store.put_agents([AGENT])
        await store.close()
        await store.close()
        await store.start()
        assert await store.agents() == [AGENT]
