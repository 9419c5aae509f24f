"""Point 1 of supervision: delays survive the `kill -9` of the broker.

Curves, ages and names of errors are proved by `services/supervisor/tests/decisions/test_retries.py`, what
handlers return by `services/agent/tests/decisions/test_outcomes.py`.
What waits less than an hour is a message in a delay queue and a row in the store; what waits longer is
a row alone. The row is the truth.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from uuid import UUID

from tests.acceptance.run_notes import runs_in
from tests.acceptance.store_queries import job_history, rows_of, run_sql
from tests.acceptance.warren import Warren, until
from tests.broker_access import count_messages
from tests.servers.kinds import RabbitMQServer

from warrener_client import JobSpec, SyncClient, SyncJob
from warrener_contracts.state_machine import JobState
from warrener_contracts.topology import DELAY_LEVELS
from warrener_store.jobs.rows import AttemptOutcome, JobRow

MODULE = "tests.acceptance.retry_handlers"
# That of the handler's own backoff.
DELAY_QUEUE = next(level.queue for level in DELAY_LEVELS if level.name == "15s")
JOBS = 20


def test_1_delays_in_queues_and_in_the_store_survive_the_kill_of_the_broker(
    warren: Warren, own_rabbitmq: RabbitMQServer
) -> None:
    warren.broker_url = own_rabbitmq.url
    warren.start_all(MODULE)
    own_rabbitmq.settle()
    with SyncClient(warren.broker_url) as client:
        long = client.request_batch([JobSpec("later", {"delay": "2h"})] * JOBS)
        short = client.request_batch([JobSpec("shaky")] * JOBS)  # at once: they wait together for 15 s
        waiting = until_all_wait(warren, [*short, *long])
        until(
            lambda: count_messages(warren.broker_url, DELAY_QUEUE) == [JOBS],
            "the short delays to be in a delay queue",
        )

        own_rabbitmq.kill()
        own_rabbitmq.start()

        for job in short:
            assert job.result(timeout=90) == 1
        assert states(warren, long) == {JobState.RETRYING}, "what waits in the store goes on waiting"
        let_the_hours_pass(warren, long)
        for job in long:
            assert job.result(timeout=90) == 1
    for job in short:
        due_at = waiting[job.job_id].due_at
        assert due_at is not None
        assert runs(warren, job.job_id)[-1] >= due_at - timedelta(milliseconds=300), "not before its time"
    check_books(warren, [*short, *long])


def runs(warren: Warren, job_id: UUID) -> list[datetime]:
    """The times at which the handler has run for this job."""
    return [datetime.fromtimestamp(run.at, UTC) for run in runs_in(warren.folder) if run.job_id == job_id]


# -- looking and meddling ----------------------------------------------------------------------------------


def until_all_wait(warren: Warren, jobs: Sequence[SyncJob]) -> dict[UUID, JobRow]:
    """Until each has failed once and waits for its next attempt; the rows as they wait."""
    ids = [job.job_id for job in jobs]

    def waiting() -> dict[UUID, JobRow] | None:
        rows = rows_of(warren, ids)
        there = len(rows) == len(ids) and all(row.state is JobState.RETRYING for row in rows.values())
        return rows if there else None

    return until(waiting, f"{len(ids)} jobs to wait for their next attempt")


def states(warren: Warren, jobs: Sequence[SyncJob]) -> set[JobState]:
    return {row.state for row in rows_of(warren, [job.job_id for job in jobs]).values()}


def let_the_hours_pass(warren: Warren, jobs: Sequence[SyncJob]) -> None:
    """The delays are over now: for the store, that is what two hours do."""
    now = datetime.now(UTC).isoformat(timespec="microseconds")[:26] + "Z"
    due = "UPDATE warrener_jobs SET due_at = ?1, wake_at = ?1, version = version + 1 WHERE job_id = ?2"
    for job in jobs:
        run_sql(warren, due, now, str(job.job_id))


def check_books(warren: Warren, jobs: Sequence[SyncJob]) -> None:
    """Each job has failed once and succeeded once, and nothing else has become of it."""
    for job in jobs:
        row, attempts, parked = job_history(warren, job.job_id)
        assert [one.outcome for one in attempts] == [AttemptOutcome.FAILED, AttemptOutcome.SUCCEEDED]
        assert (row.state, row.attempt, row.failures, row.losses) == (JobState.SUCCEEDED, 2, 1, 0)
        assert len(runs(warren, job.job_id)) == 2, "no attempt has run twice"
        assert not parked
