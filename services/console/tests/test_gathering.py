"""Facts as they are gathered from a store, without a broker."""

import json
import shutil
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID, uuid4

import asyncpg
import pytest
from services.console.tests.web.stored_jobs import ago, put_workflow
from tests import store_access
from tests.faults.full_disk import FULL_DISK
from tests.store_rows import agent_row, died, parked_message, queued_job, running_job, succeeded, waiting_job
from typer.testing import Result

from warrener.context import ResolvedEndpoints
from warrener.explanations import explain
from warrener.explanations.causes import Cause
from warrener.explanations.facts import SystemFacts, UnseenFacts
from warrener.gathering import gather, gather_system
from warrener_contracts.events import Call, CallKind, Suspension
from warrener_contracts.identity import child_job_id, job_id_of, undo_job_id
from warrener_contracts.state_machine import JobState
from warrener_store import Store
from warrener_store.gates.rows import GateWaiter, SlotClaim
from warrener_store.jobs.rows import JobRow, Save, evolve
from warrener_store.parked.rows import ParkedMessage
from warrener_store.workflows.rows import TurnRow

T = TypeVar("T")
Run = Callable[..., Result]
NOWHERE = "amqp://127.0.0.1:1"


def on_store(url: str, do: Callable[[Store, ResolvedEndpoints], Coroutine[Any, Any, T]]) -> T:
    """Do something with the open store, beside a broker that does not answer."""

    return store_access.on_store(
        url, lambda store: do(store, ResolvedEndpoints(NOWHERE, url, "", from_up=False))
    )


def parked(body: object) -> ParkedMessage:
    return parked_message(
        reason="unknown_job_type",
        detail="expected a job type that an agent has announced, got 'x': start an agent for it",
        body=json.dumps(body).encode(),
    )


def test_a_job_is_found_by_every_name_it_has(store_url: str, subtests: pytest.Subtests) -> None:
    by_client = waiting_job(job_id=job_id_of("warrener.client", "order-17"), source="warrener.client")
    by_shop = waiting_job(job_id=job_id_of("shop", "order-18"), source="shop", idempotency_key="invoice-18")
    names = {
        str(by_client.job_id): by_client,
        str(by_client.job_id)[-8:]: by_client,
        "order-17": by_client,
        f"job:{by_shop.job_id}": by_shop,
        "order-18": by_shop,
        "invoice-18": by_shop,
    }

    async def find(store: Store, endpoints: ResolvedEndpoints) -> dict[str, Any]:
        await store.insert_jobs([by_client, by_shop])
        return {name: await gather(store, endpoints, name) for name in names}

    for name, facts in on_store(store_url, find).items():
        with subtests.test(name):
            assert facts.row.job_id == names[name].job_id


def test_a_rejected_request_is_found_among_parked_messages(store_url: str) -> None:
    request = {"id": "order-17", "source": "shop", "type": "job.requested.v1", "data": {"job_type": "x"}}
    names = ["order-17", str(job_id_of("shop", "order-17"))]

    async def find(store: Store, endpoints: ResolvedEndpoints) -> list[Any]:
        await store.park([parked("no event"), parked([{"id": "order-16"}, request])])
        return [await gather(store, endpoints, name) for name in [*names, "order-1"]]

    *found, other = on_store(store_url, find)
    assert [explain(facts).cause for facts in found] == [Cause.JOB_TYPE_UNKNOWN] * 2
    assert (other.parked, other.searched) == (None, 2)


def test_an_id_older_than_every_job_was_deleted_by_retention(store_url: str) -> None:
    ids = "018f0000-0000-7000-8000-000000000001", "01ffffff-0000-7000-8000-000000000001"
    job = queued_job()

    async def find(store: Store, endpoints: ResolvedEndpoints) -> list[Any]:
        await store.insert_jobs([job])
        await store.save_jobs([succeeded(job)])
        return [await gather(store, endpoints, each) for each in ids]

    early, late = on_store(store_url, find)
    assert explain(early).cause is Cause.PRUNED
    assert isinstance(late, UnseenFacts)
    assert explain(late).cause is Cause.BROKER_UNREACHABLE, "it may wait in the queue of requests"


def test_a_full_disk_is_noticed_before_a_service_fails_at_it(
    sqlite_store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage("/")._replace(free=512)

    def full(_: Path) -> object:
        return usage

    monkeypatch.setattr(shutil, "disk_usage", full)

    system = on_store(sqlite_store_url, gather_system)
    assert system.store_trouble is not None
    assert "512 bytes are left" in system.store_trouble


def test_23_a_full_disk_of_postgresql_is_named_though_it_can_be_read(postgres_store_url: str) -> None:
    job = queued_job()

    async def explained(store: Store, endpoints: ResolvedEndpoints) -> Any:
        await store.insert_jobs([job])
        connection = await asyncpg.connect(postgres_store_url)
        await connection.execute(FULL_DISK)
        await connection.close()
        return explain(await gather(store, endpoints, str(job.job_id)))

    found = on_store(postgres_store_url, explained)
    assert found.cause is Cause.STORE_NOT_WRITABLE
    assert "its disk is full: could not extend file" in found.detail


def test_facts_of_a_broker_that_does_not_answer_are_unknown(store_url: str) -> None:
    system = on_store(store_url, gather_system)
    assert system.broker_trouble is not None
    assert (system.schedulers, system.supervisors, system.store_trouble) == (None, None, None)


def test_the_job_that_has_ended_most_agents_of_a_queue_that_misses_one_is_found(store_url: str) -> None:
    once, twice = queued_job(losses=1), running_job(losses=2)
    elsewhere, innocent = running_job(losses=3, queue="loading"), queued_job()
    over = running_job(losses=4)

    async def find(store: Store, endpoints: ResolvedEndpoints) -> list[Mapping[str, JobRow]]:
        await store.insert_jobs([once, twice, elsewhere, innocent, over])
        await store.save_jobs([died(over)])
        seen, systems = await store.time(), list[SystemFacts]()
        for last_seen_at in (seen - timedelta(minutes=4), seen):
            await store.put_agents([agent_row(agent_id="a1", last_seen_at=last_seen_at)])
            systems.append(await gather_system(store, endpoints, ["default"]))
        return [system.ending_jobs for system in systems]

    missing, alive = on_store(store_url, find)
    assert {queue: row.job_id for queue, row in missing.items()} == {"default": twice.job_id}
    assert not alive


def test_an_id_that_names_several_jobs_is_refused(run: Run, sqlite_store_url: str) -> None:
    one = waiting_job()
    twin = replace(one, job_id=UUID(int=one.job_id.int ^ (1 << 100)))

    async def insert(store: Store, _: ResolvedEndpoints) -> None:
        await store.insert_jobs([one, twin])

    on_store(sqlite_store_url, insert)
    result = run("explain", str(one.job_id)[-8:], "--store", sqlite_store_url)
    assert result.exit_code == 2
    assert str(twin.job_id) in result.stderr
    assert "give one of these ids" in result.stderr


def test_a_store_that_does_not_answer_is_explained_with_code_3(run: Run) -> None:
    result = run("explain", "order-17", "--json", "--store", "postgresql://127.0.0.1:1/none")
    assert result.exit_code == 3
    found = json.loads(result.stdout)
    assert (found["cause"], found["needs_action"]) == ("store_unreachable", True)


def test_a_workflow_is_gathered_with_the_job_that_it_waits_for_and_that_job_with_its_parent(
    store_url: str,
) -> None:
    async def find(store: Store, endpoints: ResolvedEndpoints) -> tuple[Any, Any, Any]:
        row, child = await put_workflow(store)
        found = [await gather(store, endpoints, str(one.job_id)) for one in (row, child)]
        return row, child, found

    row, child, (workflow, waited_for) = on_store(store_url, find)
    assert (workflow.awaited.row.job_id, set(workflow.jobs)) == (child.job_id, {child.job_id})
    assert len(workflow.turns) == 1
    assert (waited_for.parent.job_id, waited_for.parent_call.line) == (row.job_id, "orders.py:41")
    note = f"workflow orders.fulfil (job {row.job_id}) waits for it, at orders.py:41"
    assert note in explain(waited_for).notes


def test_a_workflow_is_gathered_with_the_parked_request_of_its_child_job(store_url: str) -> None:
    async def find(store: Store, endpoints: ResolvedEndpoints) -> Any:
        row = queued_job(state=JobState.SUSPENDED, suspensions=1, wake_at=ago(-600))
        call = Call(call_id="job#1", kind=CallKind.JOB, name="x", job_id=uuid4())
        await store.insert_jobs([row])
        await store.keep_suspensions(
            [TurnRow(job_id=row.job_id, attempt=1, suspension=Suspension(calls=(call,)))]
        )
        await store.park([parked({"id": str(call.job_id), "subject": str(call.job_id), "data": {}})])
        return call, await gather(store, endpoints, str(row.job_id))

    call, facts = on_store(store_url, find)
    found = explain(replace(facts, system=SystemFacts(now=facts.system.now)))
    assert (found.cause, found.needs_action) == (Cause.CALL_AWAITED, True)
    assert "no agent has announced its job type" in found.detail
    assert found.commands[0] == f"warrener explain {call.job_id}"


def test_a_workflow_that_ends_is_gathered_with_its_undo_once_its_child_jobs_are_over(store_url: str) -> None:
    async def find(store: Store, endpoints: ResolvedEndpoints) -> tuple[Any, Any]:
        row, child = await put_workflow(store)
        undo = running_job(job_id=undo_job_id(row.job_id, "job/cards.charge#1"), parent_id=row.job_id)
        await store.insert_jobs([undo])
        changed = evolve(row, version=2, ending=JobState.CANCELLED, ending_reason="wrong order")
        await store.save_jobs([succeeded(child), Save(changed)])
        found = [await gather(store, endpoints, str(one)) for one in (row.job_id, undo.job_id)]
        return undo, found

    undo, (workflow, undoing) = on_store(store_url, find)
    assert workflow.awaited.row.job_id == undo.job_id
    assert undoing.parent_call.name == "cards.charge"


def test_a_workflow_whose_child_jobs_wait_for_slots_is_gathered_with_the_limit_and_all_that_is_left(
    store_url: str,
) -> None:
    """Of its map, two batches have been requested; a slot is held by the workflow above it."""
    grandparent, holder = (queued_job(state=JobState.SUSPENDED, suspensions=1) for _ in range(2))
    row = queued_job(state=JobState.SUSPENDED, suspensions=1, parent_id=grandparent.job_id, wake_at=ago(-600))
    batches = [Call(call_id=f"map#1/{number}", kind=CallKind.MAP, name="x", size=3) for number in range(2)]
    since, far = ago(60), ago(-40_000)
    ids = [child_job_id(row.job_id, f"map#1/0/{number}") for number in range(3)]
    done, limited, later = (
        waiting_job(job_id=job_id, parent_id=row.job_id, gates='[["job/x",2]]', due_at=since, wake_at=far)
        for job_id in ids
    )

    async def find(store: Store, endpoints: ResolvedEndpoints) -> Any:
        claims = [SlotClaim(one.job_id, 1, since, (("job/x", 2),)) for one in (grandparent, holder)]
        await store.take_slots(claims, since, fresh=True)
        await store.insert_jobs([grandparent, holder, row, done, limited, later])
        await store.save_jobs([succeeded(done)])
        suspension = Suspension(calls=tuple(batches))
        await store.keep_suspensions([TurnRow(job_id=row.job_id, attempt=1, suspension=suspension)])
        await store.add_waiters([GateWaiter(one.job_id, "job/x", since) for one in (limited, later)])
        return [await gather(store, endpoints, str(one.job_id)) for one in (row, limited)]

    workflow, waits = on_store(store_url, find)
    assert (workflow.members_left, workflow.awaited.row.job_id) == (5, limited.job_id)
    found = explain(replace(workflow, system=SystemFacts(now=workflow.system.now)))
    assert (found.cause, found.needs_action) == (Cause.CALL_AWAITED, False)
    assert found.sentence == "The workflow waits for 5 of 6 jobs of x"
    assert f"job {limited.job_id} is waiting: All 2 slots of limit job/x are taken" in found.detail
    assert waits.limit.above == (grandparent.job_id,)
