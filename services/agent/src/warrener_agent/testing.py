"""For users' tests: run one attempt of a handler as an agent does, without a broker.

    trial = await run(agent, "flights.load", {"path": "day.csv"})
    assert trial.result == {"rows": 842}

Arguments and results go through the handler's signature, and the transaction is a real one, of a SQLite
ledger.
"""

import asyncio
import json
import tempfile
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from math import inf
from pathlib import Path
from typing import Any
from uuid import UUID

from warrener_agent.agent import Agent
from warrener_agent.context import AttemptFacts
from warrener_agent.decisions.errors import HandlerReturned, HandlerSuspended
from warrener_agent.definitions.job import ExecutorName, Gather, JobDefinition
from warrener_agent.executors.base import Executor, HandlerCall
from warrener_agent.executors.command import CommandExecutor
from warrener_agent.executors.gathered import GatheringExecutor
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

__all__ = ["Trial", "WorkflowTrial", "replay", "run", "run_gathered", "run_workflow", "temporary_ledger"]

_EXECUTORS: Mapping[ExecutorName, Callable[[], Executor]] = {
    "coroutine": CoroutineExecutor,
    "thread": ThreadExecutor,
    "process": ProcessExecutor,
    "command": CommandExecutor,
}
_AGENT, _LEASE = "test", timedelta(days=1)


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
    if definition.gather is not None:
        raise ValueError(f"expected a job with a run of its own, got {job_type}; use run_gathered")
    found: dict[str, Any] = {"last_checkpoint": last_checkpoint, "history": history}
    if ledger is not None:
        return await _run(definition, dict(arguments or {}), ledger, claim, **found)
    async with temporary_ledger() as own:
        return await _run(definition, dict(arguments or {}), own, claim, **found)


async def run_gathered(
    agent: Agent, job_type: str, arguments: Sequence[Mapping[str, Any]], *, ledger: Ledger | None = None
) -> list[Trial]:
    """Run the handler of gathered jobs once, for one attempt with each of these arguments; return the trial
    of each, in order."""
    definition = agent.definitions[job_type]
    if definition.gather is None:
        raise ValueError(f"expected a job type with gather=..., got {job_type}; use run")
    if ledger is None:
        async with temporary_ledger() as own:
            return await run_gathered(agent, job_type, arguments, ledger=own)
    claims = [Claim(SystemEntropy().new_id(), 1) for _ in arguments]
    await ledger.claim(claims, agent_id=_AGENT, lease=_LEASE)
    inner = _EXECUTORS[definition.executor]()
    executor = GatheringExecutor({definition.executor: inner}, SystemClock())
    # All of them begin before the run does, at the end of this turn of the loop.
    definition = replace(definition, gather=Gather(max(len(claims), 1), timedelta()))
    try:
        return await asyncio.gather(
            *(
                _attempt(definition, dict(given), ledger, claim, executor)
                for given, claim in zip(arguments, claims, strict=True)
            )
        )
    finally:
        await inner.close()


async def _run(
    definition: JobDefinition,
    arguments: dict[str, Any],
    ledger: Ledger,
    claim: Claim,
    *,
    last_checkpoint: Any,
    history: History | None,
) -> Trial:
    (granted,) = await ledger.claim([claim], agent_id=_AGENT, lease=_LEASE)
    if granted.status is not ClaimStatus.GRANTED:
        raise ValueError(
            f"expected attempt {claim.attempt} to be granted, got {granted.status.value}; take a new job_id"
        )
    executor = _EXECUTORS[definition.executor]()
    try:
        found: dict[str, Any] = {"last_checkpoint": last_checkpoint, "history": history}
        return await _attempt(definition, arguments, ledger, claim, executor, **found)
    finally:
        await executor.close()


async def _attempt(
    definition: JobDefinition,
    arguments: dict[str, Any],
    ledger: Ledger,
    claim: Claim,
    executor: Executor,
    *,
    last_checkpoint: Any = None,
    history: History | None = None,
) -> Trial:
    started_at, (job_id, attempt) = SystemClock().now(), claim
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
    updates: list[tuple[float, str]] = []
    saved: list[Any] = []
    async with LocalHandlerPort(
        ledger,
        claim,
        _AGENT,
        NO_CONTEXT,
        lambda fraction, note: updates.append((fraction, note)),
        lambda text: saved.append(json.loads(text)),
        lambda: inf,
        is_gathered=definition.gather is not None,
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


def _request(body: bytes) -> JobRequested:
    (read,) = decode(body)
    assert isinstance(read, DecodedEvent)
    assert isinstance(read.event, JobRequested)
    return read.event
