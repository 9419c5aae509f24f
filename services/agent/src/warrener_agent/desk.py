"""The agent's side of a running attempt: its transaction, its follow-ups, its progress."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Self
from uuid import UUID

from warrener_agent.context import Parameters, Wish
from warrener_agent.follow_ups import FollowUps
from warrener_agent.ledger.port import Claim, Completion, FollowUp, Ledger, LedgerError, OpenTransaction
from warrener_runtime.telemetry import TraceContext

Progress = Callable[[float, str], None]


class LoopDesk:
    """A `Desk` in the agent's event loop. Used with `async with`: it is closed whatever happens."""

    def __init__(
        self, ledger: Ledger, claim: Claim, agent_id: str, context: TraceContext, progress: Progress
    ) -> None:
        self._ledger, self._claim, self._agent_id = ledger, claim, agent_id
        self._follow_ups = FollowUps(claim.job_id, context)
        self._progress = progress
        self._stack = AsyncExitStack()
        self._transaction: OpenTransaction | None = None
        self._statements: set[asyncio.Task[list[Mapping[str, Any]]]] = set()
        self._closed = False

    async def execute(self, statement: str, parameters: Parameters) -> list[Mapping[str, Any]]:
        if self._closed:
            raise LedgerError("expected an open transaction, got one that is over: its attempt has ended")
        # A task of its own, so that closing can end it whichever thread waits for it.
        work = asyncio.create_task(self._execute(statement, parameters))
        self._statements.add(work)
        work.add_done_callback(self._statements.discard)
        return await work

    async def _execute(self, statement: str, parameters: Parameters) -> list[Mapping[str, Any]]:
        if self._transaction is None:
            opening = self._ledger.transaction(self._claim, agent_id=self._agent_id)
            self._transaction = await self._stack.enter_async_context(opening)
        return await self._transaction.execute(statement, parameters)

    def execute_blocking(self, statement: str, parameters: Parameters) -> list[Mapping[str, Any]]:
        raise RuntimeError(
            "expected `await (await job.transaction()).execute(...)` in a coroutine, got "
            "transaction_sync(): it "
            "would stop the whole agent while it waits"
        )

    def request(self, wish: Wish) -> UUID:
        return self._follow_ups.add(wish)

    def progress(self, fraction: float, note: str) -> None:
        if not self._closed:
            self._progress(fraction, note)

    @property
    def follow_ups(self) -> tuple[FollowUp, ...]:
        """What the handler has asked for."""
        return self._follow_ups.all()

    async def complete(self, completion: Completion) -> bool | None:
        """Commit the transaction with the completion: whether it was accepted. None if there is no
        transaction."""
        return None if self._transaction is None else await self._transaction.complete(completion)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing of the handler gets through any more; what was not completed is rolled back."""
        self._closed = True
        if self._statements or self._transaction is not None:
            await asyncio.shield(self._end_transaction())

    async def _end_transaction(self) -> None:
        statements = set(self._statements)
        for statement in statements:
            statement.cancel()
        if statements:
            await asyncio.wait(statements)
        await self._stack.aclose()
