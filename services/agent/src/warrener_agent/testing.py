"""For users' tests: run one attempt of a handler as an agent does, without a broker.

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
from warrener_agent.decisions.errors import HandlerReturned, HandlerSuspended
from warrener_agent.definitions.job import ExecutorName, JobDefinition
from warrener_agent.executors.base import Executor, HandlerCall
from warrener_agent.executors.command import CommandExecutor
from warrener_agent.executors.in_agent import CoroutineExecutor, ThreadExecutor
from warrener_agent.executors.process import ProcessExecutor
from warrener_agent.failures import HandlerSignal
from warrener_agent.handler_api import LocalHandlerPort
from warrener_agent.ledger import connected_ledger
from warrener_agent.ledger.port import Claim, ClaimStatus, Completion, Ledger
from warrener_agent.workflow_trial import WorkflowTrial, replay, run_workflow
from warrener_contracts.codec import DecodedEvent, decode
from warrener_contracts.events import AttemptDispatchedData, ErrorInfo, History, JobRequested
from warrener_runtime.clock import SystemClock, SystemEntropy
from warrener_runtime.telemetry import NO_CONTEXT

__all__ = ["Trial", "WorkflowTrial", "replay", "run", "run_workflow", "temporary_ledger"]

_EXECUTORS: Mapping[ExecutorName, Callable[[], Executor]] = {
    "coroutine": CoroutineExecutor,
    "thread": ThreadExecutor,
    "process": ProcessExecutor,
    "command": CommandExecutor,
}
_AGENT = "test"


@dataclass(frozen=True)
class Trial:
    """The result of one attempt."""

    result: Any = None
    error: ErrorInfo | None = None
    retry_after_seconds: float | None = None
    handler_signal: HandlerSignal | None = None  # requested instead of failing; `error` says why
    child_jobs: tuple[JobRequested, ...] = ()
    progress: list[tuple[float, str]] = field(default_factory=list[tuple[float, str]])
    checkpoints: list[Any] = field(default_factory=list[Any])  # all that it saved, in order

    @property
    def succeeded(self) -> bool:
        """True if the handler returned."""
        return self.error is None


@asynccontextmanager
async def temporary_ledger() -> AsyncGenerator[Ledger]:
    """Open a SQLite ledger, and delete it afterwards."""
    with tempfile.TemporaryDirectory(prefix="warrener-") as folder:
        async with connected_ledger(f"sqlite:///{Path(folder, 'ledger.db')}") as ledger:
            yield ledger


async def run(
    agent: Agent,
    job_type: str,
    arguments: Mapping[str, Any] | None = None,
    *,
    ledger: Ledger | None = None,
    job_id: UUID | None = None,
    attempt: int = 1,
    last_checkpoint: Any = None,
    history: History | None = None,
) -> Trial:
    """Run one attempt. A handler's exception becomes the trial's `error`.

    Pass a `ledger` (see `temporary_ledger`) to read what the transaction wrote, and the same `job_id` to run
    another attempt of a job; `last_checkpoint` is the state that it finds, `history` the earlier
    attempts. The attempt has no timeout.
    """
    definition, claim = agent.definitions[job_type], Claim(job_id or SystemEntropy().new_id(), attempt)
    if definition.executor == "workflow":
        raise ValueError(f"expected a job without turns, got the workflow {job_type}; use run_workflow")
    found: dict[str, Any] = {"last_checkpoint": last_checkpoint, "history": history}
    if ledger is not None:
        return await _run(definition, dict(arguments or {}), ledger, claim, **found)
    async with temporary_ledger() as own:
        return await _run(definition, dict(arguments or {}), own, claim, **found)


async def _run(
    definition: JobDefinition,
    arguments: dict[str, Any],
    ledger: Ledger,
    claim: Claim,
    *,
    last_checkpoint: Any,
    history: History | None,
) -> Trial:
    started_at = SystemClock().now()
    job_id, attempt = claim
    (granted,) = await ledger.claim([claim], agent_id=_AGENT, lease=timedelta(days=1))
    if granted.status is not ClaimStatus.GRANTED:
        raise ValueError(
            f"expected attempt {attempt} to be granted, got {granted.status.value}; take a new job_id"
        )
    policy = definition.declaration.policy
    dispatch = AttemptDispatchedData(
        job_id=job_id,
        attempt=attempt,
        job_type=definition.name,
        queue=definition.declaration.queue,
        arguments=arguments,
        guarantee=definition.declaration.guarantee,
        timeout=policy.timeout,
        max_attempts=policy.max_attempts,
        requested_at=started_at,
        history=history,
    )
    facts = AttemptFacts(dispatch, started_at + policy.timeout, last_checkpoint)
    executor = _EXECUTORS[definition.executor]()
    updates: list[tuple[float, str]] = []
    saved: list[Any] = []
    try:
        async with LocalHandlerPort(
            ledger,
            claim,
            _AGENT,
            NO_CONTEXT,
            lambda fraction, note: updates.append((fraction, note)),
            lambda text: saved.append(json.loads(text)),
            lambda: inf,
        ) as handler_port:
            handler_call = HandlerCall(definition, facts, handler_port)
            ended = await asyncio.shield(executor.begin(handler_call).done)
            assert not isinstance(ended, HandlerSuspended), "a workflow is run by run_workflow"
            if not isinstance(ended, HandlerReturned):
                await ledger.release([claim], agent_id=_AGENT)
                return Trial(
                    error=ended.error,
                    retry_after_seconds=ended.retry_after_seconds,
                    handler_signal=ended.handler_signal,
                    progress=updates,
                    checkpoints=saved,
                )
            child_jobs = handler_port.child_jobs
            completion = Completion(
                job_id, attempt, ended.result_text, child_jobs, started_at, SystemClock().now()
            )
            if await handler_port.complete(completion) is None:
                await ledger.complete([completion], agent_id=_AGENT)
        return Trial(
            completion.result,
            child_jobs=tuple(_request(one.request) for one in child_jobs),
            progress=updates,
            checkpoints=saved,
        )
    finally:
        await executor.close()


def _request(body: bytes) -> JobRequested:
    (read,) = decode(body)
    assert isinstance(read, DecodedEvent)
    assert isinstance(read.event, JobRequested)
    return read.event
