"""What open pages cost the console, and how soon they show a change, while 200 jobs a second run."""

import asyncio
import shutil
import statistics
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter

import httpx
import psutil
from tests.acceptance.warren import Warren
from tests.console.big_store import fill
from tests.console.site import keep_requesting, prepare, run_console

from warrener_client import Client
from warrener_devservers import PrivateRabbitMQ
from warrener_store import migrate

JOBS = 100_000  # of the past
PAGES = 50
MAX_SHARE = 0.10  # of one processor
MAX_DELAY = 1.0  # seconds from an event to the page, p95
CHANGES = 20
_KINDS = ("/", "/", "/", "/", "/jobs", "/jobs", "/jobs/{running}", "/queues", "/agents", "/schedules")


def measure_open_pages(seconds: float) -> int:
    """Print the console's share of a processor with 50 open pages, and the delays; 1 if a bound is missed."""
    with _busy_console() as (address, broker_url, running, process):
        share, delays = asyncio.run(_Readers(address, running).watch(broker_url, process, seconds))
    p50, p95 = statistics.median(delays), statistics.quantiles(delays, n=20)[-1]
    print(f"{PAGES} open pages at 200 jobs/s: {share:.1%} of a processor (at most {MAX_SHARE:.0%})")
    print(f"from an event to the page: p50 {p50:.2f} s, p95 {p95:.2f} s (at most {MAX_DELAY:g} s)")
    return 0 if share <= MAX_SHARE and p95 <= MAX_DELAY else 1


class _Readers:
    """Fifty readers, and one whose pages are timed."""

    def __init__(self, address: str, running: str) -> None:
        self._address, self._running = address, running

    async def watch(
        self, broker_url: str, process: psutil.Process, seconds: float
    ) -> tuple[float, list[float]]:
        """The share of a processor over so many seconds, and then the delays of changes."""
        limits = httpx.Limits(max_connections=PAGES + CHANGES + 5)
        async with (
            httpx.AsyncClient(base_url=self._address, timeout=None, limits=limits) as http,
            asyncio.TaskGroup() as group,
        ):
            pages = [_KINDS[number % len(_KINDS)].format(running=self._running) for number in range(PAGES)]
            received = [0] * PAGES
            everybody = asyncio.Event()
            readers = [
                group.create_task(self._read(http, page, received, number, everybody))
                for number, page in enumerate(pages)
            ]
            await everybody.wait()
            share = await self._share(process, seconds)
            print(f"{sum(received)} contents reached {PAGES} pages", flush=True)
            delays = await self._delays(http, broker_url)
            for reader in readers:
                reader.cancel()
        return share, delays

    async def _read(
        self, http: httpx.AsyncClient, page: str, received: list[int], number: int, everybody: asyncio.Event
    ) -> None:
        async with http.stream("GET", "/live", params={"page": page}) as stream:
            async for line in stream.aiter_lines():
                received[number] += line.startswith("event: content")
                if all(received):
                    everybody.set()

    async def _share(self, process: psutil.Process, seconds: float) -> float:
        began, before = perf_counter(), process.cpu_times()
        await asyncio.sleep(seconds)
        after = process.cpu_times()
        used = after.user + after.system - before.user - before.system
        return used / (perf_counter() - began)

    async def _delays(self, http: httpx.AsyncClient, broker_url: str) -> list[float]:
        """Seconds from the end of a job, as its requester receives it, to the page that shows it."""
        delays: list[float] = []
        async with Client(broker_url) as client:
            for _ in range(CHANGES):
                job = await client.request("import.third_time", {"path": "timed.csv"})
                seen = asyncio.ensure_future(self._seen(http, f"/jobs/{job.job_id}"))
                await job.result(timeout=60)
                ended = perf_counter()
                delays.append(max(0.0, await asyncio.wait_for(seen, 30) - ended))
        return delays

    async def _seen(self, http: httpx.AsyncClient, page: str) -> float:
        while (await http.get(page)).status_code != 200:  # noqa: ASYNC110 - another process stores the job
            await asyncio.sleep(0.05)
        async with http.stream("GET", "/live", params={"page": page}) as stream:
            async for line in stream.aiter_lines():
                if "badge" in line and "succeeded<" in line:
                    return perf_counter()
        raise AssertionError("the stream has ended")


@contextmanager
def _busy_console() -> Generator[tuple[str, str, str, psutil.Process]]:
    folder = Path(tempfile.mkdtemp(prefix="warrener-"))
    folder.chmod(0o711)
    broker = PrivateRabbitMQ(folder / "rabbitmq")
    warren: Warren | None = None
    try:
        broker.start()
        store = f"sqlite:///{folder}/state.db"
        asyncio.run(_make_past(store))
        warren = Warren(folder, broker.url, store, f"sqlite:///{folder}/ledger.db")
        samples = prepare(warren)
        # All readers are one principal here, which may have 50 open pages: the timed one is one more.
        limit = {"WARRENER_CONSOLE_PRINCIPAL_VIEWER_LIMIT": str(2 * PAGES)}
        with keep_requesting(warren), run_console(warren, **limit) as console:
            yield console.address, broker.url, samples["running"], psutil.Process(console.process_id)
    finally:
        if warren is not None:
            warren.end()
        broker.stop()
        shutil.rmtree(folder, ignore_errors=True)


async def _make_past(store: str) -> None:
    await migrate(store)
    await fill(store, JOBS)
