"""What a guest may do with requests and cancels that others believe in: keys, ticks, marks and queues."""

import asyncio
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID, uuid4, uuid5

import aiormq
import pytest
from tests.acceptance import store_queries
from tests.acceptance.command_line import call_command
from tests.acceptance.warren import Warren, until
from tests.broker_access import connected, publish
from tests.security.attacks import attack
from tests.servers.kinds import PostgresServer, RabbitMQServer

from warrener_client import CommandRefused, RequestRejected, SyncClient
from warrener_contracts.events import Reason, SchedulePutData
from warrener_contracts.identity import tick_job_id
from warrener_contracts.messages import BATCH_TYPE, EVENT_TYPE
from warrener_contracts.schedule_rules import OnceRule
from warrener_contracts.state_machine import JobState
from warrener_store.dead_letters.rows import DeadLetterState
from warrener_store.jobs.rows import JobFilter
from warrener_store.jobs.rules import CANCEL_MARK

HANDLERS = """
from warrener_agent import Agent

agent = Agent()

@agent.job("pay")
async def pay(amount: int) -> int:
    return amount

@agent.job("refund")
async def refund(amount: int) -> int:
    return -amount

@agent.job("doomed", max_attempts=1)
async def doomed() -> None:
    raise ValueError("no")
"""
MARKS = 20
_TICKS = UUID("56cf3b67-9937-5fd9-b90a-e9a2176c2493")  # from which ids of ticks derived once; it is published


@pytest.fixture(scope="module")
def bank(
    broker: RabbitMQServer,
    postgres: PostgresServer,
    postgres_template: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Warren]:
    """Services that pay, on RabbitMQ and PostgreSQL."""
    name, folder = f"bank-{uuid4().hex[:12]}", tmp_path_factory.mktemp("bank")
    (folder / "paying.py").write_text(HANDLERS)
    store_url = postgres.add_database(name.replace("-", "_"), postgres_template)
    one = Warren(folder, broker.add_vhost(name), store_url, f"sqlite:///{folder}/ledger.db", forks=True)
    one.environment = {"WARRENER_SUPERVISOR_CANCEL_MARKS_LIMIT": str(MARKS)}
    one.start_all("paying")
    until(
        lambda: store_queries.agents_of(one) and store_queries.job_types_of(one),
        "the agent's heartbeat and its job types",
    )
    yield one
    one.end()
    broker.drop_vhost(name)


def request(source: str, job_type: str, **data: Any) -> dict[str, Any]:
    """A request as any program writes it."""
    return event(source, "job.requested.v1", job_type=job_type, **data)


def event(source: str, kind: str, **data: Any) -> dict[str, Any]:
    return {"specversion": "1.0", "id": str(uuid4()), "source": source, "type": kind, "data": data}


def send(bank: Warren, one: dict[str, Any]) -> UUID:
    """Publish a request as any program does, and wait until it is a job; its id."""
    key, job_id = one["data"]["job_type"], UUID(one["id"])
    publish(bank.broker_url, "warrener.requests", key, json.dumps(one).encode(), content_type=EVENT_TYPE)
    until(lambda: store_queries.state_of(bank, job_id), "the request of the guest to be accepted")
    return job_id


def send_all(bank: Warren, exchange: str, key: str, many: list[dict[str, Any]], **properties: Any) -> None:
    publish(bank.broker_url, exchange, key, json.dumps(many).encode(), content_type=BATCH_TYPE, **properties)


def marks_of(bank: Warren, source: str) -> int:
    marks = JobFilter(job_type=CANCEL_MARK, limit=5_000)
    rows = store_queries.look(bank, lambda store: store.list_jobs(marks))
    return sum(row.source == source for row in rows)


def existing_queues(url: str, names: list[str]) -> list[str]:
    """Those of these dispatch queues that the broker has."""

    async def find() -> list[str]:
        found: list[str] = []
        async with connected(url) as connection:
            for name in names:
                channel = await connection.channel()  # a missing queue closes it
                try:
                    await channel.queue_declare(f"warrener.queue.{name}", passive=True)
                    found.append(name)
                except aiormq.exceptions.ChannelNotFoundEntity:
                    pass
        return found

    return asyncio.run(find())


# -- idempotency keys ----------------------------------------------------------------------------------------


@attack("asker", "squats the key of a payment of another source", refused="keys are scoped by source")
def test_a_key_that_a_guest_has_squatted_stops_no_payment(bank: Warren) -> None:
    send(bank, request("guest", "pay", arguments={"amount": 2}, idempotency_key="invoice-17"))
    with SyncClient(bank.broker_url, source="shop") as shop:
        paid = shop.request("pay", {"amount": 100}, idempotency_key="invoice-17")
        assert paid.result(timeout=60) == 100, "the payment has run, and is not that of the guest"
        again = shop.request("pay", {"amount": 100}, idempotency_key="invoice-17")
        assert again.result(timeout=60) == 100
        assert again.deduplicated, "one source cannot pay twice"


@attack("asker", "squats a key under the forged source of the payer", refused="rejection conflicting_repeat")
def test_a_payment_whose_key_was_squatted_under_its_own_source_is_rejected_with_the_job(bank: Warren) -> None:
    forged = send(bank, request("till", "pay", arguments={"amount": 2}, idempotency_key="invoice-18"))
    with SyncClient(bank.broker_url, source="till") as till:
        job = till.request("pay", {"amount": 100}, idempotency_key="invoice-18")
        with pytest.raises(RequestRejected) as refused:
            job.result(timeout=60)
    assert refused.value.reason is Reason.CONFLICTING_REPEAT
    assert "'invoice-18'" in refused.value.detail
    assert str(forged) in refused.value.detail, "the payer learns whose job to look at"


@attack("asker", "uses a payment's key for another job type", refused="keys are scoped by job type")
def test_a_key_used_for_another_job_type_stops_no_payment(bank: Warren) -> None:
    send(bank, request("shop", "refund", arguments={"amount": 5}, idempotency_key="invoice-19"))
    with SyncClient(bank.broker_url, source="shop") as shop:
        assert shop.request("pay", {"amount": 5}, idempotency_key="invoice-19").result(timeout=60) == 5


@attack(
    "asker", "writes the stored form of another's key as its own key", refused="the scope is no part of it"
)
def test_the_stored_form_of_a_key_is_no_key_of_another_source(bank: Warren) -> None:
    with SyncClient(bank.broker_url, source="shop") as shop:
        first = shop.request("pay", {"amount": 7}, idempotency_key="invoice-20")
        assert first.result(timeout=60) == 7
        row = store_queries.rows_of(bank, [first.job_id])[first.job_id]
        stolen = str(row.stored_key).replace("invoice-20", "invoice-21")
        send(bank, request("guest", "pay", arguments={"amount": 2}, idempotency_key=stolen))
        assert shop.request("pay", {"amount": 8}, idempotency_key="invoice-21").result(timeout=60) == 8


# -- ticks that are yet to come ------------------------------------------------------------------------------


def put_once(bank: Warren, name: str, at: datetime) -> None:
    with SyncClient(bank.broker_url, source="office") as office:
        once = SchedulePutData(name=name, rule=OnceRule(at=at), job_type="pay", arguments={"amount": 1})
        office.put_schedules([once])


def cancel(bank: Warren, source: str, *job_ids: UUID) -> None:
    cancels = [event(source, "job.cancel_requested.v1", job_id=str(job_id)) for job_id in job_ids]
    send_all(bank, "warrener.commands", "job.cancel_requested", cancels)


def reason_of_tick(bank: Warren, name: str) -> str | None:
    ticks = store_queries.tick_history(bank, name)
    return ticks[0].reason if ticks and ticks[0].fired_at is not None else None


@attack("asker", "cancels future ticks by ids that it computes", refused="ids derive from a secret")
def test_a_tick_is_not_cancelled_by_the_id_that_its_name_and_time_give(bank: Warren) -> None:
    at = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=6)
    text = f"guessed\n{at.isoformat()}"
    guesses = [uuid5(_TICKS, text), tick_job_id("guessed", at, ""), tick_job_id("guessed", at, "0" * 64)]
    cancel(bank, "guesser", *guesses)
    until(lambda: marks_of(bank, "guesser") == len(guesses), "the marks of the cancels")
    put_once(bank, "guessed", at)
    until(lambda: reason_of_tick(bank, "guessed") is not None, "the tick to be requested")
    [tick] = store_queries.tick_history(bank, "guessed")
    job_id = tick.job_id
    assert job_id is not None
    assert job_id not in guesses
    until(lambda: store_queries.state_of(bank, job_id) is JobState.SUCCEEDED, "the job to succeed")


@attack(
    "reader of the database", "cancels a future tick unseen", refused="the history of the schedule says so"
)
def test_a_tick_whose_job_was_cancelled_in_advance_shows_that_in_its_history(bank: Warren) -> None:
    at = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=6)
    secret = store_queries.look(bank, lambda store: store.installation_secret(uuid4(), "none was made"))
    cancel(bank, "insider", tick_job_id("foreseen", at, secret))
    until(lambda: marks_of(bank, "insider") == 1, "the mark of the cancel")
    put_once(bank, "foreseen", at)
    shown = "cancelled before it began: requested"
    until(lambda: reason_of_tick(bank, "foreseen") == shown, "the history to tell the cancel")


# -- marks of cancels ----------------------------------------------------------------------------------------


@attack("operator", "fills the store with cancels of unknown jobs", refused="marks are limited per source")
def test_one_source_leaves_a_limited_number_of_marks(bank: Warren) -> None:
    cancel(bank, "flood", *(uuid4() for _ in range(6 * MARKS)))
    with SyncClient(bank.broker_url, source="flood") as flood:
        with pytest.raises(CommandRefused, match="'flood' has cancelled 20 unknown jobs already"):
            flood.cancel(uuid4(), reply_timeout=60)
        job = flood.request("pay", {"amount": 3}, delay=3600)
        until(lambda: store_queries.state_of(bank, job.job_id), "the job to be accepted")
        flood.cancel(job.job_id, reply_timeout=60)  # that of a known job leaves none
    with SyncClient(bank.broker_url, source="calm") as calm:
        calm.cancel(uuid4(), reply_timeout=60)
    until(lambda: marks_of(bank, "calm") == 1, "the mark of another source")
    assert marks_of(bank, "flood") == MARKS


@attack("operator", "leaves marks under many sources", refused="marks are limited per user, if it is named")
def test_a_user_of_the_broker_leaves_a_limited_number_of_marks_under_any_source(bank: Warren) -> None:
    user = urlsplit(bank.broker_url).username
    kind, sources = "job.cancel_requested.v1", [f"forged-{number}" for number in range(4 * MARKS)]
    many = [event(source, kind, job_id=str(uuid4())) for source in sources]
    send_all(bank, "warrener.commands", "job.cancel_requested", many, user_id=user)
    ended = call_command(bank, "cancel", str(uuid4()))
    assert f"user '{user}' has cancelled {MARKS} unknown jobs" in ended.stderr, "the command names its user"
    cancel(bank, "after them", uuid4())
    until(lambda: marks_of(bank, "after them") == 1, "a later cancel without a user to be carried out")
    rows = store_queries.look(
        bank, lambda store: store.list_jobs(JobFilter(job_type=CANCEL_MARK, limit=5_000))
    )
    assert [row.arguments for row in rows if row.source.startswith("forged-")] == [{"user": user}] * MARKS


@attack("operator", "leaves marks by a batch of no workflow", refused="the workflow must be known")
def test_a_batch_of_no_workflow_leaves_no_marks(bank: Warren) -> None:
    batch = {"parent_id": str(uuid4()), "call_id": "map-1", "size": 500}
    whole = event("mapper", "job.cancel_requested.v1", job_id=str(uuid4()), members=batch)
    send_all(bank, "warrener.commands", "job.cancel_requested", [whole])
    cancel(bank, "after it", uuid4())
    until(lambda: marks_of(bank, "after it") == 1, "a later cancel to be carried out")
    assert marks_of(bank, "mapper") == marks_of(bank, "warrener/supervisor") == 0


# -- names of queues -----------------------------------------------------------------------------------------

NAMES = [f"guest-{number}" for number in range(120)]


@attack("asker", "makes 120 queues by 120 requests", refused="rejection that names the known ones")
def test_120_requests_with_120_names_of_queues_make_no_queue(bank: Warren) -> None:
    send_all(
        bank,
        "warrener.requests",
        "pay",
        [request("guest", "pay", arguments={"amount": 1}, queue=name) for name in NAMES],
    )
    with SyncClient(bank.broker_url, source="shop") as shop:
        job = shop.request("pay", {"amount": 1}, queue="elsewhere")
        with pytest.raises(RequestRejected, match="WARRENER_SCHEDULER_QUEUES") as refused:
            job.result(timeout=60)
        assert refused.value.reason is Reason.BAD_FIELDS
        assert "name none or one of default" in refused.value.detail
        assert shop.request("pay", {"amount": 1}, queue="default").result(timeout=60) == 1
    assert existing_queues(bank.broker_url, [*NAMES, "elsewhere", "default"]) == ["default"]


@attack("operator", "makes a queue by a schedule", refused="its requests are rejected")
def test_a_schedule_makes_no_queue(bank: Warren) -> None:
    with SyncClient(bank.broker_url, source="office") as office:
        now = datetime.now(UTC)
        once = SchedulePutData(
            name="nowhere",
            rule=OnceRule(at=now + timedelta(seconds=2)),
            job_type="pay",
            arguments={"amount": 1},
            queue="nowhere",
        )
        with pytest.raises(CommandRefused, match="queue: expected one that an agent has announced"):
            office.put_schedules([once], checked=True, reply_timeout=60)
        office.put_schedules([once])
    until(
        lambda: (reason_of_tick(bank, "nowhere") or "").startswith("rejected: queue: expected one"),
        "the tick to be rejected",
    )
    assert existing_queues(bank.broker_url, ["nowhere"]) == []


@attack("operator", "makes a queue by a redrive", refused="the redrive rejects the dead letter")
def test_a_redrive_makes_no_queue(bank: Warren) -> None:
    dead = send(bank, request("shop", "doomed"))
    until(lambda: store_queries.state_of(bank, dead) is JobState.DEAD, "the job to die")
    redrive = event(
        "guest", "job.redrive_requested.v1", selection={"job_ids": [str(dead)]}, queue="beyond", by="guest"
    )
    send_all(bank, "warrener.commands", "job.redrive_requested", [redrive])
    rejected = DeadLetterState.REJECTED
    until(lambda: store_queries.dead_letter_of(bank, dead).state is rejected, "its dead letter's rejection")
    assert existing_queues(bank.broker_url, ["beyond"]) == []
