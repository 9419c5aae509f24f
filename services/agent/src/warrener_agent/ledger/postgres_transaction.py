"""A handler's transaction in PostgreSQL."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from warrener_agent.ledger.port import Claim, Completion, LedgerError
from warrener_agent.ledger.postgres_errors import unavailable
from warrener_agent.ledger.postgres_sql import BY_KEY, COMPLETE
from warrener_agent.ledger.records import follow_ups_text
from warrener_agent.ledger.statements import numbered, refuse_control

if TYPE_CHECKING:
    import asyncpg
    from asyncpg.pool import PoolConnectionProxy

    Pool = asyncpg.Pool[asyncpg.Record]
    Connection = PoolConnectionProxy[asyncpg.Record]


class PostgresTransaction:
    """An `OpenTransaction`. It takes a connection with its first statement, not before."""

    def __init__(self, pool: "Pool", claim: Claim, agent_id: str) -> None:
        self._pool, self._claim, self._agent_id = pool, claim, agent_id
        self._one_at_a_time = asyncio.Lock()
        self._connection: Connection | None = None
        self._over = False

    async def execute(
        self, statement: str, parameters: Mapping[str, Any] | Sequence[Mapping[str, Any]] = ()
    ) -> list[Mapping[str, Any]]:
        refuse_control(statement)
        text, names = numbered(statement)
        async with self._one_at_a_time:
            connection = await self._begin()
            with unavailable():
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
        values = (
            [self._claim.job_id],
            [self._claim.attempt],
            [completion.result_text],
            [follow_ups_text(completion.follow_ups)],
            [completion.started_at],
            [completion.finished_at],
        )
        with unavailable():
            await connection.execute(BY_KEY)
            mine = await connection.fetch(COMPLETE, *values, self._agent_id)
            await connection.execute("COMMIT" if mine else "ROLLBACK")
        return bool(mine)

    async def _begin(self) -> "Connection":
        if self._over:
            raise LedgerError("expected an open transaction, got one that is over: its attempt has ended")
        if self._connection is None:
            with unavailable():
                self._connection = await self._pool.acquire()
                await self._connection.execute("BEGIN")
        return self._connection

    async def end(self) -> None:
        """Roll back what was not completed, and give the connection back; safe to call twice."""
        self._over = True
        connection, self._connection = self._connection, None
        if connection is not None:
            # The pool rolls back what is open; a statement that still runs is cancelled first.
            await asyncio.shield(self._pool.release(connection, timeout=5))


def _values(parameters: Mapping[str, Any], names: Sequence[str]) -> list[Any]:
    missing = [name for name in names if name not in parameters]
    if missing:
        raise ValueError(f"expected a value for :{', :'.join(missing)}, got {sorted(parameters)}")
    return [parameters[name] for name in names]
