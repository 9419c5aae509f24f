"""Services whose wall clocks are wrong, or are set while they work: time is the database's (point 4 of "under
strain"). The clocks are faked; the broker, the database and every monotonic clock are true."""

import json
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Mapping, Sequence

import pytest
from tests.acceptance.run_notes import runs_in
from tests.acceptance.store_queries import rows_of
from tests.acceptance.warren import ServiceProcess, Warren, until
from tests.faults.fake_time import FakeTime

from warrener_client import JobSpec, SyncClient, SyncJob
from warrener_contracts.state_machine import JobState

MODULE = "tests.acceptance.clock_handlers"
DELAY = 6.0
LONG = 9.0  # seconds: longer than the supervisor's lease and the claims of the ledger
JOBS = 12


@pytest.fixture
def shared(warren: Warren, postgres_store_url: str) -> Warren:
    """Its store and its ledger are in PostgreSQL, as where services have hosts of their own."""
    warren.store_url = warren.ledger_url = postgres_store_url
    return warren


def test_4_with_clocks_a_minute_apart_that_step_nothing_is_lost_doubled_or_expired_early(
    shared: Warren,
) -> None:
    wrong: Mapping[str, Sequence[float]] = {"scheduler": (0, -45), "supervisor": (0, -60), "agent": (0, 60)}
    clocks = begin(shared, wrong)
    with SyncClient(shared.broker_url) as client:
        long = list(client.request_many([JobSpec("long", {"seconds": LONG})] * JOBS))
        began = time.monotonic()
        again = list(client.request_many([JobSpec("again", expires_after=40)] * JOBS))
        until(lambda: len(runs_in(shared.folder)) >= 2 * JOBS, "all to run")
        for name, step in (("supervisor", -30.0), ("agent", 60.0), ("scheduler", -60.0)):
            clocks[name][0].set(step)
        stepped = shared.services[::2]
        until(lambda: all("which is not used" in clock_of(one) for one in stepped), "the steps to be noticed")
        assert [job.result(timeout=60) for job in again] == [2] * JOBS
        assert time.monotonic() - began > DELAY - 0.5, "not retried before it was due by a true clock"
        assert [job.result(timeout=60) for job in long] == [1] * JOBS
    check(shared, long, again)
    until(lambda: all("which is not used" in clock_of(one) for one in shared.services), "all to say so")
    for service in shared.services:
        assert service.log.read_text().count("clock.deviates") == 1, "it is said once"


# -- the course of it --------------------------------------------------------------------------------------


def begin(warren: Warren, wrong: Mapping[str, Sequence[float]]) -> dict[str, list[FakeTime]]:
    """Of each service as many as are named, with clocks that are wrong by so many seconds."""
    clocks: dict[str, list[FakeTime]] = {}
    for name, apart in wrong.items():
        for number, seconds in enumerate(apart):
            clock = FakeTime(warren.folder / f"clock-{name}-{number}")
            clock.set(seconds)
            clocks.setdefault(name, []).append(clock)
            modules = (MODULE, "--slots", str(2 * JOBS)) if name == "agent" else ()
            warren.start(name, *modules, **clock.environment())
    warren.wait_ready()
    return clocks


def check(warren: Warren, long: Sequence[SyncJob], again: Sequence[SyncJob]) -> None:
    """Nothing was lost, doubled or expired."""
    assert books(warren, long) == {(JobState.SUCCEEDED, 1, 0, 0)}
    assert books(warren, again) == {(JobState.SUCCEEDED, 2, 0, 1)}
    begun = Counter((run.job_id, run.attempt) for run in runs_in(warren.folder))
    assert set(begun.values()) == {1}, "each attempt ran once"


def books(warren: Warren, jobs: Sequence[SyncJob]) -> set[tuple[JobState, int, int, int]]:
    rows = rows_of(warren, [job.job_id for job in jobs]).values()
    return {(row.state, row.attempt, row.losses, row.failures) for row in rows}


def clock_of(service: ServiceProcess) -> str:
    """What it says of its clock at /ready, whether it is ready or not; nothing while it does not answer."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{service.health_port}/ready", timeout=10) as answer:
            report = json.load(answer)
    except urllib.error.HTTPError as not_ready:
        with not_ready:
            report = json.load(not_ready)
    except OSError:
        return ""
    state: str = report["checks"].get("clock", "")
    return state
