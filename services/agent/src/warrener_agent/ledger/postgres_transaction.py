"""A handler's transaction in PostgreSQL."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from time import monotonic
from typing import TYPE_CHECKING, Any
from uuid import UUID

import asyncpg

from warrener_agent.ledger.port import Claim, Completion, LedgerError
from warrener_agent.ledger.postgres_errors import translate_outages
from warrener_agent.ledger.postgres_sessions import ANSWER_TIMEOUT, terminate_connection
from warrener_agent.ledger.postgres_sql import COMMIT_WITH, LOST
from warrener_agent.ledger.row_codec import encode_follow_ups
from warrener_agent.ledger.statements import number_parameters, reject_transaction_control

if TYPE_CHECKING:
    from warrener_agent.ledger.postgres_sessions import Connection, Pool

_BEGIN = 4.0
"""Seconds that a connection has for the first answer; after that another one is tried, once."""
_ROLLBACK = 2.0
"""Seconds that a connection has to end what is open; after that it is closed."""
_LEAST_COMMIT = 1.0
_SPARE = 2.0
"""Seconds after the attempt's end at which the server ends the transaction, if it still hears nothing."""
_LONGEST = 2_147_483  # seconds; PostgreSQL counts milliseconds in 31 bits


class PostgresTransaction:
    """An `OpenTransaction`. It takes a connection with its first statement, not before.

    What the server may wait for is limited by the attempt's time, on the server itself: an agent that is cut
    off holds the handler's rows no longer.
    """

    def __init__(self, pool: "Pool", claim: Claim, agent_id: str, time_left: float) -> None:
        self._pool, self._claim, self._agent_id = pool, claim, agent_id
        self._timeout_at = monotonic() + time_left
        self._one_at_a_time = asyncio.Lock()
        self._connection: Connection | None = None
        self._over = False
        self._clean = False  # nothing is open in the session, and nothing left

    async def execute(
        self, statement: str, parameters: Mapping[str, Any] | Sequence[Mapping[str, Any]] = ()
    ) -> list[Mapping[str, Any]]:
        reject_transaction_control(statement)
        text, names = number_parameters(statement)
        async with self._one_at_a_time:
            connection = await self._begin()
            with translate_outages():
                if not isinstance(parameters, Mapping) and (parameters or names):
                    await connection.executemany(text, [_values(one, names) for one in parameters])
                    return []
                given: Mapping[str, Any] = parameters if isinstance(parameters, Mapping) else {}
                return [dict(row) for row in await connection.fetch(text, *_values(given, names))]

    async def complete(self, completion: Completion) -> bool:
        async with self._one_at_a_time:
            connection = await self._begin()
            # Past this line it goes to its end, whoever is cancelled: half a commit does not exist.
            recording = asyncio.ensure_future(self._record(connection, completion))
            try:
                return await asyncio.shield(recording)
            finally:
                if not recording.done():
                    await asyncio.wait({recording})
                await self.end()

    async def _record(self, connection: "Connection", completion: Completion) -> bool:
        """One round trip, within the attempt's time: without an answer it is not known whether it is
        committed, and the ledger knows."""
        limit = min(ANSWER_TIMEOUT, max(self._timeout_at - monotonic(), _LEAST_COMMIT))
        with translate_outages():
            message = COMMIT_WITH.format(
                job_id=_literal(self._claim.job_id),
                attempt=int(self._claim.attempt),
                agent_id=_literal(self._agent_id),
                result=_literal(completion.result_text),
                follow_ups=_literal(encode_follow_ups(completion.follow_ups)),
                started_at=_literal(completion.started_at),
                finished_at=_literal(completion.finished_at),
                clean_up=connection.get_reset_query(),
            )
            try:
                await connection.execute(message, timeout=limit)
            except TimeoutError:
                self._clean = True  # for the next one: there is none
                await terminate_connection(self._pool, connection)
                raise
            except asyncpg.InvalidTextRepresentationError as error:
                if LOST in str(error):
                    return False
                raise
        self._clean = True
        return True

    async def _begin(self) -> "Connection":
        if self._over:
            raise LedgerError("expected an open transaction, got one that is over: its attempt has ended")
        if self._connection is None:
            with translate_outages():
                try:
                    self._connection = await self._begun()
                except TimeoutError:  # it was idle, and is closed by now like all that were
                    self._connection = await self._begun()
        return self._connection

    async def _begun(self) -> "Connection":
        connection = await self._pool.acquire()
        left = min(max(self._timeout_at - monotonic(), 0.0) + _SPARE, _LONGEST)
        try:
            await connection.execute(
                "BEGIN; "
                f"SET LOCAL statement_timeout = {left * 1000:.0f}; "
                f"SET LOCAL idle_in_transaction_session_timeout = {left * 1000:.0f}",
                timeout=_BEGIN,
            )
        except BaseException:
            await terminate_connection(self._pool, connection)
            await self._pool.release(connection)
            raise
        return connection

    async def end(self) -> None:
        """Roll back what was not completed, and give the connection back; safe to call twice."""
        self._over = True
        connection, self._connection = self._connection, None
        if connection is not None:
            await asyncio.shield(self._give_back(connection))

    async def _give_back(self, connection: "Connection") -> None:
        try:
            if not self._clean:
                async with asyncio.timeout(_ROLLBACK):  # a statement that still runs is cancelled before
                    await connection.execute(f"ROLLBACK; {connection.get_reset_query()}")
        except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
            with suppress(asyncpg.InterfaceError):  # it was closed before
                connection.terminate()  # the server rolls back what it finds open
        finally:
            await self._pool.release(connection)


def _values(parameters: Mapping[str, Any], names: Sequence[str]) -> list[Any]:
    missing = [name for name in names if name not in parameters]
    if missing:
        raise ValueError(f"expected a value for :{', :'.join(missing)}, got {sorted(parameters)}")
    return [parameters[name] for name in names]


def _literal(value: str | UUID | datetime | None) -> str:
    """A value as SQL text, read alike whatever a handler has set in its session."""
    if value is None:
        return "NULL"
    text = value.isoformat() if isinstance(value, datetime) else str(value)
    return "E'" + text.replace("\\", "\\\\").replace("'", "''") + "'"
