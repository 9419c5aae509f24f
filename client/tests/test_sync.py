"""The synchronous twin drives the same client."""

import inspect
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from warrener_client import Client, ClientClosed, Job, JobSpec, RequestRejected, SyncClient, SyncJob
from warrener_client.testing import StandIn
from warrener_contracts.events import JsonObject
from warrener_runtime.bus.memory import MemoryBroker, MemoryBus


def square(given: JsonObject) -> int:
    return int(given["n"]) ** 2


@pytest.fixture
def client() -> Iterator[SyncClient]:
    """A client, and somebody who answers it; the broker in memory lives in the client's loop."""
    broker = MemoryBroker()
    with SyncClient(bus=MemoryBus(broker)) as opened:
        warren = StandIn(MemoryBus(broker), {"number.square": square})
        opened._loop.run(warren.__aenter__())
        yield opened
        opened._loop.run(warren.__aexit__(None, None, None))


def test_a_request_and_its_result_without_an_event_loop(client: SyncClient) -> None:
    job = client.request("number.square", {"n": 7})
    assert job.result(as_=int, timeout=60) == 49
    assert job.outcome().state == "succeeded"
    assert (job.is_finished, job.deduplicated, job.job_type) == (True, False, "number.square")
    assert repr(job) == f"<Job number.square {job.job_id}>"
    client.cancel(job.job_id)
    with pytest.raises(RequestRejected):
        client.request("no.such.type").result(timeout=60)


def test_many_requests_come_in_order_from_a_source_that_is_read_in_the_callers_thread(
    client: SyncClient,
) -> None:
    jobs = list(client.request_many((JobSpec("number.square", {"n": n}) for n in range(300)), batch=20))
    assert [job.result(timeout=60) for job in jobs] == [n**2 for n in range(300)]
    assert len(client.request_batch([JobSpec("number.square", {"n": 1})] * 2)) == 2


def test_several_threads_may_use_one_client(client: SyncClient) -> None:
    def request(n: int) -> object:
        return client.request("number.square", {"n": n}).result(timeout=60)

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(request, range(100))) == [n**2 for n in range(100)]


def test_the_twins_have_the_same_methods_and_parameters() -> None:
    twins: list[tuple[type, type]] = [(Client, SyncClient), (Job, SyncJob)]
    for one, other in twins:
        missing = {name for name in vars(one) if not name.startswith("_")} - set(vars(other))
        assert missing <= {"source", "address"}, f"{other.__name__} lacks {missing}"
    assert inspect.signature(Client.request) == inspect.signature(SyncClient.request)
    assert inspect.signature(Client.cancel) == inspect.signature(SyncClient.cancel)


def test_a_closed_client_raises_client_closed() -> None:
    client = SyncClient(bus=MemoryBus(MemoryBroker()))
    with pytest.raises(ClientClosed):
        client.request("number.square")
    client.start()
    job = client.request("number.square")
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(job.result)
        client.close()
        client.close()
        with pytest.raises(ClientClosed):
            waiting.result(timeout=60)


def test_a_client_that_cannot_start_leaves_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(_: Client) -> None:
        raise PermissionError("no such user")

    monkeypatch.setattr(Client, "start", refuse)
    client = SyncClient(bus=MemoryBus(MemoryBroker()))
    with pytest.raises(PermissionError), client:
        pass
    assert not client._loop.running
