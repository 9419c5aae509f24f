"""The client for code without an event loop: it runs Client in an event loop of its own thread.

The methods are made from those of Client, so that names, parameters and guarantees are the same by
construction.
"""

import asyncio
import concurrent.futures
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Iterator
from concurrent.futures import Future
from functools import wraps
from itertools import islice
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, overload
from uuid import UUID

from warrener_client.client import Client
from warrener_client.errors import ClientClosed
from warrener_client.job import Job
from warrener_client.publisher import BATCH_SIZE, MAX_BATCHES_IN_FLIGHT
from warrener_client.requests import JobSpec
from warrener_contracts.events import JobFinishedData, JobWaitingData

T = TypeVar("T")
R = TypeVar("R")
P = ParamSpec("P")


class LoopThread:
    """An event loop in a daemon thread that runs coroutines for other threads."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    @property
    def running(self) -> bool:
        return self._loop is not None

    def start(self) -> None:
        """Start the loop. A second call does nothing."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(
                target=self._live, args=(self._loop,), name=self._name, daemon=True
            )
            self._thread.start()

    def stop(self) -> None:
        """Cancel running work, and return when the thread has ended."""
        loop, self._loop = self._loop, None
        if loop is not None and self._thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            self._thread.join()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` and return its result. Ctrl-C cancels the work."""
        return self.await_(self.submit(work))

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        if self._loop is None:
            work.close()
            raise ClientClosed(
                "expected an open client, got a closed one: use `with SyncClient(…) as client`"
            )
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def await_(self, future: Future[T]) -> T:
        """Wait for the result of submitted work. Ctrl-C cancels the work."""
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise ClientClosed("expected an open client until the reply, got a closed one") from None
        except BaseException:
            future.cancel()
            raise

    def _live(self, loop: asyncio.AbstractEventLoop) -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:  # whose end cancels what still runs
            runner.get_loop().run_forever()


class SyncJob:
    """The handle of one job: as Job, with blocking calls. Safe for several threads."""

    __slots__ = ("_job", "_loop")

    def __init__(self, job: Job, loop: LoopThread) -> None:
        self._job = job
        self._loop = loop

    def __repr__(self) -> str:
        return repr(self._job)

    @property
    def job_type(self) -> str:
        return self._job.job_type

    @property
    def job_id(self) -> UUID:
        return self._job.job_id

    @property
    def deduplicated(self) -> bool:
        return self._job.deduplicated

    @property
    def is_finished(self) -> bool:
        return self._job.is_finished

    @property
    def waiting(self) -> JobWaitingData | None:
        return self._job.waiting

    def outcome(self, *, timeout: float | None = None) -> JobFinishedData:
        return self._loop.run(self._job.outcome(timeout=timeout))

    @overload
    def result(self, *, timeout: float | None = None) -> Any: ...
    @overload
    def result(self, *, as_: type[T], timeout: float | None = None) -> T: ...

    def result(self, *, as_: Any = None, timeout: float | None = None) -> Any:
        return self._loop.run(self._job.result(as_=as_, timeout=timeout))


def _blocking(
    method: Callable[Concatenate[Client, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate["SyncClient", P], T]:
    return _blocking_as(lambda _, result: result, method)


def _blocking_as(
    convert: "Callable[[SyncClient, T], R]", method: Callable[Concatenate[Client, P], Coroutine[Any, Any, T]]
) -> Callable[Concatenate["SyncClient", P], R]:
    @wraps(method)
    def blocking(self: "SyncClient", /, *args: P.args, **kwargs: P.kwargs) -> R:
        return convert(self, self._loop.run(method(self._client, *args, **kwargs)))

    return blocking


class SyncClient:
    """As Client, with blocking calls and the same parameters. Safe for several threads."""

    def __init__(self, url: str | None = None, **options: Any) -> None:
        self._loop = LoopThread("warrener-client")
        self._url, self._options = url, options
        self._created: Client | None = None

    @property
    def _client(self) -> Client:
        if self._created is None:
            self._created = Client(self._url, **self._options)
        return self._created

    def start(self) -> None:
        """See Client.start."""

        async def begin() -> None:
            await self._client.start()  # made inside the loop that it belongs to

        self._loop.start()
        self._loop.run(begin())

    def close(self) -> None:
        """See Client.close."""
        if self._loop.running:
            if self._created is not None:
                self._loop.run(self._created.close())
            self._loop.stop()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def is_connected(self) -> bool:
        """See Client.is_connected."""
        return self._created is not None and self._created.is_connected

    def _handle(self, job: Job) -> SyncJob:
        return SyncJob(job, self._loop)

    def _handles(self, jobs: list[Job]) -> list[SyncJob]:
        return [self._handle(job) for job in jobs]

    request = _blocking_as(_handle, Client.request)
    request_group = _blocking_as(_handle, Client.request_group)
    request_chain = _blocking_as(_handle, Client.request_chain)
    request_batch = _blocking_as(_handles, Client.request_batch)
    cancel = _blocking(Client.cancel)
    send = _blocking(Client.send)
    send_all = _blocking(Client.send_all)
    send_signal = _blocking(Client.send_signal)
    continue_held = _blocking(Client.continue_held)
    declare_topology = _blocking(Client.declare_topology)
    open_breaker = _blocking(Client.open_breaker)
    close_breaker = _blocking(Client.close_breaker)
    set_gate = _blocking(Client.set_gate)
    acknowledge_incident = _blocking(Client.acknowledge_incident)
    snooze_incident = _blocking(Client.snooze_incident)
    close_incident = _blocking(Client.close_incident)
    requeue_parked = _blocking(Client.requeue_parked)
    drop_parked = _blocking(Client.drop_parked)
    put_schedules = _blocking(Client.put_schedules)
    pause_schedule = _blocking(Client.pause_schedule)
    resume_schedule = _blocking(Client.resume_schedule)
    remove_schedule = _blocking(Client.remove_schedule)
    trigger_schedule = _blocking(Client.trigger_schedule)

    def request_many(
        self, specs: Iterable[JobSpec], *, batch: int = BATCH_SIZE, want_results: bool = True
    ) -> Iterator[SyncJob]:
        """See Client.request_many. The caller's thread reads `specs`."""
        sending: deque[Future[list[Job]]] = deque()
        source = iter(specs)
        try:
            while some := list(islice(source, batch)):
                if len(sending) >= MAX_BATCHES_IN_FLIGHT:
                    yield from self._handles(self._loop.await_(sending[0]))
                    sending.popleft()
                sending.append(
                    self._loop.submit(
                        self._client.request_batch(some, want_results=want_results, wait_for_confirm=True)
                    )
                )
            while sending:
                yield from self._handles(self._loop.await_(sending[0]))
                sending.popleft()
        finally:
            for future in sending:
                future.cancel()
