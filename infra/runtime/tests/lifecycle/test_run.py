"""The main of a service, as a process: signals, exit codes, and what it logs."""

import gc
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from queue import Empty, Queue
from typing import Any

import pytest

from warrener_runtime.lifecycle import gc_tuning

PREAMBLE = """
import asyncio, gc, os, sys
from warrener_runtime.bus.memory import MemoryBroker, MemoryBus
from warrener_runtime.bus.port import BusCredentialsRefused
from warrener_runtime.lifecycle import Consumer, Group, Loop, ManagedComponent, Resource
from warrener_runtime.lifecycle.run import Service, main, serve
from warrener_runtime.health import current_health_registry
from warrener_runtime.settings import ServiceSettings, SettingsError
from warrener_runtime.logs import get_logger

log = get_logger("script")

async def nothing():
    pass
"""

DEADLINE = 60.0


class Served:
    """A service in a process of its own; what it logs is read as it comes."""

    def __init__(self, script: str, folder: Path, variables: dict[str, str]) -> None:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("WARRENER_")}
        self.process = subprocess.Popen(
            [sys.executable, "-c", PREAMBLE + textwrap.dedent(script)],
            stderr=subprocess.PIPE,
            text=True,
            env=inherited | variables,
            cwd=folder,
        )
        self.lines: list[str] = []
        self._arrivals: Queue[str | None] = Queue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self._arrivals.put(line)
        self._arrivals.put(None)

    def until(self, action: str) -> dict[str, Any]:
        """The first record with this action; fails if the process ends or the time is up before."""
        while True:
            try:
                line = self._arrivals.get(timeout=DEADLINE)
            except Empty:
                line = None
            assert line is not None, f"expected {action}, got {self.lines}"
            self.lines.append(line)
            record: dict[str, Any] = json.loads(line) if line.startswith("{") else {}
            if record.get("action") == action:
                return record

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def ended(self) -> int:
        code = self.process.wait(DEADLINE)
        self._reader.join(DEADLINE)
        while (line := self._arrivals.get(timeout=DEADLINE)) is not None:
            self.lines.append(line)
        return code

    @property
    def log(self) -> str:
        return "".join(self.lines)

    def stop(self) -> int:
        """Stop it once it has started; the exit code."""
        self.until("service.started")
        self.signal(signal.SIGTERM)
        return self.ended()

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(DEADLINE)
        self._reader.join(DEADLINE)
        if self.process.stderr is not None:
            self.process.stderr.close()


Run = Callable[..., Served]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    with ExitStack() as closing:

        def start(script: str, **variables: str) -> Served:
            served = Served(script, tmp_path, variables)
            closing.callback(served.close)
            return served

        yield start


SLOW = """
class Slow(ManagedComponent):
    async def _on_start(self):
        log.info("Started.", action="slow.started", aside=gc.get_freeze_count())

    async def _on_drain(self):
        log.info("Finishing.", action="slow.draining")
        if "NEVER_FINISHES" in os.environ:
            await asyncio.Event().wait()
        log.info("Finished.", action="slow.finished")

async def build(settings, telemetry):
    return Service(Slow("slow"))

sys.exit(main("slow", ServiceSettings, build))
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_drains_and_ends_cleanly(run: Run, number: signal.Signals) -> None:
    service = run(SLOW, WARRENER_SHUTDOWN_TIMEOT="1")
    hint = service.until("settings.hint")["message"]
    assert "WARRENER_SHUTDOWN_TIMEOT looks like a slip of the pen" in hint
    assert service.until("slow.started")["aside"] > 10_000, "for the collector: modules alone are more"
    service.until("service.started")
    service.signal(number)
    assert service.until("service.draining")["signal"] == number.name
    service.until("slow.finished")
    assert service.until("service.stopped")["drained"] is True
    assert service.ended() == 0


def test_a_drain_ends_with_its_grace(run: Run) -> None:
    service = run(SLOW, NEVER_FINISHES="1", WARRENER_SHUTDOWN_TIMEOUT="0.1")
    service.until("service.started")
    service.signal(signal.SIGTERM)
    service.until("service.work_abandoned")
    assert service.ended() == 0
    assert "slow.finished" not in service.log


HURRIES = """
class Hurried(ManagedComponent):
    async def _on_start(self):
        self.hurry = asyncio.Event()
        current_health_registry.get().on_hurry(self.hurry.set)

    async def _on_drain(self):
        log.info("Finishing.", action="slow.draining")
        await self.hurry.wait()
        log.info("Giving back.", action="slow.hurrying")
        if "NEVER_FINISHES" in os.environ:
            await asyncio.Event().wait()
        log.info("Finished.", action="slow.finished")

async def build(settings, telemetry):
    return Service(Hurried("hurried"))

sys.exit(main("hurried", ServiceSettings, build))
"""


def test_a_second_signal_lets_who_can_hurry_finish(run: Run) -> None:
    service = run(HURRIES)
    service.until("service.started")
    for action in ("slow.draining", "slow.hurrying"):
        service.signal(signal.SIGTERM)
        service.until(action)
    service.until("slow.finished")
    assert service.until("service.stopped")["drained"] is True
    assert service.ended() == 0


@pytest.mark.parametrize(
    ("script", "actions"),
    [(SLOW, ["slow.draining"]), (HURRIES, ["slow.draining", "slow.hurrying"])],
    ids=["second", "third after a hurry"],
)
def test_another_signal_waits_for_nobody(run: Run, script: str, actions: list[str]) -> None:
    service = run(script, NEVER_FINISHES="1")
    service.until("service.started")
    for action in [*actions, "service.work_abandoned"]:
        service.signal(signal.SIGTERM)
        service.until(action)
    assert service.ended() == 0


def test_who_waits_for_the_broker_can_be_stopped(run: Run) -> None:
    service = run(
        """
        async def build(settings, telemetry):
            broker = MemoryBroker()
            broker.stop()
            bus = MemoryBus(broker)
            log.info("Built.", action="built")
            return Service(Resource("bus", bus.start, bus.close))
        sys.exit(main("waiting", ServiceSettings, build))
        """
    )
    service.until("built")
    service.signal(signal.SIGTERM)
    assert service.ended() == 0


def test_g8_a_stalled_service_exits_with_70_for_a_fresh_process_to_replace_it(run: Run) -> None:
    service = run(
        """
        async def build(settings, telemetry):
            broker = MemoryBroker()
            bus = MemoryBus(broker)
            async def go_away():
                broker.stop()
            async def ignore(subscription, batch):
                pass
            consumer = Consumer("ear", bus, "nowhere", 1, ignore)
            opened = Resource("bus", bus.start, bus.close)
            return Service(Group(opened, consumer, Resource("end", go_away, nothing)))
        sys.exit(main("stalled", ServiceSettings, build))
        """,
        WARRENER_CONSUMER_STALL_TIMEOUT="0.1",
    )
    assert "ear has received nothing" in service.until("service.gave_up")["reason"]
    assert service.ended() == 70


def test_settings_that_cannot_be_used_are_explained_without_a_traceback(run: Run) -> None:
    service = run(SLOW, WARRENER_HEALTH_PORT="many", WARRENER_BROKER_URL="http://me:secret@host/")
    assert service.ended() == 2
    assert service.log == (
        "slow cannot start with these settings:\n"
        "WARRENER_BROKER_URL: expected a URL like amqp://host:5672/vhost, got 'http://me:***@host/'\n"
        "WARRENER_HEALTH_PORT: expected a valid integer, got 'many'\n"
    )


def test_settings_that_show_themselves_useless_while_building_are_explained_too(run: Run) -> None:
    service = run(
        """
        async def build(telemetry):
            raise SettingsError(["WARRENER_STORE_URL: expected a URL, got 'x'"])
        sys.exit(serve("s", ServiceSettings(), build))
        """
    )
    assert service.ended() == 2
    assert "Traceback" not in service.log
    assert "WARRENER_STORE_URL: expected a URL, got 'x'" in service.log


def test_what_the_world_refuses_is_one_sentence_and_a_bug_is_a_traceback(run: Run) -> None:
    script = """
        async def build(settings, telemetry):
            raise {error}
        sys.exit(main("s", ServiceSettings, build))
        """
    refused = run(
        script.format(error="BusCredentialsRefused('amqp://me:secret@host/ refuses this password')")
    )
    assert refused.until("service.failed")["reason"] == "amqp://me:***@host/ refuses this password"
    assert refused.ended() == 1
    assert "Traceback" not in refused.log
    bug = run(script.format(error="ZeroDivisionError('oh')"))
    assert "ZeroDivisionError: oh" in bug.until("service.failed")["exception"]
    assert bug.ended() == 1


def test_an_unclean_stop_has_its_own_exit_code(run: Run) -> None:
    service = run(
        """
        async def jam():
            raise RuntimeError("jammed")
        async def build(settings, telemetry):
            return Service(Resource("r", nothing, jam))
        sys.exit(main("s", ServiceSettings, build))
        """
    )
    assert service.stop() == 1
    assert "service.stop_failed" in service.log


def test_health_is_served_while_it_starts_and_when_it_works(run: Run) -> None:
    service = run(
        """
        import json, urllib.error, urllib.request
        from warrener_devservers.process import free_block
        def request(path):
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
                    return answer.status, json.loads(answer.read())
            except urllib.error.HTTPError as error:
                with error:
                    return error.code, json.loads(error.read())
        async def look():
            for path in ("/live", "/ready"):
                status, content = await asyncio.to_thread(request, path)
                log.info("Requested.", action="requested" + path, status=status, content=content)
        async def build(settings, telemetry):
            await look()
            return Service(Loop("look", look, every=0.2), {"store": nothing})
        port = free_block((0,))  # where no outgoing connection begins
        sys.exit(main("s", ServiceSettings, build, {"health_port": port}))
        """
    )
    assert service.until("requested/live")["status"] == 200
    starting = service.until("requested/ready")
    assert (starting["status"], starting["content"]["checks"]) == (503, {"service": "it is starting"})
    service.until("service.started")
    while (working := service.until("requested/ready"))["status"] != 200:
        """The answer of the start is remembered for a second."""
    assert working["content"]["checks"] == {"service": "ok", "store": "ok"}
    service.signal(signal.SIGTERM)
    assert service.ended() == 0


class Link:
    held: object = None


@pytest.fixture
def put_back() -> Iterator[None]:
    """The other tests go on with Python's own way."""
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)
    gc.unfreeze()


@pytest.mark.usefixtures("put_back")
def test_what_a_batch_makes_brings_no_look_and_what_a_long_life_leaves_is_found() -> None:
    gc_tuning.freeze(gc_tuning.RARE)
    collections_before = gc.get_stats()[0]["collections"]
    batch = [[number] for number in range(10_000)]
    assert gc.get_stats()[0]["collections"] == collections_before
    circle = Link()
    circle.held = circle
    left = weakref.ref(circle)
    del circle
    batch += [[number] for number in range(60_000)]
    assert left() is None
