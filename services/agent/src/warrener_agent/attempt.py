"""Attempt what was granted: run the handler from its start to its end, and submit the report, once."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextvars import Context, copy_context
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any

from pydantic_core import to_json

from warrener_agent.agent_context import AgentContext
from warrener_agent.context import AttemptFacts
from warrener_agent.decisions import outcomes
from warrener_agent.decisions.errors import (
    HandlerEnd,
    HandlerRaised,
    HandlerReturned,
    HandlerSuspended,
    describe_error,
)
from warrener_agent.definitions.job import ExecutorName, JobDefinition
from warrener_agent.executors.base import Execution, Executor, HandlerCall
from warrener_agent.executors.flight_record import with_progress
from warrener_agent.executors.gathered import GatheredMember, GatheringExecutor
from warrener_agent.executors.in_agent import LeaseEnded
from warrener_agent.handler_api import LocalHandlerPort
from warrener_agent.ledger import port
from warrener_agent.ledger.port import Completion, LedgerUnavailable
from warrener_agent.log_buffer import LogBuffer
from warrener_agent.log_publisher import LogPublisher
from warrener_agent.metrics import AttemptLines
from warrener_agent.private_payloads import AttemptPayloads, decrypt_attempt
from warrener_agent.progress import CheckpointSaver, Progress, ProgressPublisher
from warrener_agent.report import AttemptReport, Reporter, TracedEnd
from warrener_agent.run_table import STEP_MARGIN, Deadlines, HandlerHeartbeat, Run
from warrener_agent.secret_values import hide_texts, marked_texts
from warrener_agent.start_gate import StartGate
from warrener_agent.workflows.turn import PendingStep
from warrener_contracts.events import AttemptDispatchedData, ErrorInfo
from warrener_contracts.identity import attempt_span_id, child_job_id
from warrener_contracts.private_payloads import PayloadUnreadable
from warrener_contracts.topology import MAX_BODY
from warrener_runtime.clock import wait_at_most
from warrener_runtime.lifecycle import ManagedComponent
from warrener_runtime.logs import get_logger
from warrener_runtime.telemetry import Span, SpanFailure, SpanShape, Telemetry, names, to_nanoseconds
from warrener_runtime.telemetry.baggage import attach_baggage

_log = get_logger("agent.perform")

_STEP_PAUSE = 0.5  # seconds until a step is claimed again
_RELEASE_SHARE = 0.2  # share of the drain grace that is reserved for releasing what does not end in time


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
        logs: LogPublisher,
        telemetry: Telemetry,
        start_gate: StartGate,
    ) -> None:
        super().__init__("performer")
        self.agent, self.definitions, self.executors = agent, definitions, executors
        self.gathering = GatheringExecutor(executors, agent.clock)
        self.reporter, self.progress, self.checkpoints = reporter, progress, checkpoints
        self.logs, self.telemetry, self.start_gate = logs, telemetry, start_gate
        self.lines = AttemptLines(agent.clock.monotonic)
        self.deadlines = Deadlines(agent.running, agent.clock)
        self.live: set[Attempt] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_hurried = asyncio.Event()
        self.encrypted_types = frozenset(
            name for name, one in definitions.items() if one.declaration.policy.encrypted
        )

    @property
    def takes_attempts(self) -> bool:
        """True until it drains."""
        return self._draining is None

    def unknown_job_type_error(self, data: AttemptDispatchedData) -> ErrorInfo:
        """Describe why an attempt of a job type without a handler cannot run here."""
        return outcomes.unknown_job_type_error(data, self.agent.agent_id, sorted(self.definitions))

    def begin(self, run: Run) -> None:
        """Start the attempt; it is in the table of runs from now on."""
        definition = self.definitions.get(run.data.job_type)
        self.agent.running.add(run, takes_slot=definition is None or definition.gather is None)
        Attempt(self, run, _attempt_span(self, run)).start()

    async def count_attempts(self) -> None:
        """Log how many attempts had no log lines of their own."""
        self.lines.write_summary()

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run `work` in a task, which ends with the runner."""
        task = asyncio.create_task(work, name="attempt")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _on_start(self) -> None:
        if self._health_registry:
            self._health_registry.on_hurry(self._is_hurried.set)

    async def _on_drain(self) -> None:
        self.gathering.give_back("the agent ends")
        seconds = self.agent.settings.shutdown_timeout * (1 - _RELEASE_SHARE)
        waiting = asyncio.create_task(self.agent.running.empty())
        grace = asyncio.create_task(wait_at_most(seconds, self._is_hurried, self.agent.clock))
        await asyncio.wait({waiting, grace}, return_when=asyncio.FIRST_COMPLETED)
        for run in self.agent.running:
            run.request_stop(outcomes.StopCause.DRAINED, "the agent ends")
        grace.cancel()
        await waiting
        self.lines.write_summary()

    async def _on_stop(self) -> None:
        attempts, self.live = self.live, set()
        tasks = set(self._tasks)
        for task in tasks:
            task.cancel()
        leaving = [asyncio.create_task(attempt.leave()) for attempt in attempts]
        if tasks or leaving:
            await asyncio.wait([*tasks, *leaving])
        self.deadlines.close()
        for executor in self.executors.values():
            await executor.close()


@dataclass(eq=False, slots=True)
class Attempt:
    """Runs a handler and submits its outcome, once, whatever happens.

    An attempt proceeds by callbacks: the handler has a task, and no other task waits for it. Only a step that
    must wait has a task: a transaction that commits, a handler that is stopped, an announcement. So nothing
    that a handler does to its own task reaches the agent's part.
    """

    _runner: AttemptRunner
    _run: Run
    _span: Span
    _scope: Context = field(default_factory=copy_context)  # in which the span is the current one
    _facts: AttemptFacts | None = None
    _handler_port: LocalHandlerPort | None = None
    _progress: Progress | None = None
    _execution: Execution | None = None
    _log: LogBuffer | None = None
    _payloads: AttemptPayloads | None = None  # if the agent has keys
    _secrets: tuple[str, ...] = ()  # in its arguments
    _has_line: bool = False  # True if a line about its start was written
    _over: bool = False  # the outcome is decided, or the code that stops it will decide it

    def start(self) -> None:
        """Begin. The run must be in the table already."""
        self._runner.live.add(self)
        self._scope.run(self._span.activate)
        if self._run.baggage is not None:
            self._scope.run(attach_baggage, self._run.baggage)
        self._run.context = self._span.context
        self._has_line = self._runner.lines.take(self._run.began_at)
        if self._has_line:
            self._scope.run(self._runner.lines.write_start, self._run.data)
        # An attempt that was delivered before may have ended an agent that has another ledger: announced
        # first, the next agent that dies is known.
        first = self._run.announced = self._run.data.guarantee == "exclusive" or self._run.may_have_begun
        if first or self._run.is_unchecked:
            self._runner.spawn(self._begin_later(announce=first))
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

    async def _begin_later(self, *, announce: bool) -> None:
        run, runner = self._run, self._runner
        try:
            if announce:
                await runner.progress.announce([run])
            if run.is_unchecked:
                await runner.start_gate.wait(run, runner.spawn)
                run.started_at, run.began_at = runner.agent.clock.now(), runner.agent.clock.monotonic()
        except Exception as error:  # noqa: BLE001 - a bug of ours must not lose the attempt
            self._report_own_failure(error)
        else:
            self._begin()

    def _begin(self) -> None:
        run, runner = self._run, self._runner
        data = run.data
        if run.stop is not None:  # before it began
            self._report(outcomes.stop_outcome(run.stop, run.stop_reason, None))
            return
        definition = runner.definitions.get(data.job_type)
        if definition is None:
            self._report(outcomes.FailedOutcome(runner.unknown_job_type_error(data)))
            return
        try:
            opened, checkpoint = decrypt_attempt(runner.agent.codec, definition, data, run.checkpoint)
            if definition.signature.secret_names:
                self._secrets = marked_texts(definition.signature.secret_names, opened.arguments)
            facts = self._facts = outcomes.attempt_facts(
                opened, run.started_at, checkpoint, run.context, run.baggage
            )
            if (codec := runner.agent.codec) is not None:
                types = runner.encrypted_types
                payloads = self._payloads = AttemptPayloads(codec, data, definition, types)
                facts = self._facts = facts._replace(digest_key=payloads.digest_key)
            if facts.deadline <= run.started_at:  # it waited in its queue while its job expired
                self._report(outcomes.timeout_outcome(data, facts, None, None))
                return
            timeout_at = run.began_at + (facts.deadline - run.started_at).total_seconds()
            gather = definition.gather
            margin = STEP_MARGIN * runner.agent.settings.agent_claim_ttl
            self._progress = Progress(runner.progress, run, self._secrets)
            handler_port = self._handler_port = LocalHandlerPort(
                runner.agent.ledger,
                run.claim,
                runner.agent.holder_id,
                run.context,
                self._progress,
                partial(_save_checkpoint, runner.checkpoints, run, self._payloads),
                lambda: timeout_at - runner.agent.clock.monotonic(),
                run.baggage,
                partial(run.lease_ended, runner.agent.clock.monotonic, margin),
                payloads=self._payloads,
                is_gathered=gather is not None,
            )
            run.is_off_loop = definition.executor != "coroutine"
            self._log = runner.logs.open(run, self._secrets)
            set_off_loop = partial(setattr, run, "is_off_loop")
            handler_call = HandlerCall(
                definition, facts, handler_port, self._log, set_off_loop, run, self._restart_timeout
            )
            if definition.executor == "workflow":
                steps = StepRecords(runner.agent, run.claim, handler_port.time_left, self._payloads)
                handler_call = handler_call._replace(run_recorded=steps.run)
            executor = runner.executors[definition.executor] if gather is None else runner.gathering
            execution = self._scope.run(executor.begin, handler_call)
        except PayloadUnreadable as error:
            self._report(outcomes.unreadable_outcome(str(error)))
            return
        except Exception as error:  # noqa: BLE001 - a bug of ours must not lose the attempt
            self._report_own_failure(error)
            return
        self._execution = execution
        if isinstance(execution, GatheredMember):
            runner.agent.running.take_slot(run, execution.slot or run.delivery_refs[0])
        silent_at = timeout_at
        if (patience := definition.declaration.policy.heartbeat_timeout) is not None:
            run.heartbeat = handler_port.heartbeat = HandlerHeartbeat(
                patience.total_seconds(), timeout_at, runner.agent.clock.monotonic
            )
            silent_at = run.heartbeat.due
        run.halt = self._interrupt
        if gather is None:
            runner.deadlines.watch(run, silent_at)
        execution.done.add_done_callback(self._ended)

    def _restart_timeout(self) -> AttemptFacts:
        """Count the timeout from now, when the handler begins for all that were gathered."""
        run, agent = self._run, self._runner.agent
        assert self._facts is not None
        now = agent.clock.now()
        deadline = outcomes.attempt_facts(self._facts.dispatch, now, None).deadline
        self._runner.deadlines.watch(run, agent.clock.monotonic() + (deadline - now).total_seconds())
        self._facts = self._facts._replace(deadline=deadline)
        return self._facts

    # -- the handler ended ---------------------------------------------------------------------------------

    def _ended(self, done: asyncio.Future[HandlerEnd]) -> None:
        if self._over:
            return
        self._over = True
        assert self._handler_port is not None
        try:
            try:
                ended = done.result()
            except (asyncio.CancelledError, LeaseEnded) as error:
                # Not cancelled by the agent: the handler cancelled its own task. Or the lease ended before
                # the first step, when nothing of the handler could turn the error into its result yet.
                ended = describe_error(error)
            if not self._handler_port.close_unused():
                self._runner.spawn(self._conclude(self._handler_port, ended))
            else:
                self._report(self._outcome(ended, self._handler_port))
        except Exception as error:  # noqa: BLE001 - a bug of ours must not lose the attempt
            self._report_own_failure(error)

    def _outcome(self, ended: HandlerEnd, handler_port: LocalHandlerPort) -> outcomes.Outcome:
        match ended:
            case HandlerReturned():
                completion = self._completion(ended, handler_port)
                if len(completion.result_text) > MAX_BODY:  # encrypted, it is longer
                    return outcomes.long_result_outcome(len(completion.result_text))
                return outcomes.SucceededOutcome(completion, recorded=False)
            case HandlerRaised():
                return self._raised(ended)
            case HandlerSuspended(suspension, cancels, signals):
                commands = (*handler_port.cancels(cancels), *handler_port.signals(signals))
                messages = (*handler_port.child_jobs, *commands)
                return outcomes.SuspendedOutcome(suspension, messages)

    def _raised(self, ended: HandlerRaised) -> outcomes.Outcome:
        if self._handler_port is not None and self._handler_port.lease_ended():
            return outcomes.UnresolvedOutcome("its lease ended before it did", has_stopped=True)
        error = ended.error
        if error.flight_record is not None and self._handler_port is not None:
            record = with_progress(error.flight_record, self._handler_port.progress_value)
            error = error.model_copy(update={"flight_record": record})
        return outcomes.FailedOutcome(error, ended.retry_after_seconds, handler_signal=ended.handler_signal)

    def _completion(self, ended: HandlerReturned, handler_port: LocalHandlerPort) -> Completion:
        run = self._run
        return Completion(
            run.data.job_id,
            run.data.attempt,
            ended.result_text if self._payloads is None else self._payloads.result(ended.result_text),
            handler_port.child_jobs
            + handler_port.cancels(ended.cancels)
            + handler_port.signals(ended.signals)
            if ended.cancels or ended.signals
            else handler_port.child_jobs,
            run.started_at,
            self._runner.agent.clock.now(),
        )

    async def _conclude(self, handler_port: LocalHandlerPort, ended: HandlerEnd) -> None:
        """Commit or roll back the transaction that there may be, then report."""
        try:
            async with handler_port:
                outcome = self._outcome(ended, handler_port)
                if isinstance(outcome, outcomes.SucceededOutcome):
                    outcome = await self._commit(handler_port, outcome.completion)
        except Exception as error:  # noqa: BLE001 - a bug of ours must not lose the attempt
            self._report_own_failure(error)
        else:
            self._report(outcome)

    async def _commit(self, handler_port: LocalHandlerPort, completion: Completion) -> outcomes.Outcome:
        try:
            recorded = await handler_port.complete(completion)
        except LedgerUnavailable as error:
            return outcomes.UnresolvedOutcome(f"the commit may have failed: {error}")
        if recorded is False:
            return outcomes.UnresolvedOutcome("the ledger refused the transaction")
        return outcomes.SucceededOutcome(completion, recorded=bool(recorded))

    # -- the handler is stopped from outside ---------------------------------------------------------------

    def _interrupt(self) -> None:
        assert self._execution is not None
        if not self._over and not self._execution.done.done():
            self._over = True
            if self._handler_port is not None:
                self._handler_port.stopping = True
            self._runner.spawn(self._stop())

    async def _stop(self) -> None:
        assert self._execution is not None
        assert self._handler_port is not None
        try:
            async with self._handler_port:
                if not (has_stopped := await self._execution.stop()):
                    self._abandon(self._execution)
        except Exception as error:  # noqa: BLE001 - a bug of ours must not lose the attempt
            self._report_own_failure(error)
        else:
            outcome = self._stopped(self._execution, self._handler_port)
            if isinstance(outcome, outcomes.UnresolvedOutcome):
                outcome = replace(outcome, has_stopped=has_stopped)
            self._report(outcome)

    def _stopped(self, execution: Execution, handler_port: LocalHandlerPort) -> outcomes.Outcome:
        run, record = self._run, with_progress(execution.flight_record, handler_port.progress_value)
        done = execution.done
        ended = None if not done.done() or done.cancelled() or done.exception() else done.result()
        if isinstance(ended, HandlerSuspended) and run.stop in {None, outcomes.StopCause.DRAINED}:
            return self._outcome(ended, handler_port)  # some of its steps had ended
        if run.stop is not None:
            return outcomes.stop_outcome(run.stop, run.stop_reason, record)
        assert self._facts is not None
        heartbeat = run.heartbeat
        silent_for = heartbeat.timeout if heartbeat is not None and heartbeat.is_expired else None
        return outcomes.timeout_outcome(run.data, self._facts, silent_for, record)

    def _abandon(self, execution: Execution) -> None:
        data = self._run.data
        self._runner.agent.running.abandon(self._run, execution.done)
        if self._runner.definitions[data.job_type].executor == "workflow":
            remedy = "Move the blocking call into flow.step, with a timeout of its own."
        else:
            remedy = 'Give the job executor="process", or the calls in it timeouts.'
        _log.error(
            "A handler could not be stopped and was abandoned; it keeps its slot until it ends by itself. "
            f"{remedy}",
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
        self._report(outcomes.FailedOutcome(describe_error(error).error))

    def _report(self, outcome: outcomes.Outcome) -> None:
        if self._secrets:
            outcome = outcomes.with_texts(outcome, lambda text: hide_texts(text, self._secrets))
        if self._payloads is not None:
            outcome = self._payloads.outcome(outcome, self._run.data.job_type)
        job_type, is_success = self._run.data.job_type, isinstance(outcome, outcomes.SucceededOutcome)
        if self._runner.checkpoints.has_unsaved(self._run) and (
            not is_success or self._runner.definitions[job_type].executor == "workflow"
        ):
            self._runner.spawn(self._report_checkpointed(outcome))
        else:
            self._submit(outcome)

    async def _report_checkpointed(self, outcome: outcomes.Outcome) -> None:
        """Save the last checkpoint before the end is reported: another attempt may follow, and others read
        the state of a workflow."""
        try:
            await self._runner.checkpoints.flush(self._run)
        except Exception:  # noqa: BLE001 - a checkpoint that cannot be saved must not keep the attempt from its end
            _log.exception("A checkpoint could not be saved.", action="agent.checkpoint_failed")
        self._submit(outcome)

    def _submit(self, outcome: outcomes.Outcome) -> None:
        run = self._run
        agent = self._runner.agent
        run.handler_ended, run.handler_ended_at = True, agent.clock.monotonic()
        run.succeeded = isinstance(outcome, outcomes.SucceededOutcome)
        went_well = run.succeeded or isinstance(outcome, outcomes.SuspendedOutcome)
        run.halt = self._execution = None  # no reference cycle: freed at once, not by the collector
        self._runner.live.discard(self)
        agent.metrics.record_end(run, outcome, run.handler_ended_at)
        if self._log is not None:
            self._runner.logs.finish(self._log, urgent=not went_well)
        lines = self._runner.lines
        if self._has_line or (not went_well and lines.take_failure()):
            self._scope.run(lines.write_end, run.data, run.began_at, outcome)
        else:
            lines.ended += 1
        self._runner.reporter.submit(
            AttemptReport(
                run.data,
                run.context,
                outcome,
                run.started_at,
                run.delivery_refs,
                run,
                traced=self._end_span(outcome) if self._span.recording else None,
                last_progress=None if self._progress is None else self._progress.take(),
            )
        )

    def _end_span(self, outcome: outcomes.Outcome) -> TracedEnd:
        """End the span, unless the ledger must say whether the attempt is still this agent's: if another has
        it, the supervisor has recorded the span of a lost attempt."""
        now = self._runner.agent.clock.now()
        self._span.set(names.OUTCOME, outcomes.outcome_word(outcome))
        if isinstance(outcome, outcomes.FailedOutcome) and outcome.handler_signal is None:
            error = outcome.error
            self._span.fail(SpanFailure(error.type, error.message, raised=True, stacktrace=error.stack or ""))
        self._span.end_at(to_nanoseconds(now))
        if not isinstance(outcome, outcomes.UnresolvedOutcome):
            self._span.finish()
        return TracedEnd(self._span, now)


def _save_checkpoint(
    saver: CheckpointSaver, run: Run, payloads: AttemptPayloads | None, state_text: str
) -> None:
    saver.put(run, state_text if payloads is None else payloads.checkpoint(state_text))


def _attempt_span(runner: AttemptRunner, run: Run) -> Span:
    """Begin the span of an attempt, under an identifier that the supervisor can derive."""
    data, agent_id = run.data, runner.agent.agent_id
    shape = _attempt_shape(data.job_type, data.attempt, data.queue, agent_id)
    if not runner.telemetry.records(run.context):
        return runner.telemetry.span(shape, parent=run.context)
    job_id = str(data.job_id)
    return runner.telemetry.span(
        shape,
        parent=run.context,
        attributes={names.MESSAGING_CONVERSATION_ID: job_id, names.JOB_ID: job_id},
        start_ns=to_nanoseconds(run.started_at),
        span_id=attempt_span_id(data.job_id, data.attempt, agent_id),
    )


@lru_cache(maxsize=1024)
def _attempt_shape(job_type: str, attempt: int, queue: str, agent_id: str) -> SpanShape:
    return names.ATTEMPT_SPAN.shape(
        job_type,
        {
            names.MESSAGING_DESTINATION_NAME: f"warrener.queue.{queue}",
            names.ATTEMPT: attempt,
            names.QUEUE: queue,
            names.AGENT_ID: agent_id,
        },
    )


@dataclass(frozen=True, slots=True)
class StepRecords:
    """Steps of a workflow's turn that write in the ledger's database. Each is a row of its own there, claimed
    with the attempt of the turn, so that its record and its writes commit together, once."""

    _agent: AgentContext
    _claim: port.Claim
    _time_left: Callable[[], float]
    _payloads: AttemptPayloads | None = None

    async def run(self, step: PendingStep) -> Any:
        """Run a step, unless its result is recorded already, and return that. Raises what the step raises.

        The step is claimed again while the ledger is away, or an earlier turn may still hold it.
        """
        call_id, agent = step.call.call_id, self._agent
        claim = port.Claim(child_job_id(self._claim.job_id, call_id), self._claim.attempt)
        while True:
            try:
                (found,) = await agent.ledger.claim([claim], agent_id=agent.holder_id, lease=agent.lease)
                if found.completion is not None:
                    return self._read(call_id, found.completion)
                if found.status is port.ClaimStatus.SUPERSEDED:
                    raise port.LedgerError(f"expected to run step {step.call.name}, a later turn does")
                if found.status is port.ClaimStatus.GRANTED and (done := await self._complete(step, claim)):
                    return self._read(call_id, done)
            except port.LedgerUnavailable as error:
                _log.warning(
                    "A step waits for the ledger.",
                    action="agent.step_waits",
                    step=step.call.name,
                    error=str(error),
                )
            await agent.clock.sleep(_STEP_PAUSE)

    async def _complete(self, step: PendingStep, claim: port.Claim) -> port.Completion | None:
        """Run a step in its transaction; None if the claim was lost, so that nothing is recorded."""
        agent, began = self._agent, self._agent.clock.now()
        opening = agent.ledger.transaction(claim, agent_id=agent.holder_id, time_left=self._time_left())
        async with opening as transaction:
            work = step.function
            result = step.write(await work.func(transaction, *work.args, **work.keywords))
            text = to_json(result).decode()
            if self._payloads is not None:
                text = self._payloads.step_record(text, step.call.call_id)
            done = port.Completion(*claim, text, (), began, agent.clock.now())
            return done if await transaction.complete(done) else None

    def _read(self, call_id: str, record: port.Completion) -> Any:
        return record.result if self._payloads is None else self._payloads.read_step(record.result, call_id)
