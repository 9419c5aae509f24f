"""An event loop in a thread of its own."""

import asyncio
import concurrent.futures
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from warrener_client.errors import ClientClosed

T = TypeVar("T")


class LoopThread:
    """Runs coroutines for threads that have no loop. Does not keep the process alive."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._thread: threading.Thread | None = None

    @property
    def running(self) -> bool:
        """Whether it takes work."""
        return self._loop is not None

    def start(self) -> None:
        """Return when the loop runs. A second call does nothing."""
        if self._loop is not None:
            return
        begun = threading.Event()
        self._thread = threading.Thread(target=self._live, args=(begun,), name=self._name, daemon=True)
        self._thread.start()
        begun.wait()

    def stop(self) -> None:
        """Cancel what still runs, and return when the thread has ended."""
        loop, self._loop = self._loop, None
        if loop is None or self._stop is None or self._thread is None:
            return
        loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work`. Interrupted (Ctrl-C), it cancels the work."""
        return self.await_(self.submit(work))

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Begin `work`."""
        if self._loop is None:
            work.close()
            raise ClientClosed(
                "expected an open client, got a closed one: use `with SyncClient(…) as client`"
            )
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def await_(self, future: Future[T]) -> T:
        """The result of work that was begun."""
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise ClientClosed("expected an open client until the answer came, got a closed one") from None
        except BaseException:
            future.cancel()
            raise

    def _live(self, begun: threading.Event) -> None:
        asyncio.run(self._until_stopped(begun))

    async def _until_stopped(self, begun: threading.Event) -> None:
        self._stop = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        begun.set()
        await self._stop.wait()
