"""perform: run one granted attempt from its start to its reported end."""

import asyncio
from collections.abc import Mapping
from datetime import datetime, timedelta

from warrener_agent.context import AttemptFacts
from warrener_agent.deadlines import Deadlines
from warrener_agent.desk import LoopDesk
from warrener_agent.executors.failure import failure, timed_out, with_record
from warrener_agent.executors.port import Ended, Execution, Executor, Raised, Returned
from warrener_agent.kinds import ExecutorName, JobKind
from warrener_agent.ledger.port import Completion, LedgerUnavailable
from warrener_agent.outcomes import Cancelled, Doubtful, Failed, Outcome, Released, Succeeded
from warrener_agent.progress import ProgressLine
from warrener_agent.record import Report
from warrener_agent.report import Reporter
from warrener_agent.running import Run, Stop
from warrener_agent.workplace import Workplace
from warrener_contracts.events import AttemptDispatchedData, ErrorInfo, ErrorKind, FlightRecord
from warrener_runtime.lifecycle import Managed
from warrener_runtime.logs import get_logger
from warrener_runtime.telemetry import Span, Telemetry, names

_log = get_logger("agent.perform")

_RESERVE = 0.2
"""The share of the drain grace that is kept for giving back what does not end in time."""


class Performer(Managed):
    """Runs each attempt in a task of its own, so that a lost channel cancels nothing.

    Drain waits for what runs, for most of the grace; the rest is stopped and given back, not charged.
    """

    def __init__(
        self,
        at: Workplace,
        kinds: Mapping[str, JobKind],
        executors: Mapping[ExecutorName, Executor],
        reporter: Reporter,
        progress: ProgressLine,
        *,
        telemetry: Telemetry,
    ) -> None:
        super().__init__("performer")
        self._at, self._kinds, self._executors = at, kinds, executors
        self._reporter, self._progress, self._telemetry = reporter, progress, telemetry
        self._deadlines = Deadlines(at.running, at.clock)
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, run: Run) -> None:
        """Run it; it is in the table from now on."""
        self._at.running.add(run)
        task = asyncio.create_task(self._perform(run), name="attempt")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _on_drain(self) -> None:
        waiting = asyncio.create_task(self._at.running.empty())
        grace = asyncio.create_task(self._at.clock.sleep(self._at.settings.drain_grace * (1 - _RESERVE)))
        await asyncio.wait({waiting, grace}, return_when=asyncio.FIRST_COMPLETED)
        for run in self._at.running:
            run.ask_to_stop(Stop.DRAINED, "the agent ends")
        grace.cancel()
        await waiting

    async def _on_stop(self) -> None:
        tasks = set(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        self._deadlines.close()
        for executor in self._executors.values():
            await executor.close()

    async def _perform(self, run: Run) -> None:
        name = names.attempt(run.data.job_type)
        with self._telemetry.span(name, kind="consumer", parent=run.context) as span:
            run.context = span.context
            if span.recording:
                self._describe(span, run.data)
            outcome = await self._outcome_or_blame(run)
            span.set(names.OUTCOME, type(outcome).__name__.lower())
            if isinstance(outcome, Failed):
                span.fail(f"{outcome.error.type}: {outcome.error.message}")
            await self._reporter.submit(
                Report(run.data, run.context, outcome, run.started_at, run.receipts, run)
            )

    def _describe(self, span: Span, data: AttemptDispatchedData) -> None:
        span.set(names.JOB_ID, str(data.job_id))
        span.set(names.JOB_TYPE, data.job_type)
        span.set(names.ATTEMPT, data.attempt)
        span.set(names.QUEUE, data.queue)
        span.set(names.AGENT_ID, self._at.agent_id)

    async def _outcome_or_blame(self, run: Run) -> Outcome:
        try:
            return await self._outcome(run)
        except Exception as error:  # noqa: BLE001 - a bug of ours must not lose the attempt
            _log.exception(
                "The agent itself failed at an attempt.", action="agent.failed", job_id=str(run.data.job_id)
            )
            return Failed(failure(error, ()).error)

    async def _outcome(self, run: Run) -> Outcome:
        kind = self._kinds.get(run.data.job_type)
        if kind is None:
            return Failed(_unknown(run.data, self._at.agent_id, sorted(self._kinds)))
        if run.data.guarantee == "exclusive":
            await self._progress.announce([run])
        facts = facts_of(run.data, run.started_at)
        progress = self._progress.of(run)
        async with LoopDesk(self._at.ledger, run.claim, self._at.agent_id, run.context, progress) as desk:
            execution = self._executors[kind.executor].begin(kind, facts, run.data.arguments, desk)
            try:
                ended = await self._until_over(run, execution, facts)
            except asyncio.CancelledError:
                await execution.stop()
                raise
            if ended is None:
                return _stopped(run, execution.flight_record)
            if isinstance(ended, Raised):
                return Failed(ended.error, ended.retry_after_seconds)
            return await self._complete(run, ended, desk)

    async def _until_over(self, run: Run, execution: Execution, facts: AttemptFacts) -> Ended | None:
        """How the handler ended; None where it was stopped."""
        self._deadlines.watch(run, (facts.deadline - self._at.clock.now()).total_seconds())
        await run.until_woken(execution.done)
        if execution.done.done():
            return _end_of(execution.done)
        await self._stop(run, execution)
        if run.stop is not None:
            return None
        return with_record(_timed_out(run.data, facts), execution.flight_record)

    async def _stop(self, run: Run, execution: Execution) -> None:
        if await execution.stop():
            return
        gone = asyncio.create_task(execution.gone())
        self._at.running.abandon(run.data.queue, gone)
        _log.error(
            "A handler cannot be stopped and is abandoned; it keeps its slot until it ends by itself. "
            'Give the job executor="process", or the calls in it timeouts.',
            action="agent.abandoned",
            job_id=str(run.data.job_id),
            job_type=run.data.job_type,
            attempt=run.data.attempt,
        )

    async def _complete(self, run: Run, ended: Returned, desk: LoopDesk) -> Outcome:
        completion = Completion(
            run.data.job_id,
            run.data.attempt,
            ended.result,
            desk.follow_ups,
            run.started_at,
            self._at.clock.now(),
        )
        try:
            recorded = await desk.complete(completion)
        except LedgerUnavailable as error:
            return Doubtful(f"the commit may have failed: {error}")
        if recorded is False:
            return Doubtful("the ledger refused the transaction")
        return Succeeded(completion, recorded=bool(recorded))


def facts_of(data: AttemptDispatchedData, started_at: datetime) -> AttemptFacts:
    """What the handler may know of its attempt."""
    deadline = started_at + min(data.timeout, timedelta(days=3650))
    if data.deadline is not None:
        deadline = min(deadline, data.deadline)
    return AttemptFacts(data.job_id, data.job_type, data.attempt, data.max_attempts, deadline)


def _end_of(done: asyncio.Future[Ended]) -> Ended:
    try:
        return done.result()
    except asyncio.CancelledError as error:  # not by us: the handler cancelled its own task
        return failure(error, ())


def _timed_out(data: AttemptDispatchedData, facts: AttemptFacts) -> Raised:
    return timed_out(data.timeout, data.deadline if facts.deadline == data.deadline else None)


def _stopped(run: Run, record: FlightRecord | None) -> Outcome:
    match run.stop:
        case Stop.CANCELLED:
            return Cancelled(run.stop_reason, record)
        case Stop.DRAINED:
            return Released(run.stop_reason)
        case _:
            return Doubtful(run.stop_reason)


def _unknown(data: AttemptDispatchedData, agent_id: str, known: list[str]) -> ErrorInfo:
    return ErrorInfo(
        kind=ErrorKind.ERROR,
        type="UnknownJobType",
        message=(
            f"expected one of {', '.join(known)} in queue {data.queue}, got {data.job_type}: agent "
            f"{agent_id} does "
            "not know it; give its agents a queue of their own, or all agents of this queue the same modules"
        ),
    )
