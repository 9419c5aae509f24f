"""Point 3 of supervision: an agent that is killed, frozen or cut off is found, its attempts run elsewhere,
and what it does later changes nothing. With default settings, but for the slots.

That it takes at most ten seconds is proved in virtual time (`tests/simulation/test_lost_agent.py`): how
long it takes here depends on what else the machine does, so it is printed alone."""

import signal
import sqlite3
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

from tests.acceptance.store_queries import rows_of
from tests.acceptance.warren import ServiceProcess, Warren, locked, until
from tests.faults.swallowing_proxy import SwallowingProxy, by_way_of
from tests.servers.kinds import RabbitMQServer

from warrener_client import JobSpec, SyncClient
from warrener_client.sync import SyncJob
from warrener_contracts.state_machine import JobState

MODULE = "tests.acceptance.lost_handlers"
JOBS = 100
QUICK = 150


class Begun(NamedTuple):
    """A line of what the handlers have noted."""

    job_id: UUID
    attempt: int
    pid: int
    at: float


def test_3_the_jobs_of_a_killed_agent_run_elsewhere(warren: Warren) -> None:
    first = start(warren)
    with SyncClient(warren.broker_url) as client:
        long = begin_long(warren, client, first)
        other = start_other(warren)
        quick = begin_quick(warren, client)
        killed_at = time.time()
        first.kill()
        assert {job.result(timeout=60) for job in long} == {other.process.pid}
        for job in quick:
            job.result(timeout=60)
    print_gaps(warren, first, killed_at)
    check_books(warren, long, quick)


def test_3_the_jobs_of_a_frozen_agent_run_elsewhere_and_thawed_it_changes_nothing(warren: Warren) -> None:
    first = start(warren)
    with SyncClient(warren.broker_url) as client:
        long = begin_long(warren, client, first)
        other = start_other(warren)
        # In no transaction: who is frozen in one of a SQLite ledger holds its lock.
        with locked(warren.folder / "ledger.db"), locked(warren.folder / "ledger.db-claims"):
            first.freeze()
        frozen_at = time.time()
        quick = begin_quick(warren, client)
        assert {job.result(timeout=60) for job in long} == {other.process.pid}
        for job in quick:
            job.result(timeout=60)
        until(lambda: time.time() - frozen_at >= 60, "a minute to be over", within=70)

        (warren.folder / "go").touch()
        first.signal(signal.SIGCONT)
        other.end()
        again = client.request("quick")
        assert again.result(timeout=60) == first.process.pid, "thawed, it works again"
    assert first.end() == 0, "all that it had to say is said"
    print_gaps(warren, first, frozen_at)
    check_books(warren, long, [*quick, again])


def test_3_an_agent_that_is_cut_off_stops_what_runs_elsewhere(warren: Warren, broker: RabbitMQServer) -> None:
    proxy = SwallowingProxy(broker.port)
    first = start(warren, WARRENER_BROKER_URL=by_way_of(warren.broker_url, proxy.port))
    with SyncClient(warren.broker_url) as client:
        long = begin_long(warren, client, first)
        other = start_other(warren)
        cut_at = time.time()
        proxy.close()  # it reaches the ledger still, and renews its claims
        assert {job.result(timeout=60) for job in long} == {other.process.pid}
    until(lambda: len(stopped_in(first)) == JOBS, "it to have stopped them all")
    (warren.folder / "go").touch()
    print_gaps(warren, first, cut_at)
    check_books(warren, long, [])
    first.kill()  # it has nobody to take leave of


def test_3_the_attempts_of_an_agent_that_restarts_at_once_are_retried_without_waiting(warren: Warren) -> None:
    """By its leases they would have to wait for ten minutes."""
    warren.environment = {"WARRENER_AGENT_CLAIM_TTL": "599", "WARRENER_SUPERVISOR_AGENT_TIMEOUT": "600"}
    first = start(warren)
    with SyncClient(warren.broker_url) as client:
        long = begin_long(warren, client, first)
        first.kill()
        again = start_other(warren)
        assert {job.result(timeout=60) for job in long} == {again.process.pid}
    assert {run.attempt for run in runs(warren)} == {1, 2}, "lost by their holder's dead process"
    check_books(warren, long, [])


# -- the course of it --------------------------------------------------------------------------------------


def start(warren: Warren, **environment: str) -> ServiceProcess:
    """A warren with the agent that will be lost."""
    make_table(warren)
    warren.start("scheduler")
    warren.start("supervisor")
    first = warren.start("agent", MODULE, "--slots", str(JOBS), WAITS="yes", **environment)
    warren.wait_ready()
    return first


def start_other(warren: Warren) -> ServiceProcess:
    """The agent that is left."""
    other = warren.start("agent", MODULE, "--slots", str(JOBS))
    warren.wait_ready()
    return other


def begin_long(warren: Warren, client: SyncClient, agent: ServiceProcess) -> Sequence[SyncJob]:
    """A hundred jobs that run in `agent`."""
    jobs = list(client.request_many([JobSpec("long")] * JOBS))
    until(lambda: len(runs(warren)) == JOBS, "all long ones to run")
    assert {run.pid for run in runs(warren)} == {agent.process.pid}
    return jobs


def begin_quick(warren: Warren, client: SyncClient) -> Sequence[SyncJob]:
    """Many that are done at once; returns in the midst of them."""
    jobs = list(client.request_many([JobSpec("quick")] * QUICK))
    until(lambda: len(effects(warren)) > QUICK // 10, "some of the quick ones to be done")
    return jobs


def print_gaps(warren: Warren, lost: ServiceProcess, at: float) -> None:
    """Between the loss and the run elsewhere; for who asks pytest for the output (-rP)."""
    gaps = sorted(run.at - at for run in runs(warren) if run.pid != lost.process.pid)
    print(f"gaps: median {gaps[len(gaps) // 2]:.1f} s, p99 {gaps[-2]:.1f} s, longest {gaps[-1]:.1f} s")


def check_books(warren: Warren, long: Sequence[SyncJob], quick: Sequence[SyncJob]) -> None:
    """Each job has one effect and one result, and each long one ran twice: here and there."""
    rows = rows_of(warren, [job.job_id for job in (*long, *quick)])
    assert {row.state for row in rows.values()} == {JobState.SUCCEEDED}
    assert Counter(effects(warren)) == {str(job_id): 1 for job_id in rows}, "no effect twice, none missing"
    times = Counter(run.job_id for run in runs(warren))
    assert times == {job.job_id: 2 for job in long}
    assert all(row.failures == 0 for row in rows.values()), "a loss is not charged to the job"


# -- looking -----------------------------------------------------------------------------------------------


def runs(warren: Warren) -> list[Begun]:
    """What the long ones have noted."""
    notes = Path(warren.folder, "runs")
    lines = notes.read_text().splitlines() if notes.exists() else []
    return [
        Begun(UUID(job), int(attempt), int(pid), float(at)) for job, attempt, pid, at in map(str.split, lines)
    ]


def stopped_in(agent: ServiceProcess) -> set[str]:
    """The jobs that it has stopped: their claims were lost, or it was too slow to renew them in time."""
    actions = ("agent.fenced", "agent.self_fenced")
    return {record["job_id"] for action in actions for record in agent.records(action)}


def effects(warren: Warren) -> list[str]:
    """What is in the handlers' table."""
    with closing(sqlite3.connect(warren.folder / "ledger.db", timeout=30)) as ledger:
        return [note for (note,) in ledger.execute("SELECT note FROM effects")]


def make_table(warren: Warren) -> None:
    """Beside the ledger, where the handlers' transactions are."""
    with closing(sqlite3.connect(warren.folder / "ledger.db")) as ledger:
        ledger.execute("CREATE TABLE effects (note TEXT)")
