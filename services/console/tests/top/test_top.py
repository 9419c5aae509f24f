"""`warrener top`: the view made from readings, a picture that fits the terminal, and the command in one."""

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
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from services.console.tests.conftest import Run
from tests.store_access import on_store
from tests.store_rows import NOON, after, agent_row, died, queued_job, succeeded

from warrener.context import ResolvedEndpoints
from warrener.doctor.inspector import QueueInfo
from warrener.gathering import BrokerFacts
from warrener.operations.agents import AgentSummary, agent_of
from warrener.operations.breakers import Breaker
from warrener.operations.masking import Masker
from warrener.render.screen import THEME
from warrener.top.live import System, parse_keys
from warrener.top.picture import SECTIONS, Choices, frame
from warrener.top.view import StoreReading, SystemView, make_view
from warrener_client.testing import StandIn
from warrener_contracts.circuit_breaker import BreakerState
from warrener_contracts.state_machine import JobState
from warrener_store import Store
from warrener_store.jobs.rows import JobRow, StateCount
from warrener_store.jobs.views import QueueHead

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
    for part in ("\nqueues\n", "\ntypes\n", "\nagents\n", "loader-1", "metrics: supervisor-1"):
        assert part in result.stdout
    assert "\nincidents" not in result.stdout, "a section without rows is left out"
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
        silent.endpoints, silent.broker = there.endpoints, there.broker
        await silent.read_store()
        await silent.read_broker()
        for system in (silent, there):
            await system.close()
        await silent.read_store()
        assert silent.view.store_trouble is None, "one that is closed connects again"
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


# -- the view ----------------------------------------------------------------------------------------------


def agent(name: str, **changes: Any) -> AgentSummary:
    fields = {"queues": ("loading",), "running": 3, "free_slots": {"loading": 7}} | changes
    return agent_of(agent_row(name, **fields), NOON, Masker(None))


def jobs(state: JobState, number: int, *, kind: str = "flights.load", queue: str = "loading") -> StateCount:
    return StateCount(job_type=kind, queue=queue, state=state, jobs=number)


BEFORE = StoreReading(
    at=10.0,
    now=after(-2),
    counts=(jobs(JobState.QUEUED, 8), jobs(JobState.SUCCEEDED, 100), jobs(JobState.DEAD, 1)),
    duties={},
)
STORE = StoreReading(
    at=12.0,
    now=NOON,
    counts=(
        jobs(JobState.QUEUED, 10),
        jobs(JobState.RUNNING, 3),
        jobs(JobState.SUCCEEDED, 120),
        jobs(JobState.DEAD, 2),
        jobs(JobState.WAITING, 4, kind="mail.send", queue="mail"),
    ),
    heads=(QueueHead("loading", after(-42), unpublished=False),),
    agents=(agent("one"), agent("two", last_seen_at=after(-60))),
    duties={"metrics": "supervisor-1"},
)
BROKER = BrokerFacts(
    product="RabbitMQ 4.3",
    requests=QueueInfo(5, 2),
    statuses=QueueInfo(0, 1),
    queues={"loading": QueueInfo(10, 1), "mail": None},
)
VIEW = make_view(STORE, BROKER, 6, BEFORE, NOON)


def drawn(view: SystemView, width: int, height: int, choices: Choices | None = None) -> list[str]:
    screen = Console(width=width, height=height, theme=THEME, highlight=False, force_terminal=False)
    with screen.capture() as captured:
        screen.print(frame(view, choices or Choices(), width, height))
    return captured.get().removesuffix("\n").split("\n")


def test_the_view_has_store_and_broker_side_by_side_and_the_rates_between_two_readings() -> None:
    loading, mail = VIEW.queues
    assert (loading.name, loading.in_rate, loading.out_rate) == ("loading", 13.0, 10.5)
    assert (mail.name, mail.in_rate, mail.out_rate) == ("mail", 2.0, 0.0)
    load, _ = VIEW.job_types
    assert (load.succeeded_rate, load.failed_rate, load.jobs[JobState.DEAD]) == (10.0, 0.5, 2)
    assert (VIEW.totals.requested_rate, VIEW.totals.finished_rate) == (15.0, 10.5)
    assert (loading.jobs[JobState.QUEUED], loading.waiting, loading.consumers) == (10, 10, 1)
    assert loading.oldest == after(-42)
    assert (mail.jobs[JobState.WAITING], mail.exists, mail.oldest) == (4, False, None)
    services = VIEW.services
    assert (services.schedulers, services.supervisors, services.agents_alive) == (2, 1, 1)
    assert (services.slots_used, services.slots_free) == (3, 7), "silent agents have no free slots"
    assert drawn(VIEW, 120, 24)[2].endswith("requests 5  delayed 6")


def test_a_paused_queue_is_marked() -> None:
    breakers = [
        Breaker(name=name, state=BreakerState.OPEN, job_types=[]) for name in ("queue:mail", "job:loading")
    ]
    lines = make_view(replace(STORE, breakers=breakers), BROKER, 6, BEFORE, NOON).queues
    assert {line.name: line.paused for line in lines} == {"loading": False, "mail": True}


def test_a_first_reading_has_no_rates_and_a_deletion_makes_none_negative() -> None:
    first = make_view(STORE, BROKER, 6, None, NOON)
    assert {first.totals.requested_rate, first.queues[0].in_rate, first.job_types[0].failed_rate} == {None}
    pruned = make_view(replace(STORE, counts=(jobs(JobState.SUCCEEDED, 3),)), BROKER, 6, BEFORE, NOON)
    assert (pruned.queues[0].in_rate, pruned.queues[0].out_rate) == (0.0, 0.0)


def test_nothing_is_known_of_what_does_not_answer() -> None:
    view = make_view("the store is away", BrokerFacts("no broker"), None, BEFORE, NOON)
    assert (view.store_trouble, view.broker_trouble) == ("the store is away", "no broker")
    assert (view.services.schedulers, view.services.agents_alive, view.totals.jobs["queued"]) == (None,) * 3
    lines = drawn(view, 80, 24)
    assert "? schedulers  ? supervisors  ? agents" in lines[1]
    assert lines[3:5] == ["✗ store: the store is away", "✗ broker: no broker"]
    unread = make_view("", BrokerFacts(), None, None, NOON)
    assert (unread.store_trouble, unread.broker_trouble) == (None, None), "nothing is wrong before a reading"
    [queue, *_] = make_view(STORE, BrokerFacts("no broker"), None, BEFORE, NOON).queues
    assert (queue.jobs[JobState.QUEUED], queue.waiting) == (10, None), "the store stays in view"


@pytest.mark.parametrize("width", [80, 200])
@pytest.mark.parametrize("height", [24, 60])
@pytest.mark.parametrize("section", range(len(SECTIONS)))
def test_a_frame_fills_the_terminal_and_is_no_larger(width: int, height: int, section: int) -> None:
    many = tuple(agent(f"agent-{n:03}-with-a-name-that-is-long" * 3) for n in range(70))
    view = make_view(replace(STORE, agents=many), BROKER, 6, BEFORE, NOON)
    lines = drawn(view, width, height, Choices(section=section))
    assert len(lines) == height
    assert max(map(len, lines)) <= width
    assert lines[0].startswith("warrener top")
    assert lines[-1].startswith("q quit")
    assert any(line.startswith(SECTIONS[section].name) for line in lines[4:])


def test_a_higher_terminal_shows_more_sections() -> None:
    def sections(height: int) -> int:
        lines = drawn(VIEW, 80, height)[4:-1]
        return sum(line.split("  ")[0] in {"queues", "types", "agents"} for line in lines)

    assert (sections(10), sections(24)) == (1, 3)


def test_keys_choose_and_pause() -> None:
    chosen = Choices()
    for key in parse_keys(b"\x1b[C\x1bOC\x1b[D3p"):
        chosen = chosen.press(key)
    assert (chosen.section, chosen.paused) == (2, True)
    assert chosen.press("x") == chosen
    assert Choices().press("left").section == len(SECTIONS) - 1
    assert Choices().press("tab").section == 1
