"""Attempt what was granted: run the handler from its start to its end, and submit the report, once."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from warrener_agent.agent_context import AgentContext
from warrener_agent.context import AttemptFacts
from warrener_agent.decisions.errors import HandlerRaised, HandlerResult, HandlerReturned, describe_error
from warrener_agent.decisions.outcomes import (
    FailedOutcome,
    Outcome,
    StopCause,
    SucceededOutcome,
    UnresolvedOutcome,
    attempt_facts,
    stop_outcome,
    timeout_outcome,
    unknown_job_type_error,
)
from warrener_agent.definitions.job import ExecutorName, JobDefinition
from warrener_agent.executors.base import Execution, Executor
from warrener_agent.executors.coroutine import LeaseEnded
from warrener_agent.executors.flight_record import with_progress
from warrener_agent.handler_api import LocalHandlerPort
from warrener_agent.ledger.port import Completion, LedgerUnavailable
from warrener_agent.progress import CheckpointSaver, ProgressPublisher
from warrener_agent.report import AttemptReport, Reporter
from warrener_agent.run_table import STEP_MARGIN, Deadlines, HandlerHeartbeat, Run
from warrener_contracts.events import AttemptDispatchedData, ErrorInfo
from warrener_runtime.health import current_health_registry
from warrener_runtime.lifecycle import ManagedComponent
from warrener_runtime.logs import get_logger
from warrener_runtime.telemetry import Telemetry, names

_log = get_logger("agent.perform")

_RELEASE_SHARE = 0.2
"""Share of the drain grace that is reserved for releasing what does not end in time."""


@dataclass(slots=True, kw_only=True)
class AttemptServices:
    """The services that all attempts of one agent use. `spawn` starts a task for what must wait."""

    agent: AgentContext
    definitions: Mapping[str, JobDefinition]
    executors: Mapping[ExecutorName, Executor]
    reporter: Reporter
    progress: ProgressPublisher
    checkpoints: CheckpointSaver
    telemetry: Telemetry
    deadlines: Deadlines
    spawn: Callable[[Coroutine[Any, Any, None]], None]
    live: "set[Attempt]" = field(default_factory=set["Attempt"])


class AttemptRunner(ManagedComponent):
    """Runs attempts, each handler in a task of its own, so that a lost channel cancels nothing.

    Drain waits for running attempts, for most of the grace or until a second signal; the rest is stopped and
    released, uncharged.
    """

    def __init__(
        self,
        agent: AgentContext,
        definitions: Mapping[str, JobDefinition],
        executors: Mapping[ExecutorName, Executor],
        reporter: Reporter,
        progress: ProgressPublisher,
        *,
        checkpoints: CheckpointSaver,
        telemetry: Telemetry,
    ) -> None:
        super().__init__("performer")
        self._agent = agent
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_hurried = asyncio.Event()
        self._services = AttemptServices(
            agent=agent,
            definitions=definitions,
            executors=executors,
            reporter=reporter,
            progress=progress,
            checkpoints=checkpoints,
            telemetry=telemetry,
            deadlines=Deadlines(agent.running, agent.clock),
            spawn=self._spawn,
        )

    def knows(self, job_type: str) -> bool:
        """True if this agent has a handler for it."""
        return job_type in self._services.definitions

    def unknown_job_type_error(self, data: AttemptDispatchedData) -> ErrorInfo:
        """Describe why an attempt of a job type without a handler cannot run here."""
        return unknown_job_type_error(data, self._agent.agent_id, sorted(self._services.definitions))

    def begin(self, run: Run) -> None:
        """Start the attempt; it is in the table of runs from now on."""
        self._agent.running.add(run)
        Attempt(self._services, run).start()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work, name="attempt")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _on_start(self) -> None:
        if vitals := current_health_registry.get():
            vitals.on_hurry(self._is_hurried.set)

    async def _on_drain(self) -> None:
        waiting = asyncio.create_task(self._agent.running.empty())
        grace = asyncio.create_task(
            self._agent.clock.sleep(self._agent.settings.shutdown_timeout * (1 - _RELEASE_SHARE))
        )
        hurry = asyncio.create_task(self._is_hurried.wait())
        await asyncio.wait({waiting, grace, hurry}, return_when=asyncio.FIRST_COMPLETED)
        for run in self._agent.running:
            run.request_stop(StopCause.DRAINED, "the agent ends")
        grace.cancel()
        hurry.cancel()
        await waiting

    async def _on_stop(self) -> None:
        attempts, self._services.live = self._services.live, set()
        tasks = set(self._tasks)
        for task in tasks:
            task.cancel()
        leaving = [asyncio.create_task(attempt.leave()) for attempt in attempts]
        if tasks or leaving:
            await asyncio.wait([*tasks, *leaving])
        self._services.deadlines.close()
        for executor in self._services.executors.values():
            await executor.close()


class Attempt:
    """Runs a handler and submits its outcome, once, whatever happens.

    An attempt proceeds by callbacks: the handler has a task, and no other task waits for it. Only a step that
    must wait has a task: a transaction that commits, a handler that is stopped, an announcement. So nothing
    that a handler does to its own task reaches the agent's part.
    """

    __slots__ = ("_execution", "_facts", "_handler_port", "_over", "_run", "_scope", "_services", "_span")

    def __init__(self, services: AttemptServices, run: Run) -> None:
        self._services, self._run = services, run
        self._span = services.telemetry.span(
            names.attempt(run.data.job_type), kind="consumer", parent=run.context
        )
        self._scope = copy_context()  # in which the span is the current one
        self._facts: AttemptFacts | None = None
        self._handler_port: LocalHandlerPort | None = None
        self._execution: Execution | None = None
        self._over = False  # the outcome is decided, or the code that stops it will decide it

    def start(self) -> None:
        """Begin. The run must be in the table already."""
        self._services.live.add(self)
        self._scope.run(self._span.activate)
        self._run.context = self._span.context
        if self._span.recording:
            self._describe()
        # An attempt taken over may have ended its agent: announced first, the next agent that dies is known.
        if self._run.data.guarantee == "exclusive" or self._run.taken_over:
            self._services.spawn(self._announce_and_begin())
        else:
            self._begin()

    async def leave(self) -> None:
        """Stop the handler and report nothing: the agent ends at once."""
        self._over = True
        if self._handler_port is not None:
            self._handler_port.stopping = True
        if self._execution is not None:
            await self._execution.stop()
        if self._handler_port is not None:
            async with self._handler_port:
                pass

    async def _announce_and_begin(self) -> None:
        try:
            await self._services.progress.announce([self._run])
        except Exception as error:  # noqa: BLE001 - a bug of ours must not lose the attempt
            self._report_own_failure(error)
        else:
            self._begin()

    def _begin(self) -> None:
        run, services = self._run, self._services
        data = run.data
        definition = services.definitions.get(data.job_type)
        if definition is None:
            error_info = unknown_job_type_error(data, services.agent.agent_id, sorted(services.definitions))
            self._report(FailedOutcome(error_info))
            return
        try:
            facts = self._facts = attempt_facts(data, run.started_at, run.checkpoint, run.context)
            timeout_at = run.began_at + (facts.deadline - run.started_at).total_seconds()
            progress = services.progress.of(run)
            handler_port = self._handler_port = LocalHandlerPort(
                services.agent.ledger,
                run.claim,
                services.agent.agent_id,
                run.context,
                progress,
                partial(services.checkpoints.put, run),
                lambda: timeout_at - services.agent.clock.monotonic(),
            )
            margin = STEP_MARGIN * services.agent.settings.agent_claim_ttl
            handler_port.lease_check = partial(run.lease_ended, services.agent.clock.monotonic, margin)
            run.is_off_loop = definition.executor != "coroutine"
            executor = services.executors[definition.executor]
            execution = self._scope.run(executor.begin, definition, facts, handler_port)
        except Exception as error:  # noqa: BLE001 - a bug of ours must not lose the attempt
            self._report_own_failure(error)
            return
        self._execution = execution
        silent_at = timeout_at
        if (patience := definition.declaration.policy.heartbeat_timeout) is not None:
            run.heartbeat = handler_port.heartbeat = HandlerHeartbeat(
                patience.total_seconds(), timeout_at, services.agent.clock.monotonic
            )
            silent_at = run.heartbeat.due
        services.deadlines.watch(run, silent_at)
        run.halt = self._interrupt
        execution.done.add_done_callback(self._ended)
        if run.stop is not None:  # requested during the announcement
            self._interrupt()

    # -- the handler ended ---------------------------------------------------------------------------------

    def _ended(self, done: asyncio.Future[HandlerResult]) -> None:
        if self._over:
            return
        self._over = True
        assert self._handler_port is not None
        try:
            ended = _handler_result(done)
            if not self._handler_port.close_unused():
                self._services.spawn(self._conclude(self._handler_port, ended))
            elif isinstance(ended, HandlerRaised):
                self._report(self._raised(ended))
            else:
                self._report(SucceededOutcome(self._completion(ended, self._handler_port), recorded=False))
        except Exception as error:  # noqa: BLE001 - a bug of ours must not lose the attempt
            self._report_own_failure(error)

    def _raised(self, ended: HandlerRaised) -> Outcome:
        if self._handler_port is not None and self._handler_port.lease_ended():
            return UnresolvedOutcome("its lease ended before it did")
        return FailedOutcome(ended.error, ended.retry_after_seconds, handler_signal=ended.handler_signal)

    def _completion(self, ended: HandlerReturned, handler_port: LocalHandlerPort) -> Completion:
        run = self._run
        return Completion(
            run.data.job_id,
            run.data.attempt,
            ended.result_text,
            handler_port.child_jobs,
            run.started_at,
            self._services.agent.clock.now(),
        )

    async def _conclude(self, handler_port: LocalHandlerPort, ended: HandlerResult) -> None:
        """Commit or roll back the transaction that there may be, then report."""
        outcome: Outcome
        try:
            async with handler_port:
                if isinstance(ended, HandlerRaised):
                    outcome = self._raised(ended)
                else:
                    outcome = await self._commit(handler_port, self._completion(ended, handler_port))
        except Exception as error:  # noqa: BLE001 - a bug of ours must not lose the attempt
            self._report_own_failure(error)
        else:
            self._report(outcome)

    async def _commit(self, handler_port: LocalHandlerPort, completion: Completion) -> Outcome:
        try:
            recorded = await handler_port.complete(completion)
        except LedgerUnavailable as error:
            return UnresolvedOutcome(f"the commit may have failed: {error}")
        if recorded is False:
            return UnresolvedOutcome("the ledger refused the transaction")
        return SucceededOutcome(completion, recorded=bool(recorded))

    # -- the handler is stopped from outside ---------------------------------------------------------------

    def _interrupt(self) -> None:
        assert self._execution is not None
        if not self._over and not self._execution.done.done():
            self._over = True
            if self._handler_port is not None:
                self._handler_port.stopping = True
            self._services.spawn(self._stop())

    async def _stop(self) -> None:
        assert self._execution is not None
        assert self._handler_port is not None
        try:
            async with self._handler_port:
                if not await self._execution.stop():
                    self._abandon(self._execution)
        except Exception as error:  # noqa: BLE001 - a bug of ours must not lose the attempt
            self._report_own_failure(error)
        else:
            self._report(self._stopped(self._execution, self._handler_port))

    def _stopped(self, execution: Execution, handler_port: LocalHandlerPort) -> Outcome:
        run, record = self._run, with_progress(execution.flight_record, handler_port.progress_value)
        if run.stop is not None:
            return stop_outcome(run.stop, run.stop_reason, record)
        assert self._facts is not None
        heartbeat = run.heartbeat
        silent_for = heartbeat.timeout if heartbeat is not None and heartbeat.is_expired else None
        return timeout_outcome(run.data, self._facts, silent_for, record)

    def _abandon(self, execution: Execution) -> None:
        data = self._run.data
        self._services.agent.running.abandon(self._run, asyncio.create_task(execution.wait_finished()))
        _log.error(
            "A handler could not be stopped and was abandoned; it keeps its slot until it ends by itself. "
            'Give the job executor="process", or the calls in it timeouts.',
            action="agent.abandoned",
            job_id=str(data.job_id),
            job_type=data.job_type,
            attempt=data.attempt,
        )

    # -- the report ----------------------------------------------------------------------------------------

    def _report_own_failure(self, error: Exception) -> None:
        _log.error(
            "The agent itself failed at an attempt.",
            action="agent.failed",
            job_id=str(self._run.data.job_id),
            exc_info=error,
        )
        self._over = True
        self._report(FailedOutcome(describe_error(error).error))

    def _report(self, outcome: Outcome) -> None:
        if not isinstance(outcome, SucceededOutcome) and self._services.checkpoints.has_unsaved(self._run):
            self._services.spawn(self._report_checkpointed(outcome))
        else:
            self._submit(outcome)

    async def _report_checkpointed(self, outcome: Outcome) -> None:
        """Save the last checkpoint before the end is reported: another attempt may follow."""
        try:
            await self._services.checkpoints.flush(self._run)
        except Exception:  # noqa: BLE001 - a checkpoint that cannot be saved must not keep the attempt from its end
            _log.exception("A checkpoint could not be saved.", action="agent.checkpoint_failed")
        self._submit(outcome)

    def _submit(self, outcome: Outcome) -> None:
        run = self._run
        run.handler_ended, run.succeeded = True, isinstance(outcome, SucceededOutcome)
        run.halt = None  # no reference cycle: a finished attempt is freed at once, not by the collector
        self._services.live.discard(self)
        if self._span.recording:
            self._end_span(outcome)
        self._services.reporter.submit(
            AttemptReport(run.data, run.context, outcome, run.started_at, run.delivery_refs, run)
        )

    def _describe(self) -> None:
        span, data = self._span, self._run.data
        span.set(names.JOB_ID, str(data.job_id))
        span.set(names.JOB_TYPE, data.job_type)
        span.set(names.ATTEMPT, data.attempt)
        span.set(names.QUEUE, data.queue)
        span.set(names.AGENT_ID, self._services.agent.agent_id)

    def _end_span(self, outcome: Outcome) -> None:
        handler_signal = outcome.handler_signal if isinstance(outcome, FailedOutcome) else None
        self._span.set(
            names.OUTCOME, handler_signal or type(outcome).__name__.removesuffix("Outcome").lower()
        )
        if isinstance(outcome, FailedOutcome) and handler_signal is None:
            self._span.fail(f"{outcome.error.type}: {outcome.error.message}")
        self._span.finish()


def _handler_result(done: asyncio.Future[HandlerResult]) -> HandlerResult:
    try:
        return done.result()
    except (asyncio.CancelledError, LeaseEnded) as error:
        # Not cancelled by the agent: the handler cancelled its own task. Or the lease ended before the first
        # step, when nothing of the handler was there yet to turn the error into its result.
        return describe_error(error)
