"""Old jobs are deleted while new ones run through, though a scheduler that deletes is killed; nothing that
something alive refers to goes with them."""

import json
import sqlite3
from contextlib import closing
from uuid import UUID

from tests.acceptance.store_queries import run_sql
from tests.acceptance.warren import Warren, until

from warrener_client import JobSpec, SyncClient

MODULE = "tests.acceptance.many_handlers"
OLD = 20_000
RUN = 300
KINDS = (("succeeded", 8), ("dead", 31), ("cancelled", 8), ("expired", 31))

FINISHED = """
INSERT INTO warrener_jobs (
  job_id, job_type, queue, arguments, guarantee, policy, source, requested_at, accepted_at, request_hash,
  version, state, attempt, failures, losses, watchers, finished_at, updated_at, parent_id)
VALUES (?1, 'many', 'default', '{}', 'idempotent', '{}', 'test', ?2, ?2, '', 2, ?3, 1, 0, 0, '[]', ?2, ?2, ?4)
"""
DAYS_AGO = "SELECT strftime('%Y-%m-%dT%H:%M:%f000Z', 'now', '-' || ? || ' days')"


def test_old_jobs_go_while_new_ones_run_though_the_scheduler_that_deletes_is_killed(warren: Warren) -> None:
    live = _fill(warren)
    export = warren.folder / "export"
    prune = {"WARRENER_SCHEDULER_PRUNE_INTERVAL": "1s", "WARRENER_SCHEDULER_EXPORT_FOLDER": str(export)}
    # It would need seconds for all: it is killed in the middle, also if we look late.
    first = warren.start("scheduler", **prune)
    warren.start("supervisor")
    warren.start("agent", MODULE, "--slots", "50")
    warren.wait_ready()
    with SyncClient(warren.broker_url) as client:
        requested = list(client.request_many(JobSpec("many", {"unlucky": False}) for _ in range(RUN)))
    old = "finished_at < date('now', '-6 days')"
    until(lambda: _count(warren, old) < OLD, "the first batches to be deleted")
    first.kill()
    assert _count(warren, old) > len(live), "killed in the middle"
    warren.start("scheduler", **prune)
    warren.wait_ready()
    until(lambda: _count(warren, old) == len(live), "all that is old and unused to be gone", within=90)
    until(lambda: _count(warren, f"state = 'succeeded' AND NOT {old}") >= len(requested), "all to succeed")
    assert {UUID(row[0]) for row in run_sql(warren, f"SELECT job_id FROM warrener_jobs WHERE {old}")} == live
    lines = [line for path in export.glob("jobs-*.jsonl") for line in path.read_bytes().splitlines()]
    exported = {json.loads(line)["job"]["job_id"] for line in lines if line.endswith(b"}")}
    assert len(exported) == OLD, "each is in the file, some of them twice"


def _fill(warren: Warren) -> set[UUID]:
    """Old jobs, and three that something that lives refers to."""
    with closing(sqlite3.connect(warren.folder / "state.db", timeout=30)) as store, store:
        moments = {state: store.execute(DAYS_AGO, (days,)).fetchone()[0] for state, days in KINDS}
        states = [KINDS[n % len(KINDS)][0] for n in range(OLD)]
        rows = [(str(UUID(int=n + 1)), moments[state], state, None) for n, state in enumerate(states)]
        store.executemany(FINISHED, rows)
        parent, child, named = (str(UUID(int=OLD + n)) for n in (1, 2, 3))
        store.execute(FINISHED, (parent, moments["succeeded"], "succeeded", None))
        store.execute(FINISHED, (child, moments["succeeded"], "succeeded", parent))
        store.execute(
            "UPDATE warrener_jobs SET state = 'waiting', attempt = 0, finished_at = NULL, "
            "wake_at = '2100-01-01T00:00:00.000000Z' WHERE job_id = ?",
            (child,),
        )
        store.execute(FINISHED, (named, moments["dead"], "dead", None))
        store.execute(
            "INSERT INTO warrener_dead_letters (job_id, job_type, attempts, reason, died_at, fingerprint) "
            "VALUES (?, 'many', 1, 'test', ?, 'f')",
            (named, moments["dead"]),
        )
        store.execute(
            "INSERT INTO warrener_incident_occurrences VALUES ('f', ?, ?, ?, 0)",
            (named, named, moments["dead"]),
        )
        store.execute(
            "INSERT INTO warrener_incidents (fingerprint, kind, subject, sample, times, first_seen_at, "
            "last_seen_at, round, step, failed_tries, delivered) "
            "VALUES ('f', 'job.dead', ?1, '{}', 1, ?2, ?2, 1, 9, 0, '[]')",
            (named, moments["dead"]),
        )
        store.execute(
            "INSERT INTO warrener_job_counts "
            "SELECT job_type, queue, state, 0, count(*) FROM warrener_jobs GROUP BY 1, 2, 3"
        )
    return {UUID(parent), UUID(named)}


def _count(warren: Warren, condition: str) -> int:
    return int(run_sql(warren, f"SELECT count(*) FROM warrener_jobs WHERE {condition}")[0][0])
