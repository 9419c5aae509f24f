"""One granted attempt, from its start to its report."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from warrener_agent.checkpoints import CheckpointLine
from warrener_agent.context import AttemptFacts
from warrener_agent.deadlines import Deadlines
from warrener_agent.desk import LoopDesk
from warrener_agent.ending import end_of, facts_of, stopped, time_over, unknown
from warrener_agent.executors.failure import failure
from warrener_agent.executors.flight import with_progress
from warrener_agent.executors.port import Ended, Execution, Executor, Raised, Returned
from warrener_agent.kinds import ExecutorName, JobKind
from warrener_agent.ledger.port import Completion, LedgerUnavailable
from warrener_agent.outcomes import Doubtful, Failed, Outcome, Succeeded
from warrener_agent.progress import ProgressLine
from warrener_agent.pulse import Pulse
from warrener_agent.record import Report
from warrener_agent.report import Reporter
from warrener_agent.running import STEP_MARGIN, Run
from warrener_agent.workplace import Workplace
from warrener_runtime.logs import get_logger
from warrener_runtime.telemetry import Telemetry, names

_log = get_logger("agent.perform")


@dataclass(slots=True, kw_only=True)
class Bench:
    """What all attempts of one agent work with. `spawn` begins what waits."""

    at: Workplace
    kinds: Mapping[str, JobKind]
    executors: Mapping[ExecutorName, Executor]
    reporter: Reporter
    progress: ProgressLine
    checkpoints: CheckpointLine
    telemetry: Telemetry
    deadlines: Deadlines
    spawn: Callable[[Coroutine[Any, Any, None]], None]
    live: "set[Attempt]" = field(default_factory=set["Attempt"])


class Attempt:
    """Runs a handler and hands in what became of it, once, whatever happens.

    It goes on by callbacks: the handler has a task, and nobody waits for it in another one. Only what must
    wait has a task of its own: a transaction that commits, a handler that is stopped, an announcement. So
    nothing that a handler does to its own task reaches the agent's part.
    """

    __slots__ = ("_bench", "_desk", "_execution", "_facts", "_over", "_run", "_scope", "_span")

    def __init__(self, bench: Bench, run: Run) -> None:
        self._bench, self._run = bench, run
        self._span = bench.telemetry.span(
            names.attempt(run.data.job_type), kind="consumer", parent=run.context
        )
        self._scope = copy_context()  # in which the span is the current one
        self._facts: AttemptFacts | None = None
        self._desk: LoopDesk | None = None
        self._execution: Execution | None = None
        self._over = False  # what became of it is decided, or will be by whoever stops it

    def start(self) -> None:
        """Begin. It is in the table of what runs already."""
        self._bench.live.add(self)
        self._scope.run(self._span.activate)
        self._run.context = self._span.context
        if self._span.recording:
            self._describe()
        # What was begun before may have ended its agent: whoever dies of it next has been named then.
        if self._run.data.guarantee == "exclusive" or self._run.taken_over:
            self._bench.spawn(self._announce_and_begin())
        else:
            self._begin()

    async def leave(self) -> None:
        """The agent ends at once: stop the handler, and say nothing of it."""
        self._over = True
        if self._desk is not None:
            self._desk.stopping = True
        if self._execution is not None:
            await self._execution.stop()
        if self._desk is not None:
            async with self._desk:
                pass

    async def _announce_and_begin(self) -> None:
        try:
            await self._bench.progress.announce([self._run])
        except Exception as error:  # noqa: BLE001 - a bug of ours must not lose the attempt
            self._blame(error)
        else:
            self._begin()

    def _begin(self) -> None:
        run, bench = self._run, self._bench
        data = run.data
        kind = bench.kinds.get(data.job_type)
        if kind is None:
            self._report(Failed(unknown(data, bench.at.agent_id, sorted(bench.kinds))))
            return
        try:
            facts = self._facts = facts_of(run)
            over_at = run.began + (facts.deadline - run.started_at).total_seconds()
            progress = bench.progress.of(run)
            desk = self._desk = LoopDesk(
                bench.at.ledger,
                run.claim,
                bench.at.agent_id,
                run.context,
                progress,
                partial(bench.checkpoints.put, run),
                lambda: over_at - bench.at.clock.monotonic(),
            )
            margin = STEP_MARGIN * bench.at.settings.agent_lease
            desk.gate = partial(run.lease_ended, bench.at.clock.monotonic, margin)
            run.apart = kind.executor != "coroutine"
            executor = bench.executors[kind.executor]
            execution = self._scope.run(executor.begin, kind, facts, data.arguments, desk)
        except Exception as error:  # noqa: BLE001 - a bug of ours must not lose the attempt
            self._blame(error)
            return
        self._execution = execution
        silent_at = over_at
        if (patience := kind.declaration.policy.heartbeat_timeout) is not None:
            run.pulse = desk.pulse = Pulse(patience.total_seconds(), over_at, bench.at.clock.monotonic)
            silent_at = run.pulse.due
        bench.deadlines.watch(run, silent_at)
        run.halt = self._halt
        execution.done.add_done_callback(self._ended)
        if run.stop is not None:  # while it was announced
            self._halt()

    # -- its end -------------------------------------------------------------------------------------------

    def _ended(self, done: asyncio.Future[Ended]) -> None:
        if self._over:
            return
        self._over = True
        assert self._desk is not None
        try:
            ended = end_of(done)
            if not self._desk.close_unused():
                self._bench.spawn(self._conclude(self._desk, ended))
            elif isinstance(ended, Raised):
                self._report(self._raised(ended))
            else:
                self._report(Succeeded(self._completion(ended, self._desk), recorded=False))
        except Exception as error:  # noqa: BLE001 - a bug of ours must not lose the attempt
            self._blame(error)

    def _raised(self, ended: Raised) -> Outcome:
        if self._desk is not None and self._desk.lease_ended():
            return Doubtful("its lease ended before it did")
        return Failed(ended.error, ended.retry_after_seconds, instead=ended.instead)

    def _completion(self, ended: Returned, desk: LoopDesk) -> Completion:
        run = self._run
        return Completion(
            run.data.job_id,
            run.data.attempt,
            ended.result_text,
            desk.follow_ups,
            run.started_at,
            self._bench.at.clock.now(),
        )

    async def _conclude(self, desk: LoopDesk, ended: Ended) -> None:
        """Where there may be a transaction: it is committed or rolled back first."""
        outcome: Outcome
        try:
            async with desk:
                if isinstance(ended, Raised):
                    outcome = self._raised(ended)
                else:
                    outcome = await self._commit(desk, self._completion(ended, desk))
        except Exception as error:  # noqa: BLE001 - a bug of ours must not lose the attempt
            self._blame(error)
        else:
            self._report(outcome)

    async def _commit(self, desk: LoopDesk, completion: Completion) -> Outcome:
        try:
            recorded = await desk.complete(completion)
        except LedgerUnavailable as error:
            return Doubtful(f"the commit may have failed: {error}")
        if recorded is False:
            return Doubtful("the ledger refused the transaction")
        return Succeeded(completion, recorded=bool(recorded))

    # -- stopped from outside ------------------------------------------------------------------------------

    def _halt(self) -> None:
        assert self._execution is not None
        if not self._over and not self._execution.done.done():
            self._over = True
            if self._desk is not None:
                self._desk.stopping = True
            self._bench.spawn(self._stop())

    async def _stop(self) -> None:
        assert self._execution is not None
        assert self._desk is not None
        assert self._facts is not None
        try:
            async with self._desk:
                if not await self._execution.stop():
                    self._abandon(self._execution)
        except Exception as error:  # noqa: BLE001 - a bug of ours must not lose the attempt
            self._blame(error)
        else:
            run, record = self._run, with_progress(self._execution.flight_record, self._desk.how_far)
            over = time_over(run, self._facts, record) if run.stop is None else stopped(run, record)
            self._report(over)

    def _abandon(self, execution: Execution) -> None:
        data = self._run.data
        self._bench.at.running.abandon(self._run, asyncio.create_task(execution.gone()))
        _log.error(
            "A handler cannot be stopped and is abandoned; it keeps its slot until it ends by itself. "
            'Give the job executor="process", or the calls in it timeouts.',
            action="agent.abandoned",
            job_id=str(data.job_id),
            job_type=data.job_type,
            attempt=data.attempt,
        )

    # -- what is said of it --------------------------------------------------------------------------------

    def _blame(self, error: Exception) -> None:
        _log.error(
            "The agent itself failed at an attempt.",
            action="agent.failed",
            job_id=str(self._run.data.job_id),
            exc_info=error,
        )
        self._over = True
        self._report(Failed(failure(error).error))

    def _report(self, outcome: Outcome) -> None:
        if not isinstance(outcome, Succeeded) and self._bench.checkpoints.waits(self._run):
            self._bench.spawn(self._report_checkpointed(outcome))
        else:
            self._hand_in(outcome)

    async def _report_checkpointed(self, outcome: Outcome) -> None:
        """There may be another attempt: what this one has saved last is saved before its end is told."""
        try:
            await self._bench.checkpoints.flush(self._run)
        except Exception:  # noqa: BLE001 - what cannot be saved must not keep the attempt from its end
            _log.exception("A checkpoint could not be saved.", action="agent.checkpoint_failed")
        self._hand_in(outcome)

    def _hand_in(self, outcome: Outcome) -> None:
        run = self._run
        run.over, run.succeeded = True, isinstance(outcome, Succeeded)
        run.halt = None  # no circle: what is over is freed at once, not by the collector
        self._bench.live.discard(self)
        if self._span.recording:
            self._end_span(outcome)
        self._bench.reporter.hand_in(
            Report(run.data, run.context, outcome, run.started_at, run.receipts, run)
        )

    def _describe(self) -> None:
        span, data = self._span, self._run.data
        span.set(names.JOB_ID, str(data.job_id))
        span.set(names.JOB_TYPE, data.job_type)
        span.set(names.ATTEMPT, data.attempt)
        span.set(names.QUEUE, data.queue)
        span.set(names.AGENT_ID, self._bench.at.agent_id)

    def _end_span(self, outcome: Outcome) -> None:
        instead = outcome.instead if isinstance(outcome, Failed) else None
        self._span.set(names.OUTCOME, instead or type(outcome).__name__.lower())
        if isinstance(outcome, Failed) and instead is None:
            self._span.fail(f"{outcome.error.type}: {outcome.error.message}")
        self._span.finish()
