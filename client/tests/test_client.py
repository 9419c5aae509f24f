"""A client requests a job and receives its end; what that costs the broker; and the trace that goes along."""

import asyncio
import fcntl
import json
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import aiormq
import pytest
from client.tests.test_replies import Gate
from opentelemetry import baggage, trace
from opentelemetry.context import attach, detach
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import SpanKind
from pydantic import BaseModel
from tests.captured_service import events_in
from tests.faults.amqp_counter import AmqpCounter
from tests.servers.kinds import RabbitMQServer

from warrener_client import (
    BadRequest,
    Client,
    ClientClosed,
    CommandRefused,
    JobCancelled,
    JobDied,
    JobFailed,
    JobSpec,
    NotConnected,
    RequestRejected,
    RequestTooLarge,
    ResultMismatch,
    ResultTimeout,
)
from warrener_client.testing import RejectRequest, StandIn
from warrener_contracts.events import Event, JobContinueRequested, JobSignalRequested, Reason
from warrener_contracts.policy import Backoff, PolicyOverrides
from warrener_contracts.topology import EVENTS, REQUESTS_QUEUE
from warrener_devservers import PrivateRabbitMQ
from warrener_runtime.bus import Bus, open_bus
from warrener_runtime.bus.memory import MemoryBroker, MemoryBus
from warrener_runtime.telemetry import Telemetry, TraceContext
from warrener_runtime.telemetry.spans import current

Buses = Callable[[], Bus]


class Box(BaseModel):
    size: str


class Report(BaseModel):
    rows: int
    day: datetime


async def test_a_request_from_before_any_service_ran_is_answered(client: Client, new_bus: Buses) -> None:
    job = await client.request("flights.load", {"path": Path("2013-01-01.csv")})
    assert not job.is_finished
    async with StandIn(new_bus(), {"flights.load": lambda given: {"loaded": given["path"]}}) as warren:
        assert await job.result(timeout=60) == {"loaded": "2013-01-01.csv"}
    assert job.is_finished
    assert not job.deduplicated
    assert warren.requests[0].id == str(job.job_id)
    assert warren.requests[0].source == "warrener.client"


async def test_a_result_is_validated_as_the_requested_model(client: Client, new_bus: Buses) -> None:
    answer = {"rows": 842, "day": "2013-01-01T00:00:00Z"}
    async with StandIn(new_bus(), {"flights.load": lambda _: answer}):
        job = await client.request("flights.load")
        assert await job.result(as_=Report, timeout=60) == Report(
            rows=842, day=datetime(2013, 1, 1, tzinfo=UTC)
        )
        with pytest.raises(ResultMismatch, match=r"expected int as the result of job .*, got another shape"):
            await job.result(as_=int, timeout=60)


async def test_everything_that_may_be_chosen_arrives(client: Client, new_bus: Buses) -> None:
    parent, job_id = uuid4(), uuid4()
    moment = datetime(2030, 1, 1, tzinfo=UTC)
    async with StandIn(new_bus(), {"mail.send": lambda _: None}) as warren:
        job = await client.request(
            "mail.send",
            {"to": "someone"},
            id=job_id,
            idempotency_key="welcome-17",
            queue="mails",
            not_before=moment,
            deadline=moment + timedelta(hours=1),
            policy=PolicyOverrides(max_attempts=2, backoff=Backoff(first=timedelta(seconds=3))),
            parent_id=parent,
        )
        assert await job.result(timeout=60) is None
    received = warren.requests[0].data
    assert job.job_id == job_id
    assert (received.queue, received.idempotency_key, received.parent_id) == ("mails", "welcome-17", parent)
    assert (received.not_before, received.deadline) == (moment, moment + timedelta(hours=1))
    assert received.policy is not None
    assert received.policy.max_attempts == 2


async def test_a_text_id_is_the_same_job_for_everybody_of_that_source(client: Client, new_bus: Buses) -> None:
    async with (
        Client(bus=new_bus()) as another,
        StandIn(new_bus(), {"order.ship": lambda _: "shipped"}) as warren,
    ):
        first = await client.request("order.ship", {"order": 17}, id="order-17")
        second = await another.request("order.ship", {"order": 17}, id="order-17")
        assert first.job_id == second.job_id
        assert await first.result(timeout=60) == await second.result(timeout=60) == "shipped"
    assert [request.id for request in warren.requests] == ["order-17", "order-17"]


async def test_the_result_of_a_dead_job_raises_its_error(client: Client, new_bus: Buses) -> None:
    def fail(_: object) -> None:
        raise ValueError("line 3 has 7 columns")

    async with StandIn(new_bus(), {"flights.load": fail}):
        job = await client.request("flights.load")
        with pytest.raises(
            JobDied, match=r"dead after attempt 1: ValueError: line 3 has 7 columns"
        ) as caught:
            await job.result(timeout=60)
    assert isinstance(caught.value, JobFailed)
    assert (caught.value.kind, caught.value.message) == ("error", "line 3 has 7 columns")
    assert caught.value.job_id == job.job_id


async def test_a_rejected_request_raises_with_the_reason(client: Client, new_bus: Buses) -> None:
    def refuse(_: object) -> None:
        raise RejectRequest(Reason.BAD_ARGUMENTS, "path: expected a string, got 7")

    async with StandIn(new_bus(), {"flights.load": refuse}):
        unknown = await client.request("no.such.type", id="x-1")
        wrong = await client.request("flights.load", {"path": 7})
        with pytest.raises(RequestRejected) as caught:
            await wrong.result(timeout=60)
        with pytest.raises(RequestRejected, match=r"no\.such\.type x-1 was rejected \(unknown_job_type\)"):
            await unknown.result(timeout=60)
    assert caught.value.reason is Reason.BAD_ARGUMENTS
    assert caught.value.detail == "path: expected a string, got 7"


async def test_a_used_idempotency_key_gives_the_handle_of_the_job_that_it_stands_for(
    client: Client, new_bus: Buses
) -> None:
    gate = Gate()
    async with StandIn(new_bus(), {"mail.send": gate.work}):
        first = await client.request("mail.send", idempotency_key="welcome-17")
        second = await client.request("mail.send", idempotency_key="welcome-17")
        third = await client.request("mail.send", idempotency_key="welcome-17")
        results = asyncio.gather(*(job.result(timeout=60) for job in (first, second, third)))
        gate.open.set()
        assert await results == ["done"] * 3
    assert first.job_id == second.job_id == third.job_id
    assert (first.deduplicated, second.deduplicated) == (False, True)


@pytest.mark.parametrize("overtakes", [False, True])
async def test_the_result_of_a_cancelled_job_raises_with_the_reason(
    client: Client, new_bus: Buses, *, overtakes: bool
) -> None:
    job_id = uuid4()
    async with StandIn(new_bus(), {"slow.work": lambda _: asyncio.Event().wait()}):
        if overtakes:
            await client.cancel(job_id, "changed my mind")
        job = await client.request("slow.work", id=job_id)
        waiting = asyncio.create_task(job.result(timeout=60))
        if not overtakes:
            await client.cancel(job_id, "changed my mind")
        with pytest.raises(JobCancelled, match="changed my mind") as caught:
            await waiting
        assert caught.value.reason == "changed my mind"


async def test_a_hold_is_ended_in_one_of_two_ways(client: Client, new_bus: Buses) -> None:
    job_id = uuid4()
    async with StandIn(new_bus(), {}) as warren:
        assert await client.continue_held(job_id, "resume", reply_timeout=60) == ""
        await client.continue_held(job_id, "undo", reply_timeout=60)
    sent = [one.data for one in warren.commands if isinstance(one, JobContinueRequested)]
    assert [(one.job_id, one.action.value) for one in sent] == [(job_id, "resume"), (job_id, "undo")]


async def test_a_signal_reaches_the_service_with_its_data_and_under_its_id(
    client: Client, new_bus: Buses
) -> None:
    job_id = uuid4()

    def refuse(event: Event[Any]) -> str | None:
        return "expected a job that has not ended" if event.id == "late" else None

    async with StandIn(new_bus(), {}, refuse=refuse) as warren:
        assert await client.send_signal(job_id, "packed", Box(size="A4"), reply_timeout=60) == ""
        await client.send_signal(job_id, "packed", id="order-17", reply_timeout=60)
        with pytest.raises(CommandRefused, match="has not ended"):
            await client.send_signal(job_id, "packed", id="late", reply_timeout=60)
        with pytest.raises(ValueError, match="name"):
            await client.send_signal(job_id, "")
    sent = [one for one in warren.commands if isinstance(one, JobSignalRequested)]
    assert [(one.data.job_id, one.data.name, one.data.data) for one in sent] == [
        (job_id, "packed", {"size": "A4"}),
        (job_id, "packed", None),
        (job_id, "packed", None),
    ]
    assert (sent[1].id, sent[0].subject) == ("order-17", str(job_id))


async def test_who_has_waited_long_enough_may_wait_again(client: Client, new_bus: Buses) -> None:
    gate = Gate()
    async with StandIn(new_bus(), {"slow.work": gate.work}):
        job = await client.request("slow.work")
        with pytest.raises(ResultTimeout, match="it goes on") as caught:
            await job.result(timeout=0.01)
        assert isinstance(caught.value, TimeoutError)
        gate.open.set()
        assert await job.result(timeout=60) == "done"


async def test_what_cannot_be_sent_is_refused_at_once_with_what_was_expected(client: Client) -> None:
    with pytest.raises(RequestTooLarge, match=r"at most 1048576 bytes, got \d+ for flights.load") as caught:
        await client.request("flights.load", {"csv": "x" * 1024 * 1024})
    assert caught.value.size > caught.value.limit
    with pytest.raises(BadRequest, match=r"job_type: .*, got 'flights load'"):
        await client.request("flights load")
    with pytest.raises(BadRequest, match=r"delay: expected a duration .*, got 'soon'$"):
        await client.request("flights.load", delay="soon")
    with pytest.raises(BadRequest, match=r"policy: expected parts among .*, got max_attemps$"):
        await client.request("flights.load", policy={"max_attemps": 3})
    with pytest.raises(BadRequest, match=r"policy\.backoff: expected step .* or delays .*, got both"):
        await client.request("flights.load", policy={"backoff": {"step": "1s", "delays": ["1s"]}})
    with pytest.raises(BadRequest, match=r"policy\.no_retry_on\.0: .* at least 1 character, got ''$"):
        await client.request("flights.load", policy={"no_retry_on": [""]})
    with pytest.raises(BadRequest, match="no argument named 'warrener:encrypted'"):
        await client.request("flights.load", {"path": "plain", "warrener:encrypted": {}})
    with pytest.raises(BadRequest, match=r"arguments of flights\.load that JSON can carry"):
        await client.request("flights.load", {"path": object()})


async def test_other_content_under_the_id_of_a_request_that_is_held_is_refused(client: Client) -> None:
    first = await client.request("order.ship", {"order": 17}, id="order-17")
    with pytest.raises(BadRequest, match="expected the same content under the same id"):
        await client.request("order.ship", {"order": 18}, id="order-17")
    assert isinstance(first.job_id, UUID)


async def test_a_closed_client_raises_for_waiters_and_for_new_requests(new_bus: Buses) -> None:
    client = Client(bus=new_bus())
    with pytest.raises(ClientClosed, match="expected an open client"):
        await client.request("flights.load")
    await client.start()
    job = await client.request("flights.load")
    waiting = asyncio.create_task(job.result())
    await asyncio.wait({waiting}, timeout=0)
    await client.close()
    await client.close()
    with pytest.raises(ClientClosed, match="repeat the request with the same id"):
        await waiting
    with pytest.raises(ClientClosed):
        await client.request_batch([JobSpec("flights.load")])


async def test_a_client_gives_up_on_a_broker_that_does_not_answer() -> None:
    with pytest.raises(NotConnected, match=r"expected a broker at 127\.0\.0\.1:1/ within 3 s, got: .*failed"):
        async with Client("amqp://guest:guest@127.0.0.1:1/", connect_timeout=3):
            pass


async def test_a_lazy_client_starts_without_its_broker_and_connects_when_there_is_one(
    broker: PrivateRabbitMQ, vhost_url: str
) -> None:
    async with Client("amqp://guest:guest@127.0.0.1:1/", lazy=True, connect_timeout=0.2) as client:
        assert not client.is_connected
        with pytest.raises(NotConnected, match="nothing was sent"):
            await client.request("flights.load")
    assert broker.running
    async with (
        Client(vhost_url, lazy=True) as client,
        StandIn(open_bus(vhost_url, name="stand-in"), {"flights.load": lambda _: 842}),
    ):
        job = await client.request("flights.load")
        assert client.is_connected
        assert await job.result(timeout=60) == 842


async def test_a_lazy_client_that_is_closed_while_it_connects_raises_for_its_callers() -> None:
    client = Client("amqp://guest:guest@127.0.0.1:1/", lazy=True, connect_timeout=None)
    await client.start()
    requesting = asyncio.create_task(client.request("flights.load"))
    await asyncio.wait({requesting}, timeout=0)
    await client.close()
    with pytest.raises(ClientClosed):
        await requesting


async def test_a_client_without_a_url_finds_the_up_of_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, vhost_url: str, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("WARRENER_BROKER_URL", raising=False)
    folder = tmp_path / ".warrener"
    folder.mkdir()
    found = {"broker_url": vhost_url, "store_url": "sqlite:///s.db", "ledger_url": "sqlite:///l.db"}
    (folder / "endpoints.json").write_text(json.dumps(found))
    with (folder / "up.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        async with Client() as client:
            assert client.is_connected
    assert capfd.readouterr().err.count("using the `warrener up` of this folder") == 1


async def test_8_replies_come_again_after_their_exchange_was_deleted_on_rabbitmq(vhost_url: str) -> None:
    async with (
        StandIn(open_bus(vhost_url, name="stand-in"), {"quick.work": lambda _: "done"}),
        Client(vhost_url, resend_after=1) as client,
        aiormq.connect(vhost_url) as operator,
    ):
        assert await (await client.request("quick.work")).result(timeout=60) == "done"
        channel = await operator.channel()
        await channel.exchange_delete(EVENTS)
        await channel.exchange_declare(EVENTS, exchange_type="topic", durable=True)
        jobs = await client.request_batch([JobSpec("quick.work")] * 120)
        ends = await asyncio.gather(*(job.result(timeout=60) for job in jobs))
    assert ends == ["done"] * 120


_HANDSHAKE = 3  # Connection.StartOk, TuneOk, Open


@pytest.fixture
async def counter(broker: RabbitMQServer) -> AsyncIterator[AmqpCounter]:
    counter = AmqpCounter(broker.port)
    await counter.start()
    yield counter
    await counter.stop()


def through(counter: AmqpCounter, vhost_url: str) -> str:
    return f"amqp://guest:guest@127.0.0.1:{counter.port}/{vhost_url.rpartition('/')[2]}"


async def test_19_a_client_costs_one_connection_and_what_it_needs(
    counter: AmqpCounter, vhost_url: str
) -> None:
    async with StandIn(open_bus(vhost_url, name="stand-in"), {"hello.greet": lambda _: "hello"}):
        async with Client(through(counter, vhost_url)) as client:
            connecting = counter.calls
            [job] = await client.request_batch([JobSpec("hello.greet")], want_results=False)
            requesting = counter.calls - connecting
            answered = await client.request("hello.greet")
            assert await answered.result(timeout=60) == "hello"
            replying = counter.calls - connecting - requesting
        assert not job.is_finished
    assert counter.connections == 1
    assert connecting == _HANDSHAKE
    assert requesting == 5, "a channel for one look, and one that publishes"
    assert replying == 10, "an exchange, a queue, its binding, and a consumer"


OURS = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def callers_tracer(monkeypatch: pytest.MonkeyPatch) -> trace.Tracer:
    """An OpenTelemetry that the caller has configured, for the time of one test."""
    provider = TracerProvider()
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    return provider.get_tracer("shop")


async def sent_trace_context(client: Client, broker: MemoryBroker) -> tuple[str | None, str | None]:
    """The trace context of one request, as the event and as the headers carry it."""
    await client.request("flights.load")
    message = broker.peek(REQUESTS_QUEUE.name)[-1]
    header = message.headers.get("traceparent")
    return json.loads(message.body).get("traceparent"), None if header is None else str(header)


async def test_a_given_telemetry_gets_a_producer_span_for_each_request() -> None:
    broker, telemetry = MemoryBroker(), Telemetry.in_memory("shop")
    async with Client(bus=MemoryBus(broker), telemetry=telemetry) as client:
        in_event, in_headers = await sent_trace_context(client, broker)
        await client.request_batch([JobSpec("mail.send"), JobSpec("mail.send")])
    spans = telemetry.spans()
    found = sorted(span.name for span in spans)
    assert found == ["request flights.load", "request mail.send", "request mail.send"]
    assert {span.kind for span in spans} == {SpanKind.PRODUCER}
    contexts = [(span.name, context) for span in spans if (context := span.get_span_context())]
    assert len({context.trace_id for _, context in contexts}) == 3
    first = next(span for span in spans if span.name == "request flights.load")
    assert in_event == in_headers
    assert TraceContext(in_event).span_id == f"{dict(contexts)[first.name].span_id:016x}"
    assert first.attributes is not None
    assert first.attributes["warrener.job.type"] == "flights.load"


async def test_without_anybody_who_looks_the_trace_that_we_are_in_is_handed_on() -> None:
    broker = MemoryBroker()
    async with Client(bus=MemoryBus(broker)) as client:
        assert await sent_trace_context(client, broker) == (None, None)
        with inside(TraceContext(OURS)):
            assert await sent_trace_context(client, broker) == (OURS, OURS)
        await client.request("flights.load", traceparent=OURS)
        assert broker.peek(REQUESTS_QUEUE.name)[-1].headers == {"traceparent": OURS}


async def test_the_callers_baggage_goes_along_whether_or_not_there_is_a_trace() -> None:
    broker = MemoryBroker()
    async with Client(bus=MemoryBus(broker)) as client:
        token = attach(baggage.set_baggage("tenant", "acme"))
        try:
            await client.request_batch([JobSpec("flights.load"), JobSpec("flights.load")])
        finally:
            detach(token)
        await client.request("flights.load")
    *carried, without = broker.peek(REQUESTS_QUEUE.name)
    assert [event.baggage for event in events_in(carried)] == ["tenant=acme"] * 2
    assert b"baggage" not in without.body


async def test_the_callers_opentelemetry_makes_the_span_where_it_is_configured(
    callers_tracer: trace.Tracer,
) -> None:
    broker = MemoryBroker()
    async with Client(bus=MemoryBus(broker)) as client:
        with callers_tracer.start_as_current_span("checkout") as outer:
            sent, _ = await sent_trace_context(client, broker)
    context = TraceContext(sent)
    assert context.trace_id == f"{outer.get_span_context().trace_id:032x}"
    assert context.span_id != f"{outer.get_span_context().span_id:016x}"


async def test_no_context_goes_along_where_the_propagators_name_none(
    callers_tracer: trace.Tracer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_PROPAGATORS", "none")
    broker = MemoryBroker()
    async with Client(bus=MemoryBus(broker)) as client:
        with callers_tracer.start_as_current_span("checkout"):
            assert await sent_trace_context(client, broker) == (None, None)


@contextmanager
def inside(context: TraceContext) -> Generator[None]:
    token = current.set(context)
    yield
    current.reset(token)
