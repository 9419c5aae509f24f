"""A handler blocks the event loop of its agent, on real processes and a real broker."""

import asyncio
import signal
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, NamedTuple

import pytest
from tests.acceptance.run_notes import runs_in
from tests.acceptance.store_queries import dead_letter_of, effects, find_job, job_history, make_effects
from tests.acceptance.warren import ServiceProcess, Warren, until
from tests.conformance.ledger_rig import end_of_lease
from tests.faults.postgres_proxy import PostgresProxy, by_way_of

from warrener_client import JobDied, SyncClient, SyncJob
from warrener_contracts.state_machine import JobState
from warrener_runtime.lifecycle.run import ServiceExitCode

# -- for ever: the agent ends itself and says why; started again, it goes on (point 4 of supervision) ---


MODULE = "tests.acceptance.blocked_handlers"
QUICK = {
    "WARRENER_SUPERVISOR_AGENT_TIMEOUT": "6",
    "WARRENER_AGENT_CLAIM_TTL": "5",
    "WARRENER_AGENT_HEARTBEAT": "1",
    "WARRENER_AGENT_BLOCK_TIMEOUT": "10",
}
DEATHS = 2
NEIGHBOURS = 30


def last_word(agent: ServiceProcess) -> dict[str, Any]:
    """What an agent whose loop was blocked has logged of it."""
    (word,) = agent.records("agent.blocked")
    return word


def check_end(agent: ServiceProcess, hostile: SyncJob, attempt: int) -> None:
    """It ends by itself, with a code of its own, and its log names the job and shows the place."""
    until(lambda: agent.process.poll() is not None, "the blocked agent to end itself")
    assert agent.process.returncode == ServiceExitCode.BLOCKED
    word = last_word(agent)
    assert (word["job_id"], word["job_type"], word["attempt"]) == (str(hostile.job_id), "hostile", attempt)
    assert "in spin\n" in word["stacks"]
    assert word["seconds"] > 1, "ten if its leases are renewed meanwhile, less if a busy machine is too slow"


def test_4_a_coroutine_that_blocks_its_agent_is_quarantined_and_its_neighbours_finish_once(
    warren: Warren,
) -> None:
    make_effects(warren)
    warren.environment = QUICK
    warren.start_all(MODULE)
    with SyncClient(warren.broker_url) as client:
        hostile = client.request("hostile")
        neighbours = [client.request("neighbour", {"number": number}) for number in range(NEIGHBOURS)]
        for attempt in range(1, DEATHS + 1):  # as systemd would, with Restart=on-failure
            check_end(warren.services[-1], hostile, attempt)
            warren.start("agent", MODULE)
        with pytest.raises(JobDied):
            hostile.result(timeout=60)
        assert [job.result(timeout=60) for job in neighbours] == list(range(NEIGHBOURS))
    check_books(warren, hostile)


def check_books(warren: Warren, hostile: SyncJob) -> None:
    """It is quarantined by name, with what was seen of each attempt; of the others each was done once."""
    dead_letter = dead_letter_of(warren, hostile.job_id)
    assert dead_letter.reason == f"quarantined as poison: {DEATHS} attempts ended with their process"
    assert dead_letter.error is not None
    assert sum(": Blocked: " in death for death in dead_letter.error.crashes) == DEATHS
    _, attempts, _ = job_history(warren, hostile.job_id)
    for each in attempts:
        assert each.error is not None
        assert each.error.flight_record is not None
        assert "in spin\n" in (each.error.flight_record.stacks or "")
    assert sorted(map(int, effects(warren))) == list(range(NEIGHBOURS))


# -- for longer than its lease: while it is at work no other agent runs its job (guarantee G3) ----------


LEASE = 10  # a busy machine may hold up a renewal for 0.4 of it, and the end of a process for 0.25
LEASED = {
    "WARRENER_SUPERVISOR_AGENT_TIMEOUT": str(LEASE + 1),
    "WARRENER_AGENT_CLAIM_TTL": str(LEASE),
    "WARRENER_AGENT_HEARTBEAT": "1",
    "WARRENER_AGENT_ANNOUNCE_DELAY": "0",
    "WARRENER_AGENT_BLOCK_TIMEOUT": "120",
}


class Span(NamedTuple):
    """When one process was at work on the job."""

    pid: int
    attempt: int
    begun: float
    last: float


def spans(warren: Warren) -> list[Span]:
    """What the runs have noted, in the order in which they began."""
    found: dict[tuple[int, int], list[float]] = {}
    for run in runs_in(warren.folder):
        found.setdefault((run.pid, run.attempt), []).append(run.at)
    spans_found = [Span(pid, attempt, min(at), max(at)) for (pid, attempt), at in found.items()]
    return sorted(spans_found, key=lambda span: span.begun)


def check_one_at_a_time(warren: Warren) -> None:
    """No run began before the one before had proved for the last time that it is at work."""
    for first, second in pairwise(spans(warren)):
        assert first.last <= second.begun, f"two at once: {first} and {second}"


def start_two(warren: Warren) -> None:
    """A warren whose two agents have one slot each: the one that is blocked receives nothing more."""
    warren.environment = LEASED
    warren.start_all(MODULE, agents=2, slots=1)


def begin(warren: Warren, client: SyncClient, arguments: dict[str, str]) -> tuple[SyncJob, ServiceProcess]:
    """A job whose handler runs, and in which agent."""
    job = client.request("slow", arguments)
    (span,) = until(lambda: spans(warren), "the handler to run")
    return job, next(one for one in warren.services if one.process.pid == span.pid)


def test_g3_a_slow_coroutine_keeps_its_lease_and_is_not_charged(warren: Warren, postgres_url: str) -> None:
    """Meanwhile its agent is silent, declared lost, and a second attempt dispatched."""
    warren.ledger_url = postgres_url
    start_two(warren)
    with SyncClient(warren.broker_url) as client:
        job, first = begin(warren, client, {"how": "computes"})
        begun = datetime.fromtimestamp(spans(warren)[0].begun, UTC)
        until(lambda: find_job(warren, job.job_id)[0].attempt == 2, "a loss to be declared")
        renewed = begun + timedelta(seconds=2 * LEASE)  # the lease with which it began is over by then
        until(lambda: asyncio.run(end_of_lease(warren.ledger_url)) > renewed, "its lease to be renewed")
        (warren.folder / "go").touch()
        by = job.result(timeout=60)
    check_one_at_a_time(warren)
    assert by == first.process.pid
    assert [(span.pid, span.attempt) for span in spans(warren)] == [(first.process.pid, 1)]
    row, parked = find_job(warren, job.job_id)
    assert (row.state, row.losses, row.failures) == (JobState.SUCCEEDED, 0, 0)
    assert not parked
    assert first.end() == 0, "it works on"


def test_g3_a_blocked_agent_that_cannot_renew_ends_before_its_lease(
    warren: Warren, postgres_url: str, postgres_proxy: PostgresProxy
) -> None:
    warren.ledger_url = by_way_of(postgres_url, postgres_proxy.port)
    start_two(warren)
    with SyncClient(warren.broker_url) as client:
        job, first = begin(warren, client, {"how": "waits"})
        postgres_proxy.blackhole()
        until(lambda: first.process.poll() is not None, "the blocked agent to end itself")
        assert spans(warren)[0].last < asyncio.run(end_of_lease(postgres_url)).timestamp()
        postgres_proxy.heal()
        job.result(timeout=60)
    assert first.process.returncode == ServiceExitCode.BLOCKED
    assert '"agent.blocked"' in first.log.read_text()
    assert len(spans(warren)) == 2
    check_one_at_a_time(warren)


def test_g3_an_agent_without_its_interpreter_ends_before_its_lease(warren: Warren) -> None:
    warren.environment = LEASED
    warren.start_all(MODULE)
    first = warren.services[-1]
    with SyncClient(warren.broker_url) as client:
        job = client.request("seize")
        until(lambda: first.process.poll() is not None, "the agent to have ended")
        if first.process.returncode != -signal.SIGKILL:  # what cannot write its stacks soon is killed
            assert first.process.returncode == -signal.SIGVTALRM
            assert "in seize" in first.log_text(), "the last that it does"
            ended_at = datetime.fromtimestamp(first.log.stat().st_mtime, UTC)  # we may have seen it late
            assert ended_at < asyncio.run(end_of_lease(warren.ledger_url))
        warren.start("agent", MODULE)
        assert job.result(timeout=60) == warren.services[-1].process.pid
    assert len(spans(warren)) == 2
