"""Point 11 of supervision, on real processes and a real broker: what fails too often is held back, uncharged,
until a probe succeeds."""

import json
from collections.abc import Sequence
from pathlib import Path
from uuid import UUID

from tests.acceptance.command_line import call_command, run_json
from tests.acceptance.store_queries import look, rows_of
from tests.acceptance.warren import ServiceProcess, Warren, until

from warrener_client import JobSpec, SyncClient
from warrener_contracts.circuit_breaker import BreakerState
from warrener_contracts.state_machine import JobState
from warrener_store.breakers.gate import BreakerRow

MODULE = "tests.acceptance.breaker_handlers"
DEPENDENCY = "dependency:billing-api"


def breaker(warren: Warren, name: str = DEPENDENCY) -> BreakerRow | None:
    """How it stands."""
    rows = look(warren, lambda store: store.breakers())
    return next((row for row in rows if row.name == name), None)


def is_open(warren: Warren, name: str = DEPENDENCY) -> bool:
    found = breaker(warren, name)
    return found is not None and found.state is BreakerState.OPEN


def bills(warren: Warren) -> list[str]:
    """Each time that a bill was tried."""
    notes = Path(warren.folder, "bills")
    return notes.read_text().splitlines() if notes.exists() else []


def test_11_jobs_wait_uncharged_while_what_they_depend_on_is_down(warren: Warren) -> None:
    down = warren.folder / "billing-is-down"
    down.touch()
    warren.start_all(MODULE)
    with SyncClient(warren.broker_url) as client:
        requested = list(client.request_many(JobSpec("bill", {"number": n}) for n in range(300)))
        until(lambda: is_open(warren), "the breaker to open")
        mails = [client.request("mail", {"number": n}) for n in range(20)]
        assert [job.result(timeout=60) for job in mails] == list(range(20)), "others do not notice"

        late = client.request("bill", {"number": 300})
        until(lambda: _is_held(warren, late.job_id), "a bill that is asked for now to wait")
        # Not at once, if it has been chosen as a probe meanwhile.
        until(lambda: "held back by" in call_command(warren, "job", str(late.job_id)).stdout, "to be told so")

        # What agents were sent before they knew of the breaker, they may have tried.
        until(lambda: _times_opened(warren) >= 2, "a probe to fail")
        opened, tried_before = _times_opened(warren), len(bills(warren))
        until(lambda: _times_opened(warren) > opened, "another probe to fail")
        tried_while_down = len(bills(warren))
        assert tried_while_down - tried_before < 50, "the backlog is not run against what is down"

        down.unlink()
        results = [job.result(timeout=90) for job in [*requested, late]]
    assert results == list(range(301))
    until(lambda: (row := breaker(warren)) and row.state is BreakerState.CLOSED, "the breaker to close")
    rows = rows_of(warren, [job.job_id for job in requested])
    assert max(row.failures for row in rows.values()) <= 3
    charged = sum(row.failures for row in rows.values())
    assert charged < len(bills(warren)) - len(results), "what failed while it was open was not charged"


def test_11_somebody_opens_and_closes_a_breaker_and_every_service_may_die_meanwhile(warren: Warren) -> None:
    warren.start_all(MODULE)
    with SyncClient(warren.broker_url) as client:
        assert client.request("mail", {"number": 1}).result(timeout=60) == 1
        unknown = call_command(warren, "breaker", "open", "male")
        assert unknown.returncode == 2
        assert "job:mail" in unknown.stderr
        opened = call_command(warren, "breaker", "open", "mail", "--reason", "the relay moves", "--json")
        assert json.loads(opened.stdout)["name"] == "job:mail", opened
        until(lambda: is_open(warren, "job:mail"), "the breaker to open")
        agent = warren.services[-1]
        until(lambda: _knows_open(agent, "job:mail"), "the agent to hear of it: what it got before, it runs")

        held = [client.request("mail", {"number": n}) for n in range(5)]
        until(lambda: all(_is_held(warren, job.job_id) for job in held), "five mails to wait")
        for service in warren.services:
            service.kill()
        warren.start_all(MODULE)
        assert client.request("bill", {"number": 7}).result(timeout=60) == 7, "all services work again"
        assert all(_is_held(warren, job.job_id) for job in held)
        shown_breaker = call_command(warren, "breaker", "show", "job:mail")
        assert "the relay moves" in shown_breaker.stdout
        assert "until it is closed by hand" in shown_breaker.stdout

        assert call_command(warren, "breaker", "close", "job:mail").returncode == 0
        assert [job.result(timeout=60) for job in held] == list(range(5))
    states = {row["name"]: row["state"] for row in run_json(warren, "breaker", "list")}
    assert states == {"job:mail": "closed"}


def test_11_an_attempt_that_was_dispatched_before_is_given_back_uncharged(warren: Warren) -> None:
    warren.start_all(MODULE)
    with SyncClient(warren.broker_url) as client:
        assert client.request("bill", {"number": 1}).result(timeout=60) == 1
        warren.services[-1].kill()  # the agent: what is asked for now stays in its queue
        queued = [client.request("bill", {"number": n}) for n in range(20)]
        until(
            lambda: _all_in(warren, [job.job_id for job in queued], JobState.QUEUED), "20 bills to be queued"
        )
        assert call_command(warren, "breaker", "open", DEPENDENCY, "--for", "10m").returncode == 0
        until(lambda: is_open(warren), "the breaker to open")
        warren.start("agent", MODULE, "--slots", "10")
        until(lambda: _some_given_back(warren, [job.job_id for job in queued]), "an attempt to be given back")
        before = len(bills(warren))
        assert call_command(warren, "breaker", "close", DEPENDENCY).returncode == 0
        assert [job.result(timeout=60) for job in queued] == list(range(20))
    rows = rows_of(warren, [job.job_id for job in queued])
    assert all(row.failures == 0 for row in rows.values())
    assert before <= 21


def _times_opened(warren: Warren) -> int:
    found = breaker(warren)
    return 0 if found is None else found.times_opened


def _knows_open(agent: ServiceProcess, name: str) -> bool:
    """True if it has logged that this breaker is open."""
    changes = agent.records("agent.breaker_changed")
    return any((change["breaker"], change["state"]) == (name, "open") for change in changes)


def _is_held(warren: Warren, job_id: UUID) -> bool:
    row = rows_of(warren, [job_id]).get(job_id)
    return row is not None and row.state in (JobState.WAITING, JobState.RETRYING)


def _all_in(warren: Warren, job_ids: Sequence[UUID], state: JobState) -> bool:
    rows = rows_of(warren, job_ids)
    return len(rows) == len(job_ids) and all(row.state is state for row in rows.values())


def _some_given_back(warren: Warren, job_ids: Sequence[UUID]) -> bool:
    """An agent that has just come hears of the breaker within seconds; until then it runs what it gets."""
    return any(
        row.state in (JobState.RETRYING, JobState.SUCCEEDED) for row in rows_of(warren, job_ids).values()
    )
