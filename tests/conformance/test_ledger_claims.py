"""Claims, leases and failures, in SQLite and in PostgreSQL alike (guarantee G3)."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import pytest
from tests.conformance.ledger_rig import (
    ENDED,
    LEASE,
    NOW,
    claim,
    done,
    end_leases,
    end_of_lease,
    failed,
    job,
    recorded,
)

from warrener_agent.ledger import connected_ledger
from warrener_agent.ledger.port import HOLDER_MARK, ChildJobRequest, ClaimResult, ClaimStatus, Ledger

CANCELLED, COMPLETED, FAILED = ClaimStatus.CANCELLED, ClaimStatus.COMPLETED, ClaimStatus.FAILED
GRANTED, HELD, SUPERSEDED = ClaimStatus.GRANTED, ClaimStatus.HELD, ClaimStatus.SUPERSEDED


async def test_g3_a_claim_is_its_holders_until_the_lease_has_run_out(ledger: Ledger, other: Ledger) -> None:
    mine = job()
    assert await claim(ledger, mine) == [GRANTED]
    assert await claim(ledger, mine) == [GRANTED]
    assert await claim(other, mine, by="bob") == [HELD]
    assert await claim(ledger, mine, lease=ENDED) == [GRANTED]
    assert await claim(other, mine, by="bob") == [GRANTED]
    assert await claim(ledger, mine) == [HELD]
    assert await ledger.complete([done(mine)], agent_id="ada") == set()


async def test_g3_a_higher_attempt_waits_until_the_lease_of_the_lower_one_has_ended(
    ledger: Ledger, other: Ledger, ledger_url: str
) -> None:
    first = job()
    second, third = first._replace(attempt=2), first._replace(attempt=3)
    await claim(ledger, first)
    assert await claim(other, second, by="bob") == [HELD]
    assert await claim(other, third, by="bob") == [HELD]
    assert (await ledger.renew([first], agent_id="ada", lease=LEASE)).renewed == set(), "it is to stop"
    assert await claim(ledger, first) == [HELD], "nor is it granted again"
    await end_leases(ledger_url)
    assert await claim(other, second, by="bob") == [HELD], "a third waits"
    assert await claim(other, third, by="bob") == [GRANTED]
    assert await claim(ledger, first, second) == [SUPERSEDED, SUPERSEDED]
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
    assert await claim(other, *following, by="bob") == [GRANTED, GRANTED]
    assert await claim(ledger, own._replace(attempt=2)) == [GRANTED], "its agent knows what it runs"


@pytest.mark.parametrize("ends", ["released", "failed", "completed"])
async def test_while_a_higher_attempt_waits_the_lower_one_may_end(
    ledger: Ledger, other: Ledger, ends: str
) -> None:
    first = job()
    second = first._replace(attempt=2)
    await claim(ledger, first)
    assert await claim(other, second, by="bob") == [HELD]
    if ends == "released":
        await ledger.release([first], agent_id="ada")
        assert await claim(other, first, by="bob") == [HELD], "the lower one is not begun any more"
    elif ends == "failed":
        assert await ledger.fail([failed(first)], agent_id="ada") == {first.job_id}
    else:
        assert await ledger.complete([done(first, "late")], agent_id="ada") == {first.job_id}
        assert (await recorded(other, second)).result == "late"
        return
    assert await claim(other, second, by="bob") == [GRANTED]
    assert (await other.renew([second], agent_id="bob", lease=LEASE)).renewed == {first.job_id}


async def test_a_completed_job_answers_every_later_claim_with_what_was_recorded(ledger: Ledger) -> None:
    first = job()
    await claim(ledger, first)
    child_job = ChildJobRequest("next", '{"id":"ünïcode"}'.encode())
    completion = done(first, {"rows": 3, "odd": [None, 1.5, "é"]}, child_job)
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
    assert answers == [CANCELLED, CANCELLED, CANCELLED, COMPLETED]
    assert await ledger.complete([done(running)], agent_id="ada") == set()
    assert (await ledger.renew([running], agent_id="ada", lease=LEASE)).renewed == set()


async def test_a_batch_is_answered_in_order(ledger: Ledger, other: Ledger) -> None:
    held, finished, fresh, twice = job(), job(), job(), job()
    await claim(other, held, finished, by="bob")
    await other.complete([done(finished)], agent_id="bob")
    batch = [twice, held, fresh, finished, twice._replace(attempt=2), fresh]
    assert await claim(ledger, *batch) == [SUPERSEDED, HELD, GRANTED, COMPLETED, GRANTED, GRANTED]


async def test_a_batch_may_be_large_or_empty(ledger: Ledger) -> None:
    assert await claim(ledger) == []
    many = [job() for _ in range(500)]
    assert set(await claim(ledger, *many)) == {GRANTED}
    assert await ledger.complete([done(one) for one in many], agent_id="ada") == {one.job_id for one in many}
    assert await ledger.complete([], agent_id="ada") == set()


async def test_g3_of_many_who_claim_at_once_one_is_granted(ledger_url: str) -> None:
    mine = [job() for _ in range(20)]

    async def compete(name: str) -> list[ClaimStatus]:
        async with connected_ledger(ledger_url) as ledger:
            return await claim(ledger, *mine, by=name)

    answers = await asyncio.gather(*(compete(f"agent-{number}") for number in range(5)))
    for of_one_job in zip(*answers, strict=True):
        assert sorted(of_one_job) == [GRANTED, *[HELD] * 4]


async def test_renewing_reports_what_is_lost(ledger: Ledger, other: Ledger) -> None:
    held, overtaken, released = job(), job(), job()
    await claim(ledger, held, lease=ENDED)
    await claim(ledger, overtaken, released)
    assert await claim(other, overtaken._replace(attempt=2), by="bob") == [HELD]
    await ledger.release([released], agent_id="ada")
    renewal = await ledger.renew([held, overtaken, released], agent_id="ada", lease=LEASE)
    assert renewal.renewed == {held.job_id}
    assert await claim(other, held, by="bob") == [HELD]


async def test_g3_a_claim_that_is_awaited_can_be_renewed_by_its_holder_and_the_later_attempt_waits(
    ledger: Ledger, other: Ledger, ledger_url: str
) -> None:
    awaited, cancelled = job(), job()
    later = awaited._replace(attempt=2)
    await claim(ledger, awaited, cancelled)
    assert await claim(other, later, by="bob") == [HELD]
    await ledger.cancel([cancelled.job_id], now=NOW)
    await end_leases(ledger_url)
    for agent, held in (("bob", set[UUID]()), ("ada", {awaited.job_id})):
        renewal = await ledger.renew([awaited, cancelled], agent_id=agent, lease=LEASE, even_awaited=True)
        assert renewal.renewed == held
    assert await claim(other, later, by="bob") == [HELD]
    assert await ledger.complete([done(awaited)], agent_id="ada") == {awaited.job_id}
    assert await claim(other, later, by="bob") == [COMPLETED]


async def test_a_lease_counts_from_the_time_of_the_database(ledger: Ledger, ledger_url: str) -> None:
    """No time of an agent's own is in a claim or a renewal, so its clock decides nothing."""
    mine = job()
    for lease in (LEASE, timedelta(hours=1)):
        begin = await ledger.time()
        assert await claim(ledger, mine, lease=lease) == [GRANTED]
        assert begin + lease <= await end_of_lease(ledger_url) <= await ledger.time() + lease
    begin = await ledger.time()
    await ledger.renew([mine], agent_id="ada", lease=LEASE)
    assert begin + LEASE <= await end_of_lease(ledger_url) <= await ledger.time() + LEASE


async def test_a_released_attempt_can_be_claimed_at_once_and_only_by_its_holder_be_released(
    ledger: Ledger, other: Ledger
) -> None:
    mine = job()
    await claim(ledger, mine)
    await other.release([mine], agent_id="bob")
    assert await claim(other, mine, by="bob") == [HELD]
    await ledger.release([mine], agent_id="ada")
    assert await claim(other, mine, by="bob") == [GRANTED]


async def test_a_failed_attempt_is_reported_again_and_granted_to_nobody(
    ledger: Ledger, other: Ledger
) -> None:
    mine = job()
    await claim(ledger, mine)
    failure = failed(mine, {"error": {"message": "n\0 good, \ud800"}, "retry_after_seconds": 1.5})
    assert await ledger.fail([failure], agent_id="ada") == {mine.job_id}
    for where, agent in ((ledger, "ada"), (other, "bob")):
        (answer,) = await where.claim([mine], agent_id=agent, lease=LEASE)
        assert answer == ClaimResult(FAILED, failure=failure)
    assert await ledger.fail([failure], agent_id="ada") == set(), "it is nobody's any more"
    assert (await ledger.renew([mine], agent_id="ada", lease=LEASE)).renewed == set()
    assert await ledger.complete([done(mine)], agent_id="ada") == set()


async def test_a_recorded_failure_outlives_a_cancel_and_later_attempts_are_cancelled(
    ledger: Ledger, other: Ledger
) -> None:
    """What it holds is reported to the supervisor: the suspension of a workflow, and with it its calls."""
    mine = job()
    await claim(ledger, mine)
    await ledger.fail([failed(mine)], agent_id="ada")
    await ledger.cancel([mine.job_id], now=NOW)
    assert await claim(other, mine, by="bob") == [FAILED]
    assert await claim(other, mine._replace(attempt=2), by="bob") == [CANCELLED]


async def test_a_later_attempt_takes_the_place_of_a_failed_one(ledger: Ledger, other: Ledger) -> None:
    first = job()
    second = first._replace(attempt=2)
    await claim(ledger, first)
    await ledger.fail([failed(first)], agent_id="ada")
    assert await claim(other, second, by="bob") == [GRANTED]
    assert await claim(ledger, first, second) == [SUPERSEDED, HELD]
    assert await other.fail([failed(second, "again")], agent_id="bob") == {first.job_id}
    assert await claim(ledger, first, second) == [SUPERSEDED, FAILED]
    third = first._replace(attempt=3)
    assert await claim(ledger, third) == [GRANTED]
    assert await ledger.complete([done(third, "at last")], agent_id="ada") == {first.job_id}
    assert (await recorded(other, second)).result == "at last"


async def test_g3_a_failure_counts_from_the_holder_alone(ledger: Ledger, other: Ledger) -> None:
    running, overtaken, released, cancelled, completed = job(), job(), job(), job(), job()
    await claim(ledger, running, released, cancelled, completed)
    await claim(ledger, overtaken, lease=ENDED)
    assert await claim(other, overtaken._replace(attempt=2), by="bob") == [GRANTED]
    await ledger.release([released], agent_id="ada")
    await ledger.cancel([cancelled.job_id], now=NOW)
    await ledger.complete([done(completed)], agent_id="ada")
    lost = [failed(one) for one in (overtaken, released, cancelled, completed)]
    assert await other.fail([failed(running)], agent_id="bob") == set()
    assert await ledger.fail([failed(running), *lost], agent_id="ada") == {running.job_id}
    answers = await claim(ledger, running, overtaken, released, cancelled, completed)
    assert answers == [FAILED, SUPERSEDED, GRANTED, CANCELLED, COMPLETED]
    assert await ledger.fail([], agent_id="ada") == set()


async def test_g2_an_attempt_of_a_process_that_has_died_fails_in_its_name(
    ledger: Ledger, other: Ledger
) -> None:
    """Its lease has ended, or its agent was started again; nobody is granted the attempt from then on."""
    alive, ended, released, completed = jobs = [job() for _ in range(4)]
    await ledger.claim(jobs, agent_id="ada/1", lease=LEASE)
    await ledger.claim([ended], agent_id="ada/1", lease=ENDED)
    own = job()
    await other.claim([own], agent_id="bob/1", lease=LEASE)
    await ledger.release([released], agent_id="ada/1")
    await ledger.complete([done(completed)], agent_id="ada/1")

    lost = [replace(failed(one), details=f"agent {HOLDER_MARK} is gone") for one in (*jobs, own)]
    assert await other.fail_abandoned(lost, agent_id="bob/2") == {ended.job_id, own.job_id}
    for one, holder in ((ended, "ada"), (own, "bob")):
        (answer,) = await other.claim([one], agent_id="bob/2", lease=LEASE)
        assert answer.status is FAILED
        assert answer.failure is not None
        assert answer.failure.details == f"agent {holder} is gone"
    assert await other.fail_abandoned(lost, agent_id="bob/2") == set(), "once"
    answers = await claim(other, alive, released, completed, by="bob/2")
    assert answers == [HELD, GRANTED, COMPLETED]
    assert await other.fail_abandoned(lost, agent_id="bob/2") == set(), "its own claims are not abandoned"
    assert await claim(other, own._replace(attempt=2), by="bob/2") == [GRANTED]
