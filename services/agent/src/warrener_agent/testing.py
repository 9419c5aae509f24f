"""For users' tests: run one attempt of a handler as an agent would, without a broker.

    trial = await run(agent, "flights.load", {"path": "day.csv"})
    assert trial.result == {"rows": 842}

Arguments and results go through the handler's signature, and the transaction is a real one, of a SQLite
ledger.
"""

import asyncio
import json
import tempfile
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from math import inf
from pathlib import Path
from typing import Any
from uuid import UUID

from warrener_agent.agent import Agent
from warrener_agent.context import AttemptFacts
from warrener_agent.desk import LoopDesk
from warrener_agent.executors.command import CommandExecutor
from warrener_agent.executors.coroutine import CoroutineExecutor
from warrener_agent.executors.port import Ended, Executor, Returned
from warrener_agent.executors.process import ProcessExecutor
from warrener_agent.executors.thread import ThreadExecutor
from warrener_agent.failures import Instead
from warrener_agent.kinds import ExecutorName, JobKind
from warrener_agent.ledger import Claim, Completion, Grant, Ledger, open_ledger
from warrener_contracts.codec import DecodedEvent, decode
from warrener_contracts.events import ErrorInfo, JobRequested
from warrener_runtime.clock import SystemClock, SystemEntropy
from warrener_runtime.telemetry import NO_CONTEXT

_EXECUTORS: Mapping[ExecutorName, Callable[[], Executor]] = {
    "coroutine": CoroutineExecutor,
    "thread": ThreadExecutor,
    "process": ProcessExecutor,
    "command": CommandExecutor,
}
_AGENT = "test"


@dataclass(frozen=True)
class Trial:
    """What one attempt did."""

    result: Any = None
    error: ErrorInfo | None = None
    retry_after_seconds: float | None = None
    instead: Instead | None = None  # what it asked for in place of a judgement: `error` says why
    follow_ups: tuple[JobRequested, ...] = ()
    progress: list[tuple[float, str]] = field(default_factory=list[tuple[float, str]])
    checkpoints: list[Any] = field(default_factory=list[Any])  # every one that it has saved, in order

    @property
    def succeeded(self) -> bool:
        """Whether the handler returned."""
        return self.error is None


@asynccontextmanager
async def temporary_ledger() -> AsyncGenerator[Ledger]:
    """A SQLite ledger that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="warrener-") as folder:
        ledger = open_ledger(f"sqlite:///{Path(folder, 'ledger.db')}")
        await ledger.start()
        try:
            yield ledger
        finally:
            await ledger.close()


async def run(
    agent: Agent,
    job_type: str,
    arguments: Mapping[str, Any] | None = None,
    *,
    ledger: Ledger | None = None,
    job_id: UUID | None = None,
    attempt: int = 1,
    last_checkpoint: Any = None,
) -> Trial:
    """Run one attempt. A handler's exception is the trial's `error`, not ours.

    Give it a `ledger` of yours (see `temporary_ledger`) to look at what its transaction wrote, and the same
    `job_id` to try a job again; `last_checkpoint` is what it finds. There is no timeout: the test has one.
    """
    kind, claim = agent.kinds[job_type], Claim(job_id or SystemEntropy().new_id(), attempt)
    if ledger is not None:
        return await _run(kind, dict(arguments or {}), ledger, claim, last_checkpoint)
    async with temporary_ledger() as own:
        return await _run(kind, dict(arguments or {}), own, claim, last_checkpoint)


async def _run(
    kind: JobKind, arguments: dict[str, Any], ledger: Ledger, claim: Claim, last_checkpoint: Any
) -> Trial:
    started_at = SystemClock().now()
    job_id, attempt = claim
    (granted,) = await ledger.claim([claim], agent_id=_AGENT, lease=timedelta(days=1))
    if granted.grant is not Grant.GRANTED:
        raise ValueError(
            f"expected attempt {attempt} to be granted, got {granted.grant.value}; take a new job_id"
        )
    policy = kind.declaration.policy
    deadline = started_at + policy.timeout
    facts = AttemptFacts(job_id, kind.name, attempt, policy.max_attempts, deadline, last_checkpoint)
    executor = _EXECUTORS[kind.executor]()
    said: list[tuple[float, str]] = []
    saved: list[Any] = []
    try:
        async with LoopDesk(
            ledger,
            claim,
            _AGENT,
            NO_CONTEXT,
            lambda fraction, note: said.append((fraction, note)),
            lambda text: saved.append(json.loads(text)),
            lambda: inf,
        ) as desk:
            ended: Ended = await asyncio.shield(executor.begin(kind, facts, arguments, desk).done)
            if not isinstance(ended, Returned):
                await ledger.release([claim], agent_id=_AGENT)
                return Trial(
                    error=ended.error,
                    retry_after_seconds=ended.retry_after_seconds,
                    instead=ended.instead,
                    progress=said,
                    checkpoints=saved,
                )
            wished = desk.follow_ups
            completion = Completion(
                job_id, attempt, ended.result_text, wished, started_at, SystemClock().now()
            )
            if await desk.complete(completion) is None:
                await ledger.complete([completion], agent_id=_AGENT)
        return Trial(
            completion.result,
            follow_ups=tuple(_request(one.request) for one in wished),
            progress=said,
            checkpoints=saved,
        )
    finally:
        await executor.close()


def _request(body: bytes) -> JobRequested:
    (read,) = decode(body)
    assert isinstance(read, DecodedEvent)
    assert isinstance(read.event, JobRequested)
    return read.event
