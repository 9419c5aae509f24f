"""Point 11 of supervision, on real processes and a real broker: what fails too often is held back, uncharged,
until a probe succeeds."""

from tests.acceptance.command_line import call_command
from tests.acceptance.store_queries import look, rows_of, state_of
from tests.acceptance.warren import Warren, until

from warrener_client import JobSpec, SyncClient
from warrener_contracts.circuit_breaker import BreakerState
from warrener_contracts.state_machine import JobState
from warrener_store.breakers.gate import BreakerRow

MODULE = "tests.acceptance.breaker_handlers"
DEPENDENCY = "dependency:billing-api"
HELD = (JobState.WAITING, JobState.RETRYING)


def breaker(warren: Warren) -> BreakerRow | None:
    """How it stands."""
    rows = look(warren, lambda store: store.breakers())
    return next((row for row in rows if row.name == DEPENDENCY), None)


def is_in(warren: Warren, state: BreakerState) -> bool:
    found = breaker(warren)
    return found is not None and found.state is state


def test_11_jobs_wait_uncharged_while_what_they_depend_on_is_down(warren: Warren) -> None:
    down = warren.folder / "billing-is-down"
    down.touch()
    warren.start_all(MODULE)
    supervisor = warren.services[1]
    with SyncClient(warren.broker_url) as client:
        requested = list(client.request_many(JobSpec("bill", {"number": n}) for n in range(300)))
        until(lambda: is_in(warren, BreakerState.OPEN), "the breaker to open")
        supervisor.kill()
        warren.start("supervisor")
        mails = [client.request("mail", {"number": n}) for n in range(20)]
        assert [job.result(timeout=60) for job in mails] == list(range(20)), "others do not notice"

        late = client.request("bill", {"number": 300})
        until(lambda: state_of(warren, late.job_id) in HELD, "a bill that is requested now to wait")
        # Not at once, if it has been chosen as a probe meanwhile.
        until(
            lambda: "holds the job back" in call_command(warren, "job", str(late.job_id)).stdout, "to be said"
        )

        # What agents were sent before they knew of the breaker, they may have tried.
        until(lambda: _times_opened(warren) >= 2, "a probe to fail")
        opened, tried_before = _times_opened(warren), len(warren.lines("bills"))
        until(lambda: _times_opened(warren) > opened, "another probe to fail")
        tried_while_down = len(warren.lines("bills"))
        assert tried_while_down - tried_before < 50, "the backlog is not run against what is down"

        down.unlink()
        results = [job.result(timeout=90) for job in [*requested, late]]
    assert results == list(range(301))
    until(lambda: is_in(warren, BreakerState.CLOSED), "the breaker to close")
    rows = rows_of(warren, [job.job_id for job in requested])
    assert max(row.failures for row in rows.values()) <= 3
    charged = sum(row.failures for row in rows.values())
    assert charged < len(warren.lines("bills")) - len(results), (
        "what failed while it was open was not charged"
    )


def _times_opened(warren: Warren) -> int:
    found = breaker(warren)
    return 0 if found is None else found.times_opened
