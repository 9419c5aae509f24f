"""Point 2 of supervision: four timeouts, each said by the watchdog and judged like any other news; and what
is timed out is really stopped before it is called so."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.acceptance.event_tap import EventTap
from tests.acceptance.fork_server import ForkServers
from tests.acceptance.store_queries import find_job, job_history, job_types_of
from tests.acceptance.test_lost_agents import Begun, runs
from tests.acceptance.warren import ServiceProcess, Warren, locked, until, with_heartbeat
from tests.servers.kinds import RabbitMQServer

from warrener_client import JobExpired, SyncClient
from warrener_client.sync import SyncJob
from warrener_contracts.events import (
    AttemptLost,
    AttemptStartTimedOut,
    AttemptTimedOut,
    ErrorKind,
    JobDeadlinePassed,
)
from warrener_contracts.state_machine import JobState
from warrener_contracts.topology import STATUS
from warrener_store.jobs.rows import AttemptOutcome, JobRow

MODULE = "tests.acceptance.timeout_handlers"

FORGETFUL = """
# The fault stands here and not in the product: in this agent nobody looks at the time.
from warrener_agent.run_table import Deadlines
Deadlines.watch = lambda self, run, over_at: None
from tests.acceptance.timeout_handlers import agent
"""


@pytest.fixture(scope="module")
def warren(
    tmp_path_factory: pytest.TempPathFactory,
    broker: RabbitMQServer,
    sqlite_template: Path,
    forks: ForkServers,
) -> Iterator[Warren]:
    """One for all these tests; the agents are each test's own."""
    folder = tmp_path_factory.mktemp("timeouts")
    store = f"sqlite:///{shutil.copy(sqlite_template, folder / 'state.db')}"
    url = broker.add_vhost("timeouts")
    one = Warren(folder, url, store, f"sqlite:///{folder}/ledger.db", forks=forks)
    one.start("scheduler")
    one.start("supervisor", WARRENER_SUPERVISOR_TIMEOUT_GRACE="1")
    one.wait_ready()
    yield one
    one.end()
    broker.drop_vhost("timeouts")


@pytest.fixture
def start(warren: Warren) -> Iterator[Callable[..., ServiceProcess]]:
    """Starts agents, which end with the test."""
    agents: list[ServiceProcess] = []

    def one(module: str = MODULE, **environment: str) -> ServiceProcess:
        agents.append(warren.start("agent", module, **environment))
        until(agents[-1].ready, "the agent to be ready")
        return agents[-1]

    yield one
    for agent in agents:
        agent.end()


Start = Callable[..., ServiceProcess]


def test_2_queued_too_long_it_is_named_and_waits_on(warren: Warren, start: Start) -> None:
    start().end()  # so that the job type is known, and nobody runs it
    until(lambda: "begins" in job_types_of(warren), "the job type to be announced")
    tap = EventTap(warren.broker_url, STATUS)
    with SyncClient(warren.broker_url) as client:
        job = client.request("begins", policy={"start_timeout": "2s"})
        until(lambda: tap.received(AttemptStartTimedOut), "the watchdog to say that nobody takes it")
        start()
        assert job.result(timeout=60) == 1
    row, _, _ = job_history(warren, job.job_id)
    assert (row.attempt, row.failures, row.losses) == (1, 0, 0), "a backlog is not a loss"
    assert [run.attempt for run in runs_of(warren, job)] == [1]


def test_2_ran_too_long_its_agent_stops_it_and_reports_it(warren: Warren, start: Start) -> None:
    start()
    with SyncClient(warren.broker_url) as client:
        job = client.request("spins")
        assert job.result(timeout=60) == 2
    first, second = runs_of(warren, job)
    assert not alive(first.pid)
    assert second.at - first.at >= 1, "its time, and the pause before another attempt"
    _, attempts, _ = job_history(warren, job.job_id)
    assert attempts[0].error is not None
    assert attempts[0].error.kind is ErrorKind.TIMEOUT


def test_2_silent_too_long_it_is_stopped_in_an_agent_that_lives(warren: Warren, start: Start) -> None:
    start()
    with SyncClient(warren.broker_url) as client:
        job = client.request("falls_silent")
        assert job.result(timeout=90) == 2
    assert (warren.folder / "fell-silent").exists(), "while it says that it lives it is not stopped"
    first, _ = runs_of(warren, job)
    assert not alive(first.pid), "it was killed"
    row, [silent, _], _ = job_history(warren, job.job_id)
    assert row.failures == 1
    assert silent.error is not None
    assert silent.error.kind is ErrorKind.TIMEOUT
    assert "heartbeat_timeout of 12 s" in silent.error.message
    assert silent.error.flight_record is not None
    assert "in falls_silent" in (silent.error.flight_record.stacks or "")


def test_2_ran_too_long_and_its_agent_did_not_see_it_the_supervisor_has_it_killed(
    warren: Warren, start: Start
) -> None:
    (warren.folder / "forgetful.py").write_text(FORGETFUL)
    start("forgetful")
    tap = EventTap(warren.broker_url, STATUS)
    with SyncClient(warren.broker_url) as client:
        job = client.request("spins")
        until(lambda: tap.received(AttemptTimedOut), "the watchdog to say that it runs too long")
        row = until(lambda: no_more_running(warren, job), "it to be called timed out")
        first = runs_of(warren, job)[0]  # the second may run by now
        assert not alive(first.pid), "dead before it was called so"
        assert (row.failures, row.losses) == (1, 0)
        assert job.result(timeout=60) == 2
    _, attempts, _ = job_history(warren, job.job_id)
    assert attempts[0].outcome is AttemptOutcome.TIMED_OUT
    assert attempts[0].error is not None
    assert "has stopped it on request" in attempts[0].error.message


def test_2_silent_too_long_it_is_lost(warren: Warren, start: Start) -> None:
    # The broker misses it after 14 s, later than the supervisor, and gives what waits for it to the other.
    first = start(WARRENER_BROKER_URL=with_heartbeat(warren.broker_url, 7))
    tap = EventTap(warren.broker_url, STATUS)
    with SyncClient(warren.broker_url) as client:
        job = client.request("waits")
        until(lambda: runs_of(warren, job), "it to run")
        until(lambda: now(warren, job).state is JobState.RUNNING, "it to be heard of")
        with locked(warren.folder / "ledger.db"), locked(warren.folder / "ledger.db-claims"):
            first.freeze()
        start()
        assert job.result(timeout=60) == 2
    lost = [event.data for event in tap.received(AttemptLost) if event.data.job_id == job.job_id]
    assert {(data.job_id, data.attempt) for data in lost} == {(job.job_id, 1)}
    row = now(warren, job)
    assert (row.failures, row.losses) == (0, 1)


def test_2_too_old_in_all_it_expires_wherever_it_is(warren: Warren, start: Start) -> None:
    agent = start()
    tap = EventTap(warren.broker_url, STATUS)
    with SyncClient(warren.broker_url) as client:
        running = client.request("waits", expires_after="15s")  # it begins before
        waiting = client.request("waits", delay="1h", expires_after="3s")
        until(lambda: runs_of(warren, running), "one of them to run")
        for job in (running, waiting):
            with pytest.raises(JobExpired):
                job.result(timeout=60)
    both = {running.job_id, waiting.job_id}
    assert {event.data.job_id for event in tap.received(JobDeadlinePassed)} >= both
    assert agent.end() == 0, "nothing of it runs any more"


# -- looking -----------------------------------------------------------------------------------------------


def runs_of(warren: Warren, job: SyncJob) -> list[Begun]:
    return [run for run in runs(warren) if run.job_id == job.job_id]


def now(warren: Warren, job: SyncJob) -> JobRow:
    """The job as it stands; it was accepted."""
    row, _ = find_job(warren, job.job_id)
    return row


def no_more_running(warren: Warren, job: SyncJob) -> JobRow | None:
    row = now(warren, job)
    return row if row.state is not JobState.RUNNING and row.failures else None


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
