"""Point 1 of supervision: delays survive the `kill -9` of the broker and the loss of the messages in delay
queues.

What waits less than an hour is a message in a delay queue and a row in the store; what waits longer is
a row alone. The row is the truth.
"""

import asyncio
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from uuid import UUID

import aiormq
from tests.acceptance.store_queries import job_history, rows_of
from tests.acceptance.test_retry_policies import MODULE, runs
from tests.acceptance.warren import Warren, until
from tests.servers.kinds import RabbitMQServer

from warrener_client import JobSpec, SyncClient
from warrener_client.sync import SyncJob
from warrener_contracts.state_machine import JobState
from warrener_contracts.topology import DELAY_LEVELS
from warrener_store.jobs.rows import AttemptOutcome, JobRow

DELAY_QUEUE = next(
    level.queue for level in DELAY_LEVELS if level.name == "15s"
)  # that of the handler's own backoff
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
        until(lambda: count_in_delay_queue(warren) == JOBS, "the short delays to be in a delay queue")

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


def test_1_delays_survive_the_loss_of_the_messages_in_delay_queues(warren: Warren) -> None:
    warren.start("scheduler")
    warren.start("supervisor", WARRENER_SUPERVISOR_DELAY_GRACE="1")
    warren.start("agent", MODULE)
    warren.wait_ready()
    with SyncClient(warren.broker_url) as client:
        jobs = client.request_batch([JobSpec("shaky")] * JOBS)
        waiting = until_all_wait(warren, jobs)
        until(lambda: count_in_delay_queue(warren) == JOBS, "the delays to be in a delay queue")

        for level in DELAY_LEVELS:
            purge(warren, level.queue)
        assert count_in_delay_queue(warren) == 0, "nothing will wake them but the store"

        for job in jobs:
            assert job.result(timeout=90) == 1
    for job in jobs:
        due_at = waiting[job.job_id].due_at
        assert due_at is not None
        assert runs(warren, job.job_id)[-1] >= due_at, "the sweeper wakes nobody before his time"
    check_books(warren, jobs)


def test_1_a_supervisor_killed_while_delays_run_leaves_them_to_the_next(warren: Warren) -> None:
    warren.start("scheduler")
    first = warren.start("supervisor")
    warren.start("agent", MODULE)
    warren.wait_ready()
    with SyncClient(warren.broker_url) as client:
        long = client.request_batch([JobSpec("later", {"delay": "2h"})] * JOBS)
        short = client.request_batch([JobSpec("shaky")] * JOBS)  # at once: they wait together for 15 s
        until_all_wait(warren, [*short, *long])
        first.kill()
        let_the_hours_pass(warren, long)
        warren.start("supervisor")
        for job in [*short, *long]:
            assert job.result(timeout=90) == 1
    check_books(warren, [*short, *long])


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
    with closing(sqlite3.connect(warren.folder / "state.db", timeout=30)) as store, store:
        for job in jobs:
            store.execute(
                "UPDATE warrener_jobs SET due_at = ?, wake_at = ?, version = version + 1 WHERE job_id = ?",
                (now, now, str(job.job_id)),
            )


def check_books(warren: Warren, jobs: Sequence[SyncJob]) -> None:
    """Each job has failed once and succeeded once, and nothing else has become of it."""
    for job in jobs:
        row, attempts, parked = job_history(warren, job.job_id)
        assert [one.outcome for one in attempts] == [AttemptOutcome.FAILED, AttemptOutcome.SUCCEEDED]
        assert (row.state, row.attempt, row.failures, row.losses) == (JobState.SUCCEEDED, 2, 1, 0)
        assert len(runs(warren, job.job_id)) == 2, "no attempt has run twice"
        assert not parked


def count_in_delay_queue(warren: Warren) -> int:
    """How many messages wait there."""
    return asyncio.run(_on_a_channel(warren, "count"))


def purge(warren: Warren, queue: str) -> None:
    asyncio.run(_on_a_channel(warren, "purge", queue))


async def _on_a_channel(warren: Warren, what: str, queue: str = DELAY_QUEUE) -> int:
    connection = await aiormq.connect(warren.broker_url)
    try:
        channel = await connection.channel()
        if what == "purge":
            await channel.queue_purge(queue)
        return (await channel.queue_declare(queue, passive=True)).message_count or 0
    finally:
        await connection.close()
