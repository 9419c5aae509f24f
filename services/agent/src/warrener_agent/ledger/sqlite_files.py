"""The two files of the SQLite ledger: how they are opened, and the claims' file with its statements."""

import asyncio
import json
import sqlite3
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path, PurePath
from time import monotonic, sleep
from typing import Any, Generic, Protocol, TypeVar
from uuid import UUID

from warrener_agent.ledger.port import (
    HOLDER_MARK,
    PROCESS_MARK,
    Claim,
    Completion,
    DeletedRows,
    Failure,
    LedgerUnavailable,
    SavedCheckpoint,
)
from warrener_agent.ledger.rows import (
    Found,
    decode_checkpoint,
    decode_child_jobs,
    decode_failure,
    encode_child_jobs,
    encode_failure,
)
from warrener_agent.ledger.statements import ledger_statements

R = TypeVar("R")
_SQL = ledger_statements("sqlite")
BUSY_TIMEOUT = 5.0
"""Seconds to wait for the claims' lock, which is held for milliseconds."""


def open_files(
    effects: Path,
    claims: Path,
    owner: Callable[[sqlite3.Connection, sqlite3.Connection], R],
    *,
    patience: float = BUSY_TIMEOUT,
) -> R:
    """Open both files and return what owns the connections; after an error neither stays open.

    `patience`: the seconds for which a statement waits for the lock of the handlers' file.
    """
    with ExitStack() as opened:
        connections = [
            opened.enter_context(closing(_open_file(path, timeout)))
            for path, timeout in ((effects, patience), (claims, BUSY_TIMEOUT))
        ]
        made = owner(*connections)
        opened.pop_all()
    return made


def _open_file(path: Path, patience: float) -> sqlite3.Connection:
    """Open a connection that commits to the disk, and leaves the beginning and end of transactions to us."""
    connection = sqlite3.connect(path, timeout=patience, isolation_level=None, check_same_thread=False)
    try:
        _prepare(connection, monotonic() + BUSY_TIMEOUT)
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare(connection: sqlite3.Connection, deadline: float) -> None:
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=FULL")
            connection.execute("PRAGMA foreign_keys=ON")
            connection.execute(_SQL["completions"])
            connection.execute(_SQL["completions_by_end"])
        except sqlite3.OperationalError as error:
            # SQLite does not wait if several agents turn a new file to WAL at the same moment.
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or monotonic() > deadline:
                raise
            sleep(0.02)
        else:
            return


@contextmanager
def immediate_transaction(connection: sqlite3.Connection) -> Generator[None]:
    """Hold the write lock from the start of the transaction, so that it never has to start over."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


@contextmanager
def translate_outages(path: Path) -> Generator[None]:
    """Raise LedgerUnavailable for a locked, full or vanished database."""
    try:
        yield
    except (sqlite3.OperationalError, sqlite3.ProgrammingError) as error:
        raise LedgerUnavailable(f"expected the ledger {path} to answer, got: {error}; try again") from error


def timestamp_text(value: datetime) -> str:
    """Write a time as a column, in UTC: the texts compare as the times do."""
    return value.astimezone(UTC).isoformat(timespec="microseconds")


def to_sqlite(value: Any) -> Any:
    """Convert a parameter of a handler's statement to a type that SQLite can store."""
    if isinstance(value, Enum):
        return to_sqlite(value.value)
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, UUID | Decimal | PurePath):
        return str(value)
    return value


def rows_as_dicts(cursor: sqlite3.Cursor) -> Iterable[dict[str, Any]]:
    """Return the rows of a result as mappings by column name."""
    names = [column[0] for column in cursor.description or ()]
    return (dict(zip(names, row, strict=True)) for row in cursor)


class _Closable(Protocol):
    def close(self) -> None: ...


F = TypeVar("F", bound=_Closable)


class FileWorker(Generic[F]):
    """Files that one thread opens and uses, so that a slow disk never blocks the event loop. Work that was
    begun in it is finished, even if the caller is cancelled."""

    def __init__(self, name: str, path: Path, open_: Callable[[], F]) -> None:
        self._name, self._path, self._open = name, path, open_
        self._thread: ThreadPoolExecutor | None = None
        self.files: F | None = None

    async def run(self, work: Callable[[F], R]) -> R:
        """Open the files if need be, run `work` after all earlier work, and return its result."""

        def opened() -> R:
            if self.files is None:
                with translate_outages(self._path):
                    self.files = self._open()
            return work(self.files)

        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix=self._name)
        return await asyncio.get_running_loop().run_in_executor(self._thread, opened)

    def submit(self, work: Callable[[F], None]) -> None:
        """Run `work` after all earlier work, without waiting for it, if the files are open then."""
        if self._thread is not None:
            self._thread.submit(lambda: None if self.files is None else work(self.files))

    async def close(self) -> None:
        """Close the files after all earlier work, even if the caller is cancelled, and end the thread. May be
        called twice."""
        files, self.files = self.files, None
        thread, self._thread = self._thread, None
        if thread is None:
            return

        def close() -> None:
            late, self.files = self.files, None  # opened by a `run` that was cancelled
            for one in (files, late):
                if one is not None:
                    one.close()

        try:
            await asyncio.get_running_loop().run_in_executor(thread, close)
        finally:
            thread.shutdown(wait=False)


class ClaimsFile:
    """The claims' file, with the completions without a transaction; reads the handlers' file too.

    Used from one thread: each method is one short transaction, each change one statement a batch.
    """

    def __init__(self, effects: sqlite3.Connection, claims: sqlite3.Connection) -> None:
        self._effects, self._claims = effects, claims
        claims.execute(_SQL["claims"])
        claims.execute(_SQL["checkpoints"])
        with immediate_transaction(claims):
            _add_columns(claims)
            claims.execute(_SQL["claimed"])

    def close(self) -> None:
        self._claims.close()
        self._effects.close()

    def ping(self) -> None:
        with immediate_transaction(self._claims):
            self._effects.execute("SELECT 1").fetchone()

    def claim(
        self, claims: Sequence[Claim], agent_id: str, lease: timedelta
    ) -> tuple[set[Claim], dict[UUID, Found], dict[UUID, SavedCheckpoint]]:
        """Return the granted claims, the rows that refuse the others, and the checkpoints of those
        granted."""
        with immediate_transaction(self._claims):
            found = self._completed([claim.job_id for claim in claims])
            open_claims = [claim for claim in claims if claim.job_id not in found] if found else claims
            now = datetime.now(UTC)  # after the wait for the lock
            values = {
                "batch": _pairs(open_claims),
                "agent": agent_id,
                "now": timestamp_text(now),
                "until": timestamp_text(now + lease),
            }
            rows = self._claims.execute(_SQL["claim"], values).fetchall()
            granted_rows = [
                (UUID(job), attempt, text) for job, attempt, following, text in rows if following is None
            ]
            saved = {
                job: decode_checkpoint(job, attempt, text)
                for job, attempt, text in granted_rows
                if text is not None
            }
            if len(granted_rows) == len(claims):  # all granted, as most often
                return set(claims), found, saved
            granted = {Claim(job, attempt) for job, attempt, _ in granted_rows}
            refused = [claim.job_id for claim in claims if claim not in granted and claim.job_id not in found]
            for job, attempt, cancelled, failure in self._claims.execute(
                _SQL["held"], (_ids(refused),)
            ).fetchall():
                ended = decode_failure(Claim(UUID(job), attempt), failure)
                found[UUID(job)] = Found(attempt, bool(cancelled), failure=ended)
        return granted, found, saved

    def _completed(self, job_ids: Sequence[UUID]) -> dict[UUID, Found]:
        ids = (_ids(job_ids),)
        here = self._claims.execute(_SQL["completed"], ids).fetchall()
        there = self._effects.execute(_SQL["completed"], ids).fetchall()
        completions = (_completion(row) for row in (*here, *there))
        return {one.job_id: Found(one.attempt, cancelled=False, completion=one) for one in completions}

    def renew(
        self, claims: Sequence[Claim], agent_id: str, lease: timedelta, *, even_awaited: bool
    ) -> set[UUID]:
        until = timestamp_text(datetime.now(UTC) + lease)
        values = {"batch": _pairs(claims), "agent": agent_id, "until": until, "awaited": even_awaited}
        return self._change(_SQL["renew"], values)

    def release(self, claims: Sequence[Claim], agent_id: str) -> None:
        self._change(_SQL["release"], {"batch": _pairs(claims), "agent": agent_id})

    def complete(self, completions: Sequence[Completion], agent_id: str) -> set[UUID]:
        # A completion of the handlers' file cannot be here too: a completed job is never granted again.
        batch = json.dumps([columns(one) for one in completions])
        return self._change(_SQL["complete"], {"batch": batch, "agent": agent_id})

    def fail(self, failures: Sequence[Failure], agent_id: str, *, abandoned: bool = False) -> set[UUID]:
        """Record failures of this agent's claims; `abandoned`: of claims whose holders have died instead."""
        statement = _SQL["fail_abandoned"] if abandoned else _SQL["fail"]
        with immediate_transaction(self._claims):
            over = self._completed([one.job_id for one in failures])
            batch = json.dumps(
                [
                    [str(one.job_id), one.attempt, encode_failure(one), timestamp_text(one.finished_at)]
                    for one in failures
                    if one.job_id not in over
                ]
            )
            values = {"batch": batch, "agent": agent_id, "holder": HOLDER_MARK, "mark": PROCESS_MARK}
            failed = self._claims.execute(statement, values).fetchall()
        return {UUID(job) for (job,) in failed}

    def save_checkpoints(
        self, checkpoints: Sequence[SavedCheckpoint], agent_id: str, now: datetime
    ) -> set[UUID]:
        batch = json.dumps([[str(one.job_id), *one[1:]] for one in checkpoints])
        return self._change(_SQL["save"], {"batch": batch, "agent": agent_id, "now": timestamp_text(now)})

    def cancel(self, job_ids: Collection[UUID], now: datetime) -> None:
        self._change(_SQL["cancel"], {"batch": _ids(job_ids), "now": timestamp_text(now)})

    def delete_old(self, before: datetime, after: datetime | None, limit: int) -> tuple[DeletedRows, bool]:
        """Delete one batch of this file; True if the handlers' file has old completions too."""
        parameters: dict[str, Any] = {
            "before": timestamp_text(before),
            "after": timestamp_text(after) if after else "",
            "limit": limit,
        }
        with immediate_transaction(self._claims):
            completions = self._claims.execute(_SQL["forget_completions"], parameters).rowcount
            end = self._claims.execute(_SQL["page_end"], parameters).fetchone()
            parameters["end"] = end[0] if end else parameters["before"]
            gone = [job for (job,) in self._claims.execute(_SQL["forget_claims"], parameters).fetchall()]
            self._claims.execute(_SQL["forget_checkpoints"], {"jobs": json.dumps(gone)})
            there = (
                self._effects.execute(_SQL["old_completion"], (parameters["before"],)).fetchone() is not None
            )
        following = after or datetime.min.replace(tzinfo=UTC) if completions == limit else None
        if end:
            following = datetime.fromisoformat(end[0])
        return DeletedRows(completions + len(gone), completions, following), there

    def _change(self, statement: str, values: Mapping[str, object]) -> set[UUID]:
        with immediate_transaction(self._claims):
            return {UUID(job) for (job,) in self._claims.execute(statement, values).fetchall()}


def _add_columns(claims: sqlite3.Connection) -> None:
    """Add the columns that a table of an earlier version lacks; its rows count as claimed now."""
    known = {row[1] for row in claims.execute("PRAGMA table_info(warrener_claims)")}
    if "claimed_at" not in known:
        now = timestamp_text(datetime.now(UTC))
        claims.execute(f"ALTER TABLE warrener_claims ADD COLUMN claimed_at TEXT NOT NULL DEFAULT '{now}'")
    if "next_attempt" not in known:
        claims.execute("ALTER TABLE warrener_claims ADD COLUMN next_attempt INTEGER")


def columns(completion: Completion) -> list[Any]:
    """Encode a completion as a row."""
    return [
        str(completion.job_id),
        completion.attempt,
        completion.result_text,
        encode_child_jobs(completion.child_jobs),
        timestamp_text(completion.started_at),
        timestamp_text(completion.finished_at),
    ]


def _completion(row: tuple[str, int, str, str, str, str]) -> Completion:
    job, attempt, result, child_jobs, started_at, finished_at = row
    return Completion(
        UUID(job),
        attempt,
        result,
        decode_child_jobs(child_jobs),
        datetime.fromisoformat(started_at),
        datetime.fromisoformat(finished_at),
    )


def _pairs(claims: Iterable[Claim]) -> str:
    return json.dumps([[str(claim.job_id), claim.attempt] for claim in claims])


def _ids(job_ids: Iterable[UUID]) -> str:
    return json.dumps([str(job_id) for job_id in job_ids])
