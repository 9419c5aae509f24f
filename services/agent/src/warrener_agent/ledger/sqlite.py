"""The ledger in SQLite files, for the agents of one host.

There are two files. `ledger.db` is the database of the handlers' own writes, with the completions of their
transactions, so that both commit at once. `ledger.db-claims` holds claims, leases and the completions without
a transaction. SQLite allows one writer a file: in a single file, a handler that keeps its transaction open
for a minute would block claims and renewals for a minute, and leases would run out. With two, handlers wait
for handlers alone, and a claim waits for no longer than another claim takes.

The fence holds across both files: an agent that records a completion in `ledger.db` holds the write lock of
the claims from the check of its claim until after the commit, and claims check the completions under that
lock.
"""

import json
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Sequence
from contextlib import ExitStack, asynccontextmanager, closing
from datetime import UTC, datetime, timedelta
from math import inf
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

from warrener_agent.ledger import port, rows, sqlite_files
from warrener_agent.ledger.statements import ledger_statements

R = TypeVar("R")
_SQL = ledger_statements("sqlite")
_NO_TIME = timedelta(0)
_EARLIEST = datetime.min.replace(tzinfo=UTC)


class SqliteLedger:
    """A `Ledger` in the file `path` and the claims' file beside it, for any number of agents of this host.

    Each method but `transaction` is one short transaction of the claims' file, each change one statement a
    batch.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        claims = path.with_name(path.name + "-claims")
        self._worker = sqlite_files.FileWorker("warrener-ledger", path, lambda: self._open(claims))
        self._lock = sqlite_files.WriteLock(path, claims)

    async def start(self) -> None:
        await self._worker.run(lambda _: None)

    def _open(self, claims: Path) -> sqlite_files.LedgerFiles:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with ExitStack() as opened:
                files = opened.enter_context(closing(sqlite_files.LedgerFiles(self._path, claims)))
                files.make_tables()
                opened.pop_all()
                return files
        except OSError as error:
            raise port.LedgerUnavailable(
                f"expected to write the ledger {self._path}, got: {error}"
            ) from error

    async def close(self) -> None:
        await self._lock.close()
        await self._worker.close()

    async def ping(self) -> None:
        await self._run(lambda files: files.effects.execute("SELECT 1").fetchone())

    async def time(self) -> datetime:
        """Return the time of this host, which all agents that share the file have."""
        self._require_started()
        return self._now()

    def _now(self) -> datetime:
        return datetime.now(UTC)

    async def claim(
        self, claims: Sequence[port.Claim], *, agent_id: str, lease: timedelta
    ) -> list[port.ClaimResult]:
        return await self._run(lambda files: self._claim(files, claims, agent_id, lease))

    def _claim(
        self, files: sqlite_files.LedgerFiles, claims: Sequence[port.Claim], agent_id: str, lease: timedelta
    ) -> list[port.ClaimResult]:
        wanted = rows.highest_attempts(claims)
        found = {
            job_id: rows.Found(completion.attempt, cancelled=False, completion=completion)
            for job_id, completion in read_completions(files, (one.job_id for one in wanted)).items()
        }
        open_claims = [claim for claim in wanted if claim.job_id not in found] if found else wanted
        values = self._values(agent_id, lease) | {"batch": _pairs(open_claims)}
        granted = {
            port.Claim(job_id := UUID(job), attempt): rows.decode_checkpoint(job_id, attempt, checkpoint)
            for job, attempt, following, checkpoint in files.claims.execute(_SQL["claim"], values).fetchall()
            if following is None
        }
        refused = [claim.job_id for claim in open_claims if claim not in granted]
        if refused:
            for job, attempt, cancelled, failure in files.claims.execute(_SQL["held"], (_ids(refused),)):
                ended = rows.decode_failure(port.Claim(UUID(job), attempt), failure)
                found[UUID(job)] = rows.Found(attempt, bool(cancelled), failure=ended)
        return rows.claim_results(claims, granted, found)

    async def renew(
        self, claims: Sequence[port.Claim], *, agent_id: str, lease: timedelta, even_awaited: bool = False
    ) -> port.Renewal:
        return port.Renewal(
            await self._change("renew", _pairs(claims), agent_id, lease=lease, awaited=even_awaited)
        )

    async def complete(self, completions: Sequence[port.Completion], *, agent_id: str) -> set[UUID]:
        # A completion of the handlers' file cannot be here too: a completed job is never granted again.
        batch = json.dumps([sqlite_files.encode_completion(one) for one in completions])
        return await self._change("complete", batch, agent_id)

    async def fail(self, failures: Sequence[port.Failure], *, agent_id: str) -> set[UUID]:
        return await self._run(lambda files: self._fail(files, "fail", failures, agent_id))

    async def fail_abandoned(self, failures: Sequence[port.Failure], *, agent_id: str) -> set[UUID]:
        return await self._run(lambda files: self._fail(files, "fail_abandoned", failures, agent_id))

    def _fail(
        self, files: sqlite_files.LedgerFiles, statement: str, failures: Sequence[port.Failure], agent_id: str
    ) -> set[UUID]:
        over = read_completions(files, (one.job_id for one in failures))
        batch = [
            [
                str(one.job_id),
                one.attempt,
                rows.encode_failure(one),
                sqlite_files.timestamp_text(one.finished_at),
            ]
            for one in failures
            if one.job_id not in over
        ]
        marks = {"batch": json.dumps(batch), "holder": port.HOLDER_MARK, "mark": port.PROCESS_MARK}
        return _changed(files, statement, self._values(agent_id) | marks)

    async def save_checkpoints(
        self, checkpoints: Sequence[port.SavedCheckpoint], *, agent_id: str, now: datetime
    ) -> set[UUID]:
        batch = json.dumps([[str(one.job_id), *one[1:]] for one in checkpoints])
        return await self._change("save", batch, agent_id, at=sqlite_files.timestamp_text(now))

    async def release(self, claims: Sequence[port.Claim], *, agent_id: str) -> None:
        await self._change("release", _pairs(claims), agent_id)

    async def cancel(self, job_ids: Collection[UUID], *, now: datetime) -> None:
        await self._change("cancel", _ids(job_ids), at=sqlite_files.timestamp_text(now))

    @asynccontextmanager
    async def transaction(
        self, claim: port.Claim, *, agent_id: str, time_left: float = inf
    ) -> "AsyncGenerator[sqlite_files.SqliteTransaction]":
        del time_left  # a file's lock ends with the process of this host that holds it
        self._require_started()
        one = sqlite_files.SqliteTransaction(self._lock, claim, agent_id)
        try:
            yield one
        finally:
            await one.end()

    async def delete_old(
        self, before: datetime, *, after: datetime | None = None, limit: int = 1000
    ) -> port.DeletedRows:
        """Delete old rows; waits for the handlers' transactions if their file has old completions."""
        deleted, there = await self._run(lambda files: _delete_old(files, before, after, limit))
        if not there:
            return deleted
        completions = await self._lock.delete_old(before, limit)
        following = after or _EARLIEST if completions == limit else None
        return port.DeletedRows(
            deleted.rows + completions, deleted.completions + completions, deleted.after or following
        )

    async def _change(
        self, statement: str, batch: str, agent_id: str = "", *, lease: timedelta = _NO_TIME, **values: object
    ) -> set[UUID]:
        """Carry out a statement, and return the jobs that it changed."""
        return await self._run(
            lambda files: _changed(
                files, statement, {**self._values(agent_id, lease), "batch": batch, **values}
            )
        )

    def _values(self, agent_id: str, lease: timedelta = _NO_TIME) -> dict[str, object]:
        """Return the values that most statements take; of the time after the wait for the lock."""
        now = self._now()
        return {
            "agent": agent_id,
            "now": sqlite_files.timestamp_text(now),
            "until": sqlite_files.timestamp_text(now + lease),
        }

    async def _run(self, work: Callable[[sqlite_files.LedgerFiles], R]) -> R:
        """Run `work` in a transaction of the claims' file."""
        self._require_started()

        def locked(files: sqlite_files.LedgerFiles) -> R:
            with sqlite_files.immediate_transaction(files.claims):
                return work(files)

        with sqlite_files.translate_outages(self._path):
            return await self._worker.run(locked)

    def _require_started(self) -> None:
        if self._worker.files is None:
            raise port.LedgerUnavailable(
                "expected a started ledger, got one that is closed; call start() first"
            )


def _changed(files: sqlite_files.LedgerFiles, statement: str, values: dict[str, object]) -> set[UUID]:
    return {UUID(job) for (job,) in files.claims.execute(_SQL[statement], values).fetchall()}


def read_completions(files: sqlite_files.LedgerFiles, job_ids: Iterable[UUID]) -> dict[UUID, port.Completion]:
    """Read the completions of these jobs, by job, from both files."""
    ids = (_ids(job_ids),)
    return {
        (job_id := UUID(job)): port.Completion(
            job_id, attempt, result, rows.decode_child_jobs(child_jobs), *map(datetime.fromisoformat, times)
        )
        for file in (files.claims, files.effects)
        for job, attempt, result, child_jobs, *times in file.execute(_SQL["completed"], ids).fetchall()
    }


def _delete_old(
    files: sqlite_files.LedgerFiles, before: datetime, after: datetime | None, limit: int
) -> tuple[port.DeletedRows, bool]:
    """Delete one batch of the claims' file; True if the handlers' file has old completions too."""
    claims, values = files.claims, dict[str, Any](before=sqlite_files.timestamp_text(before), limit=limit)
    values["after"] = sqlite_files.timestamp_text(after) if after else ""
    completions = claims.execute(_SQL["forget_completions"], values).rowcount
    end = claims.execute(_SQL["page_end"], values).fetchone()
    values["end"] = end[0] if end else values["before"]
    gone = [job for (job,) in claims.execute(_SQL["forget_claims"], values).fetchall()]
    claims.execute(_SQL["forget_checkpoints"], {"jobs": json.dumps(gone)})
    there = files.effects.execute(_SQL["old_completion"], (values["before"],)).fetchone() is not None
    following = after or _EARLIEST if completions == limit else None
    if end:
        following = datetime.fromisoformat(end[0])
    return port.DeletedRows(completions + len(gone), completions, following), there


def _pairs(claims: Iterable[port.Claim]) -> str:
    return json.dumps([[str(claim.job_id), claim.attempt] for claim in claims])


def _ids(job_ids: Iterable[UUID]) -> str:
    return json.dumps([str(job_id) for job_id in job_ids])
