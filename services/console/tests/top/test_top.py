"""`warrener top` beside a real store and a real broker, in a terminal and outside of one."""

import asyncio
import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from tests.store_access import on_store
from tests.store_rows import agent_row, died, queued_job, succeeded
from typer.testing import Result

from warrener.context import ResolvedEndpoints
from warrener.top.live import System
from warrener.top.readings import StoreReading
from warrener_client.testing import StandIn
from warrener_store import Store
from warrener_store.jobs.rows import JobRow

Run = Callable[..., Result]
WAIT = 60.0
NOWHERE = "amqp://127.0.0.1:1/"
NO_STORE = "postgresql://127.0.0.1:1/none"


async def fill(store: Store) -> JobRow:
    """Store an agent, a duty, and three jobs: a queued one, a succeeded one and a dead one."""
    now = await store.time()
    later = now + timedelta(hours=1)  # alive for as long as the test takes
    jobs = [queued_job() for _ in range(3)]
    await store.insert_jobs(jobs)
    await store.save_jobs([succeeded(jobs[1]), died(jobs[2])])
    await store.put_agents(
        [agent_row("loader-1", slots=4, running=1, last_seen_at=later, free_slots={jobs[0].queue: 3})]
    )
    await store.claim_duty("metrics", "supervisor-1", now, later)
    return jobs[0]


def test_one_document_has_the_whole_system(run: Run, store_url: str, vhost_url: str, warren: StandIn) -> None:
    assert warren is not None
    queued = on_store(store_url, fill)
    words = ("top", "--json", "--interval", "0.1", "--broker", vhost_url, "--store", store_url)
    result = run(*words)
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["services"] == {
        "schedulers": 1,
        "supervisors": found["services"]["supervisors"],
        "duties": {"metrics": "supervisor-1"},
        "agents_alive": 1,
        "agents_silent": 0,
        "slots_used": 1,
        "slots_free": 3,
    }
    (queue,) = found["queues"]
    assert (queue["name"], queue["jobs"]["queued"], queue["in_rate"]) == (queued.queue, 1, 0.0)
    (kind,) = found["job_types"]
    assert (kind["name"], kind["jobs"]["queued"], kind["jobs"]["dead"]) == (queued.job_type, 1, 1)
    assert found["totals"]["jobs"]["succeeded"] == 1
    assert (found["store_trouble"], found["broker_trouble"]) == (None, None)


def test_outside_of_a_terminal_one_picture_is_printed(run: Run, sqlite_store_url: str) -> None:
    on_store(sqlite_store_url, fill)
    result = run("top", "--interval", "0", "--broker", NOWHERE, "--store", sqlite_store_url)
    assert result.exit_code == 3, "the broker does not answer"
    assert "✗ broker: expected a broker" in result.stdout
    assert "loader-1" in result.stdout
    assert "\x1b" not in result.stdout


def test_the_view_goes_on_when_store_and_broker_come_back(sqlite_store_url: str, vhost_url: str) -> None:
    async def body() -> tuple[System, System]:
        silent = System(ResolvedEndpoints(NOWHERE, NO_STORE, "", from_up=False))
        there = System(ResolvedEndpoints(vhost_url, sqlite_store_url, "", from_up=False))
        for system in (silent, there):
            await system.read_store()
            await system.read_broker()
        assert silent.view.store_trouble is not None
        assert silent.view.broker_trouble is not None
        silent.store, silent.broker = there.store, there.broker
        await silent.read_store()
        await silent.read_broker()
        await silent.close()
        assert isinstance(await silent.store.read(), StoreReading), "a closed source connects again"
        await silent.close()
        return silent, there

    silent, there = asyncio.run(body())
    assert silent.is_complete
    assert there.is_complete


class Terminal:
    """A terminal of 24 lines by 80 columns with a command in it. What that writes is read as it comes: it
    would wait at its end, too, for a terminal that is full."""

    def __init__(self, side: int, process: "subprocess.Popen[bytes]") -> None:
        self._side, self.process = side, process
        self._output, self._changed, self._over = b"", threading.Condition(), threading.Event()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def until(self, text: str, *, after: int = 0) -> None:
        """Wait until this text has come after so many bytes."""
        with self._changed:
            found = self._changed.wait_for(lambda: text.encode() in self._output[after:], WAIT)
            assert found, self._output.decode(errors="replace")

    def press(self, keys: str) -> int:
        """Press these keys; returns how many bytes had come before."""
        with self._changed:
            before = len(self._output)
        os.write(self._side, keys.encode())
        return before

    def close(self) -> None:
        """Stop reading."""
        self._over.set()
        self._reader.join()

    def _read(self) -> None:
        while not self._over.is_set():
            if select.select([self._side], [], [], 0.05)[0]:
                more = os.read(self._side, 65536)
                with self._changed:
                    self._output += more
                    self._changed.notify_all()


@contextmanager
def in_terminal(here: Path, *words: str) -> Generator[Terminal]:
    """Run `warrener WORDS…` in a terminal, which must be as before at its end."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    before: list[object] = list(termios.tcgetattr(theirs))
    environment = {name: value for name, value in os.environ.items() if name not in {"COLUMNS", "LINES"}}
    process = subprocess.Popen(
        [sys.executable, "-m", "warrener", *words],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=here,
        env=environment | {"TERM": "xterm-256color"},
        start_new_session=True,
    )
    terminal = Terminal(ours, process)
    try:
        yield terminal
        process.wait(timeout=WAIT)
        assert list(termios.tcgetattr(theirs)) == before, "the terminal is as it was"
    finally:
        process.kill()
        process.wait()
        terminal.close()
        os.close(ours)
        os.close(theirs)


@pytest.fixture
def words(sqlite_store_url: str) -> tuple[str, ...]:
    on_store(sqlite_store_url, fill)
    return ("top", "--interval", "0.2", "--broker", NOWHERE, "--store", sqlite_store_url)


def test_keys_choose_and_q_leaves_the_terminal_as_it_was(here: Path, words: tuple[str, ...]) -> None:
    with in_terminal(here, *words) as terminal:
        terminal.until("✗ broker")
        terminal.until("q quit")
        terminal.press("3")
        terminal.press("p")
        terminal.until("paused")
        before = terminal.press("q")
        assert terminal.process.wait(timeout=WAIT) == 0
        terminal.until("\x1b[?1049l", after=before)  # the screen before is back
        terminal.until("\x1b[?25h", after=before)  # the cursor is back


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_like_q(here: Path, words: tuple[str, ...], number: signal.Signals) -> None:
    with in_terminal(here, *words) as terminal:
        terminal.until("loader-1")
        terminal.process.send_signal(number)
        assert terminal.process.wait(timeout=WAIT) == 0
