"""The claims' file, used from one thread: each method is one short transaction, each change one statement a
batch."""

import json
import sqlite3
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from warrener_agent.ledger.checkpoints import SavedCheckpoint, parse_checkpoint
from warrener_agent.ledger.claim_results import Found
from warrener_agent.ledger.port import Claim, Completion, DeletedRows, Failure
from warrener_agent.ledger.row_codec import (
    decode_failure,
    decode_follow_ups,
    encode_failure,
    encode_follow_ups,
)
from warrener_agent.ledger.sqlite_files import immediate_transaction, timestamp_text

_CLAIMS = """
    CREATE TABLE IF NOT EXISTS warrener_claims (
        job_id TEXT PRIMARY KEY, attempt INTEGER NOT NULL, agent_id TEXT, lease_until TEXT, cancelled_at TEXT,
        failure TEXT CHECK (failure IS NULL OR agent_id IS NULL),
        claimed_at TEXT NOT NULL DEFAULT '0001-01-01T00:00:00.000000+00:00', next_attempt INTEGER
    ) WITHOUT ROWID
"""
_CLAIMED = "CREATE INDEX IF NOT EXISTS warrener_claims_claimed ON warrener_claims (claimed_at)"
_NOW = "strftime('%Y-%m-%dT%H:%M:%f000+00:00', 'now')"
"""As `timestamp_text` writes it."""

_CHECKPOINTS = """
    CREATE TABLE IF NOT EXISTS warrener_checkpoints (
        job_id TEXT PRIMARY KEY, attempt INTEGER NOT NULL, number INTEGER NOT NULL, state TEXT NOT NULL,
        saved_at TEXT NOT NULL
    ) WITHOUT ROWID
"""

_FREE = "(agent_id IS NULL OR agent_id = excluded.agent_id OR lease_until <= :now)"

_CLAIM = f"""
    INSERT INTO warrener_claims (job_id, attempt, agent_id, lease_until, claimed_at)
    SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'), :agent, :until, {_NOW}
    FROM json_each(:batch) WHERE true
    ON CONFLICT (job_id) DO UPDATE
        SET attempt = iif({_FREE}, excluded.attempt, attempt),
            agent_id = iif({_FREE}, excluded.agent_id, agent_id),
            lease_until = iif({_FREE}, excluded.lease_until, lease_until),
            next_attempt = iif({_FREE}, NULL, excluded.attempt),
            failure = NULL
        WHERE cancelled_at IS NULL AND excluded.attempt >= coalesce(next_attempt, attempt)
            AND iif({_FREE}, excluded.attempt > attempt OR failure IS NULL,
                excluded.attempt > coalesce(next_attempt, attempt))
    RETURNING job_id, attempt, next_attempt, (
        SELECT kept.number || ' ' || kept.state FROM warrener_checkpoints AS kept
        WHERE kept.job_id = warrener_claims.job_id
    )
"""  # noqa: S608 - both parts are ours
"""What comes back with a next attempt was not granted: that one waits until the claim is let go or its lease
has ended, and meanwhile the holder cannot renew."""

_MINE = """
    FROM (
        SELECT json_extract(value, '$[0]') AS job, json_extract(value, '$[1]') AS number
        FROM json_each(:batch)
    )
    WHERE job_id = job AND attempt = number AND agent_id = :agent
"""

_RENEW = f"""
    UPDATE warrener_claims SET lease_until = :until {_MINE} AND cancelled_at IS NULL
        AND (:awaited OR next_attempt IS NULL)
    RETURNING job_id
"""  # noqa: S608 - both parts are ours
_RELEASE = f"UPDATE warrener_claims SET agent_id = NULL, lease_until = {_NOW} {_MINE}"  # noqa: S608 - ours

_COMPLETE = """
    INSERT INTO warrener_completions (job_id, attempt, result, follow_ups, started_at, finished_at)
    SELECT c.job_id, c.attempt, json_extract(value, '$[2]'), json_extract(value, '$[3]'),
        json_extract(value, '$[4]'), json_extract(value, '$[5]')
    FROM json_each(:batch) JOIN warrener_claims AS c
        ON c.job_id = json_extract(value, '$[0]') AND c.attempt = json_extract(value, '$[1]')
    WHERE c.agent_id = :agent AND c.cancelled_at IS NULL
    ON CONFLICT (job_id) DO NOTHING
    RETURNING job_id
"""

_FAIL = """
    UPDATE warrener_claims SET failure = ended, agent_id = NULL, lease_until = at
    FROM (
        SELECT json_extract(value, '$[0]') AS job, json_extract(value, '$[1]') AS number,
            json_extract(value, '$[2]') AS ended, json_extract(value, '$[3]') AS at
        FROM json_each(:batch)
    )
    WHERE job_id = job AND attempt = number AND agent_id = :agent AND cancelled_at IS NULL
    RETURNING job_id
"""

_SAVE = """
    INSERT INTO warrener_checkpoints (job_id, attempt, number, state, saved_at)
    SELECT c.job_id, c.attempt, json_extract(value, '$[2]'), json_extract(value, '$[3]'), :now
    FROM json_each(:batch) JOIN warrener_claims AS c
        ON c.job_id = json_extract(value, '$[0]') AND c.attempt = json_extract(value, '$[1]')
    WHERE c.agent_id = :agent AND c.cancelled_at IS NULL
    ON CONFLICT (job_id) DO UPDATE
        SET attempt = excluded.attempt, number = excluded.number, state = excluded.state,
            saved_at = excluded.saved_at
    RETURNING job_id
"""

_CANCEL = f"""
    INSERT INTO warrener_claims (job_id, attempt, cancelled_at, claimed_at)
    SELECT value, 0, :now, {_NOW} FROM json_each(:batch) WHERE true
    ON CONFLICT (job_id) DO UPDATE SET cancelled_at = coalesce(cancelled_at, excluded.cancelled_at)
"""  # noqa: S608 - both parts are ours

_COMPLETED = """
    SELECT job_id, attempt, result, follow_ups, started_at, finished_at FROM warrener_completions
    WHERE job_id IN (SELECT value FROM json_each(?))
"""
_HELD = """
    SELECT job_id, attempt, cancelled_at IS NOT NULL, failure FROM warrener_claims
    WHERE job_id IN (SELECT value FROM json_each(?))
"""
_PAGE_END = """
    SELECT claimed_at FROM warrener_claims WHERE claimed_at > :after AND claimed_at < :before
    ORDER BY claimed_at LIMIT 1 OFFSET :limit - 1
"""
_FORGET_CLAIMS = """
    DELETE FROM warrener_claims
    WHERE claimed_at > :after AND claimed_at <= :end AND claimed_at < :before
        AND coalesce(lease_until, '') < :before AND coalesce(cancelled_at, '') < :before
    RETURNING job_id
"""
_FORGET_CHECKPOINTS = """
    DELETE FROM warrener_checkpoints WHERE job_id IN (SELECT value FROM json_each(:jobs))
"""
FORGET_COMPLETIONS = """
    DELETE FROM warrener_completions WHERE job_id IN (
        SELECT job_id FROM warrener_completions WHERE finished_at < :before ORDER BY finished_at LIMIT :limit
    )
"""
_OLD_COMPLETION = "SELECT 1 FROM warrener_completions WHERE finished_at < ? LIMIT 1"


class ClaimsFile:
    """Claims, and the completions that came without a transaction; reads the completions of the handlers'
    file."""

    def __init__(self, effects: sqlite3.Connection, claims: sqlite3.Connection) -> None:
        self._effects, self._claims = effects, claims
        claims.execute(_CLAIMS)
        claims.execute(_CHECKPOINTS)
        with immediate_transaction(claims):
            _add_columns(claims)
            claims.execute(_CLAIMED)

    def close(self) -> None:
        self._claims.close()
        self._effects.close()

    def ping(self) -> None:
        with immediate_transaction(self._claims):
            self._effects.execute("SELECT 1").fetchone()

    def claim(
        self, claims: Sequence[Claim], agent_id: str, lease: timedelta
    ) -> tuple[set[Claim], dict[UUID, Found], dict[UUID, SavedCheckpoint]]:
        """Which were granted, what stands in the way of the others, and what was saved of those granted."""
        with immediate_transaction(self._claims):
            found = self._completed([claim.job_id for claim in claims])
            open_claims = [claim for claim in claims if claim.job_id not in found] if found else claims
            now = datetime.now(UTC)  # not before: the lock may have been waited for
            values = {
                "batch": _pairs(open_claims),
                "agent": agent_id,
                "now": timestamp_text(now),
                "until": timestamp_text(now + lease),
            }
            rows = self._claims.execute(_CLAIM, values).fetchall()
            granted_rows = [
                (UUID(job), attempt, text) for job, attempt, following, text in rows if following is None
            ]
            saved = {
                job: parse_checkpoint(job, attempt, text)
                for job, attempt, text in granted_rows
                if text is not None
            }
            if len(granted_rows) == len(claims):  # what comes back was granted: all of it, as most often
                return set(claims), found, saved
            granted = {Claim(job, attempt) for job, attempt, _ in granted_rows}
            refused = [claim.job_id for claim in claims if claim not in granted and claim.job_id not in found]
            for job, attempt, cancelled, failure in self._claims.execute(_HELD, (_ids(refused),)).fetchall():
                ended = decode_failure(Claim(UUID(job), attempt), failure)
                found[UUID(job)] = Found(attempt, bool(cancelled), failure=ended)
        return granted, found, saved

    def _completed(self, job_ids: Sequence[UUID]) -> dict[UUID, Found]:
        ids = (_ids(job_ids),)
        here = self._claims.execute(_COMPLETED, ids).fetchall()
        there = self._effects.execute(_COMPLETED, ids).fetchall()
        completions = (_completion(row) for row in (*here, *there))
        return {one.job_id: Found(one.attempt, cancelled=False, completion=one) for one in completions}

    def renew(
        self, claims: Sequence[Claim], agent_id: str, lease: timedelta, *, even_awaited: bool
    ) -> set[UUID]:
        until = timestamp_text(datetime.now(UTC) + lease)
        values = {"batch": _pairs(claims), "agent": agent_id, "until": until, "awaited": even_awaited}
        return self._change(_RENEW, values)

    def release(self, claims: Sequence[Claim], agent_id: str) -> None:
        self._change(_RELEASE, {"batch": _pairs(claims), "agent": agent_id})

    def complete(self, completions: Sequence[Completion], agent_id: str) -> set[UUID]:
        # A completion of the handlers' file cannot be here too: a completed job is never granted again.
        batch = json.dumps([columns(one) for one in completions])
        return self._change(_COMPLETE, {"batch": batch, "agent": agent_id})

    def fail(self, failures: Sequence[Failure], agent_id: str) -> set[UUID]:
        with immediate_transaction(self._claims):
            over = self._completed([one.job_id for one in failures])
            batch = json.dumps(
                [
                    [str(one.job_id), one.attempt, encode_failure(one), timestamp_text(one.finished_at)]
                    for one in failures
                    if one.job_id not in over
                ]
            )
            failed = self._claims.execute(_FAIL, {"batch": batch, "agent": agent_id}).fetchall()
        return {UUID(job) for (job,) in failed}

    def save_checkpoints(
        self, checkpoints: Sequence[SavedCheckpoint], agent_id: str, now: datetime
    ) -> set[UUID]:
        batch = json.dumps([[str(one.job_id), *one[1:]] for one in checkpoints])
        return self._change(_SAVE, {"batch": batch, "agent": agent_id, "now": timestamp_text(now)})

    def cancel(self, job_ids: Collection[UUID], now: datetime) -> None:
        self._change(_CANCEL, {"batch": _ids(job_ids), "now": timestamp_text(now)})

    def delete_old(self, before: datetime, after: datetime | None, limit: int) -> tuple[DeletedRows, bool]:
        """One batch of this file, and whether the handlers' file has old completions too."""
        parameters: dict[str, Any] = {
            "before": timestamp_text(before),
            "after": timestamp_text(after) if after else "",
            "limit": limit,
        }
        with immediate_transaction(self._claims):
            completions = self._claims.execute(FORGET_COMPLETIONS, parameters).rowcount
            end = self._claims.execute(_PAGE_END, parameters).fetchone()
            parameters["end"] = end[0] if end else parameters["before"]
            gone = [job for (job,) in self._claims.execute(_FORGET_CLAIMS, parameters).fetchall()]
            self._claims.execute(_FORGET_CHECKPOINTS, {"jobs": json.dumps(gone)})
            there = self._effects.execute(_OLD_COMPLETION, (parameters["before"],)).fetchone() is not None
        following = after or datetime.min.replace(tzinfo=UTC) if completions == limit else None
        if end:
            following = datetime.fromisoformat(end[0])
        return DeletedRows(completions + len(gone), completions, following), there

    def _change(self, statement: str, values: Mapping[str, object]) -> set[UUID]:
        with immediate_transaction(self._claims):
            return {UUID(job) for (job,) in self._claims.execute(statement, values).fetchall()}


def _add_columns(claims: sqlite3.Connection) -> None:
    """Give a table of an earlier version its columns; its rows count as claimed now, and none is written."""
    known = {row[1] for row in claims.execute("PRAGMA table_info(warrener_claims)")}
    if "claimed_at" not in known:
        now = timestamp_text(datetime.now(UTC))
        claims.execute(f"ALTER TABLE warrener_claims ADD COLUMN claimed_at TEXT NOT NULL DEFAULT '{now}'")
    if "next_attempt" not in known:
        claims.execute("ALTER TABLE warrener_claims ADD COLUMN next_attempt INTEGER")


def columns(completion: Completion) -> list[Any]:
    """A completion as a row."""
    return [
        str(completion.job_id),
        completion.attempt,
        completion.result_text,
        encode_follow_ups(completion.follow_ups),
        timestamp_text(completion.started_at),
        timestamp_text(completion.finished_at),
    ]


def _completion(row: tuple[str, int, str, str, str, str]) -> Completion:
    job, attempt, result, follow_ups, started_at, finished_at = row
    return Completion(
        UUID(job),
        attempt,
        result,
        decode_follow_ups(follow_ups),
        datetime.fromisoformat(started_at),
        datetime.fromisoformat(finished_at),
    )


def _pairs(claims: Iterable[Claim]) -> str:
    return json.dumps([[str(claim.job_id), claim.attempt] for claim in claims])


def _ids(job_ids: Iterable[UUID]) -> str:
    return json.dumps([str(job_id) for job_id in job_ids])
