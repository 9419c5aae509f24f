"""A handler's transaction in SQLite: the one writer of the handlers' file, from its first statement to its
end."""

import asyncio
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from warrener_agent.ledger.port import Claim, Completion, LedgerError
from warrener_agent.ledger.sqlite_claims import FORGET_COMPLETIONS, columns
from warrener_agent.ledger.sqlite_files import (
    WorkerThread,
    immediate_transaction,
    open_file,
    rows_as_dicts,
    timestamp_text,
    to_sqlite,
    translate_outages,
)
from warrener_agent.ledger.statements import number_parameters, reject_transaction_control

R = TypeVar("R")
_PATIENCE = 0.25
"""Seconds in which one try for the write lock waits; between two tries the attempt can be stopped."""

_STILL_MINE = """
    SELECT 1 FROM warrener_claims AS c
    WHERE job_id = ? AND attempt = ? AND agent_id = ? AND cancelled_at IS NULL
        AND NOT EXISTS (SELECT 1 FROM warrener_completions AS d WHERE d.job_id = c.job_id)
"""
_RECORD = "INSERT OR IGNORE INTO warrener_completions VALUES (?, ?, ?, ?, ?, ?)"


class _Files:
    """The handlers' file for writing, and the claims' file for the fence; used from one thread."""

    def __init__(self, effects: sqlite3.Connection, claims: sqlite3.Connection) -> None:
        self.effects, self._claims = effects, claims

    def begin(self) -> bool:
        """Take the write lock; False where another process has it."""
        try:
            self.effects.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY:
                return False
            raise
        return True

    def record(self, completion: Completion, claim: Claim, agent_id: str) -> bool:
        """Commit with the completion, if the claim still holds: nobody can take it while we look and
        commit."""
        try:
            with immediate_transaction(self._claims):
                mine = self._claims.execute(
                    _STILL_MINE, (str(claim.job_id), claim.attempt, agent_id)
                ).fetchone()
                if not mine or self.effects.execute(_RECORD, columns(completion)).rowcount != 1:
                    return False
                self.effects.execute("COMMIT")
                return True
        finally:
            self.rollback()

    def rollback(self) -> None:
        if self.effects.in_transaction:
            self.effects.execute("ROLLBACK")

    def close(self) -> None:
        self.rollback()
        self.effects.close()
        self._claims.close()


class WriteLock:
    """The right to write to the handlers' file: within this process in turn, among processes by SQLite's
    lock."""

    def __init__(self, path: Path, claims_path: Path) -> None:
        self.path = path
        self._claims_path = claims_path
        self._turn = asyncio.Lock()
        self._worker = WorkerThread("warrener-effects")
        self._files: _Files | None = None

    async def acquire(self) -> None:
        """Wait for the write lock, however long another handler has it, and begin. What limits the wait is
        the attempt's own timeout."""
        await self._turn.acquire()
        try:
            while not await self.run(_Files.begin):
                pass
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        """Let the next one in. What was not committed is rolled back, after the statement that may still
        run."""
        if self._files is not None:
            self._files.effects.interrupt()
        self._worker.submit(self._rollback)
        self._turn.release()

    async def run(self, work: Callable[[_Files], R]) -> R:
        """Do it in the thread of the files."""

        def opened() -> R:
            if self._files is None:
                with translate_outages(self.path):
                    self._files = _Files(
                        open_file(self.path, patience=_PATIENCE), open_file(self._claims_path)
                    )
            return work(self._files)

        return await self._worker.run(opened)

    def _rollback(self) -> None:
        if self._files is not None:
            self._files.rollback()

    async def delete_old(self, before: datetime, limit: int) -> int:
        """Delete some completions that are older, when no handler writes."""
        await self.acquire()
        try:
            return await self.run(lambda files: self._forget(files, before, limit))
        finally:
            self.release()

    def _forget(self, files: _Files, before: datetime, limit: int) -> int:
        with translate_outages(self.path):
            values = {"before": timestamp_text(before), "limit": limit}
            deleted = files.effects.execute(FORGET_COMPLETIONS, values).rowcount
            files.effects.execute("COMMIT")
            return deleted

    async def close(self) -> None:
        """Roll back what is open, and close the files. May be called twice."""
        files, self._files = self._files, None
        if files is not None:
            files.effects.interrupt()
            await self._worker.run(files.close)
        self._worker.end()


class SqliteTransaction:
    """An `OpenTransaction`. It takes the write lock with its first statement, not before: what a handler does
    before it writes keeps nobody waiting."""

    def __init__(self, lock: WriteLock, claim: Claim, agent_id: str) -> None:
        self._lock, self._claim, self._agent_id = lock, claim, agent_id
        self._one_at_a_time = asyncio.Lock()
        self._begun = self._over = False

    async def execute(
        self, statement: str, parameters: Mapping[str, Any] | Sequence[Mapping[str, Any]] = ()
    ) -> list[Mapping[str, Any]]:
        reject_transaction_control(statement)
        async with self._one_at_a_time:
            await self._begin()
            return await self._lock.run(lambda files: _execute(files.effects, statement, parameters))

    async def complete(self, completion: Completion) -> bool:
        async with self._one_at_a_time:
            await self._begin()
            # Past this line it goes to its end, whoever is cancelled: half a commit does not exist.
            work = self._lock.run(lambda files: self._record(files, completion))
            recording = asyncio.ensure_future(work)
            try:
                return await asyncio.shield(recording)
            finally:
                if not recording.done():
                    await asyncio.wait({recording})
                self.end()

    def _record(self, files: _Files, completion: Completion) -> bool:
        with translate_outages(self._lock.path):
            return files.record(completion, self._claim, self._agent_id)

    async def _begin(self) -> None:
        if self._over:
            raise LedgerError("expected an open transaction, got one that is over: its attempt has ended")
        if not self._begun:
            await self._lock.acquire()
            self._begun = True
            if self._over:  # ended while it waited
                self._lock.release()
                raise LedgerError("expected an open transaction, got one that is over: its attempt has ended")

    def end(self) -> None:
        """Roll back what was not completed; safe to call twice."""
        if self._begun and not self._over:
            self._lock.release()
        self._over = True


def _execute(
    connection: sqlite3.Connection,
    statement: str,
    parameters: Mapping[str, Any] | Sequence[Mapping[str, Any]],
) -> list[Mapping[str, Any]]:
    if isinstance(parameters, Mapping):
        values = {name: to_sqlite(value) for name, value in parameters.items()}
        return list(rows_as_dicts(connection.execute(statement, values)))
    if not parameters:
        # No rows for a statement that wants some: once for each is not at all.
        return (
            [] if number_parameters(statement).names else list(rows_as_dicts(connection.execute(statement)))
        )
    connection.executemany(
        statement, ({name: to_sqlite(value) for name, value in one.items()} for one in parameters)
    )
    return []
