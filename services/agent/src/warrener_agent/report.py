"""Report attempts: first to the ledger, then child jobs and outcomes to the broker, then acknowledge."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import lru_cache
from math import inf
from typing import Any, NamedTuple, TypeGuard, TypeVar
from uuid import UUID

from warrener_agent.agent_context import AgentContext
from warrener_agent.decisions import outcomes
from warrener_agent.ledger import port
from warrener_agent.ledger.port import Claim, ClaimResult, Completion, Failure, LedgerUnavailable
from warrener_agent.outbox import AgentOutbox, OutboxEntry
from warrener_agent.run_table import DeliveryRef, Run
from warrener_agent.status_events import ProgressValue
from warrener_contracts.codec import DecodedEvent, decode
from warrener_contracts.events import AttemptDispatchedData, ErrorKind
from warrener_contracts.messages import Message, build_message
from warrener_runtime.backoff import ExponentialBackoff
from warrener_runtime.lifecycle import ManagedComponent
from warrener_runtime.logs import get_logger
from warrener_runtime.telemetry import Span, SpanShape, Telemetry, TraceContext, names
from warrener_runtime.telemetry.waits import MIN_WAIT

_log = get_logger("agent.report")
R = TypeVar("R")

_MAX_BATCH = 500  # reports in one commit
_LOCKED_PAUSE = 1.0  # seconds until outcomes whose rows were locked are recorded again
_MAX_REASON = 500  # characters of a reason that quotes an error
_REQUEST = "job.requested.v1"
_FAILED_PAUSE = 5.0  # seconds until an outcome that met an unexpected error is recorded again


class TracedEnd(NamedTuple):
    """The span of an attempt whose trace is recorded, and when its handler ended."""

    span: Span
    at: datetime


class AttemptReport(NamedTuple):
    """The end of an attempt, to be recorded and published.

    `run` is None if nothing ran here. `last_progress` was reported by the handler and is not published yet.
    """

    dispatch: AttemptDispatchedData
    context: TraceContext
    outcome: outcomes.Outcome
    started_at: datetime
    delivery_refs: list[DeliveryRef]
    run: Run | None = None
    traced: TracedEnd | None = None
    last_progress: ProgressValue | None = None


class Reporter(ManagedComponent):
    """Batches reports: one statement, one publish and one acknowledgement for all that end meanwhile.

    There is no timer: a report submitted while nothing is being committed goes at once. The reporter never
    gives up: while the ledger or the broker is away it tries again, and the deliveries stay unacknowledged.
    The outbox keeps what a queue refuses. If the agent dies at any point, the delivery comes again and finds
    in the ledger what was recorded; so an outcome may be published twice, and the work is done once.
    """

    def __init__(self, agent: AgentContext, outbox: AgentOutbox, telemetry: Telemetry | None = None) -> None:
        super().__init__("reporter")
        self._agent, self._outbox = agent, outbox
        self._telemetry = telemetry or Telemetry.disabled()
        self._recorder = OutcomeRecorder(agent)
        self._waiting: deque[AttemptReport] = deque()
        self._work: asyncio.Task[None] | None = None
        self._later: set[asyncio.Task[None]] = set()

    def submit(self, report: AttemptReport) -> None:
        """Record, publish and acknowledge it, without waiting for that."""
        if isinstance(report.outcome, outcomes.UnresolvedOutcome) and report.outcome.has_stopped:
            # Alone: it does not wait for the ledger as long as the others do.
            self._settle_beside(self._settle_or_leave([report]), "report of a stopped attempt")
            return
        self._waiting.append(report)
        if self._work is None:
            self._work = asyncio.create_task(self._run(), name="reports")

    async def _on_drain(self) -> None:
        while waiting := {*self._later, *([self._work] if self._work is not None else [])}:
            await asyncio.wait(waiting)

    async def _on_stop(self) -> None:
        self._waiting.clear()
        for later in self._later:
            later.cancel()
        if self._work is not None:
            self._work.cancel()
            await asyncio.wait({self._work}, timeout=1)

    async def _run(self) -> None:
        try:
            while self._waiting:
                count = min(len(self._waiting), _MAX_BATCH)
                await self._settle_or_leave([self._waiting.popleft() for _ in range(count)])
        finally:
            self._work = None

    async def _settle_or_leave(self, reports: list[AttemptReport]) -> None:
        """Report these. An unexpected error stops only the outcome that meets it, which is reported again
        later: its claim is renewed meanwhile, so no other agent would end the attempt."""
        try:
            await self._settle(reports)
        except Exception:  # noqa: BLE001 - logged with its trace
            _log.exception(
                "The agent itself failed at reporting.", action="agent.report_failed", reports=len(reports)
            )
            if len(reports) > 1:
                for report in reports:
                    await self._settle_or_leave([report])
            else:
                self._retry_later(reports, _FAILED_PAUSE)

    async def _settle(self, reports: list[AttemptReport]) -> None:
        recorded = [*zip(reports, await self._recorder.record(reports), strict=True)]
        settled = [(report, end) for report, end in recorded if end is not None]
        if len(settled) < len(reports):  # locked rows are left for later, so that the others need not wait
            locked = [report for report, end in recorded if end is None]
            _log.warning(
                "Outcomes wait: other transactions hold their rows in the ledger.",
                action="agent.rows_locked",
                jobs=[str(one.dispatch.job_id) for one in locked[:10]],
                outcomes=len(locked),
            )
            self._retry_later(locked, _LOCKED_PAUSE)
        await self._outbox.send([self._outbox_entry(report, end) for report, end in settled])
        now = self._agent.clock.now()
        for report, end in settled:
            if report.traced is not None:
                self._end_spans(report, report.traced, end, now)

    def _end_spans(
        self, report: AttemptReport, traced: TracedEnd, end: outcomes.FinalOutcome, now: datetime
    ) -> None:
        """End the span of an attempt that was in doubt, and record how long the report took."""
        is_lost = isinstance(end, outcomes.FailedOutcome) and end.error.kind is ErrorKind.LOST
        if isinstance(end, outcomes.SupersededOutcome) or is_lost:  # another agent has the attempt
            traced.span.discard()  # the supervisor records it
            return
        traced.span.finish()
        if now - traced.at >= MIN_WAIT:
            self._telemetry.record(
                _report_shape(report.dispatch.job_type, report.dispatch.attempt),
                traced.at,
                now,
                parent=report.context,
                attributes={names.JOB_ID: str(report.dispatch.job_id)},
            )

    def _retry_later(self, reports: Sequence[AttemptReport], pause: float) -> None:
        async def retry() -> None:
            await self._agent.clock.sleep(pause)
            for report in reports:
                self.submit(report)

        self._settle_beside(retry(), "reports that are tried again")

    def _settle_beside(self, work: Coroutine[Any, Any, None], name: str) -> None:
        later = asyncio.create_task(work, name=name)
        self._later.add(later)
        later.add_done_callback(self._later.discard)

    def _outbox_entry(self, report: AttemptReport, end: outcomes.FinalOutcome) -> OutboxEntry:
        factory, dispatch, context = self._agent.event_factory, report.dispatch, report.context
        if isinstance(end, outcomes.SupersededOutcome):
            _log.warning(
                "The end of an attempt was dropped: the attempt belongs to another agent by now.",
                action="agent.fenced",
                job_id=str(report.dispatch.job_id),
                attempt=report.dispatch.attempt,
                reason=end.why,
            )
            return OutboxEntry([], report.delivery_refs, report.run)
        messages: list[Message] = []
        if report.run is not None and report.last_progress is not None:
            progressed = factory.progressed(report.run, self._agent.clock.now(), report.last_progress)
            messages.append(build_message(progressed))
        if isinstance(end, outcomes.SucceededOutcome):
            recorded = [*map(_recorded_message, end.completion.child_jobs)]
            requests = sum(one.type == _REQUEST for one in recorded)  # the others are cancels
            messages += [*recorded, factory.succeeded(dispatch, context, end.completion, requests)]
            return OutboxEntry(messages, report.delivery_refs, report.run)
        now = self._agent.clock.now()
        ended = build_message(
            factory.ended(dispatch, context, end, started_at=report.started_at, finished_at=now)
        )
        if isinstance(end, outcomes.SuspendedOutcome) and end.messages:
            # One after the other: once the suspension is known, the next attempt replaces the record of
            # these, which is all that would repeat them.
            messages += map(_recorded_message, end.messages)
            return OutboxEntry(messages, report.delivery_refs, report.run, then=[ended])
        return OutboxEntry([*messages, ended], report.delivery_refs, report.run)


class OutcomeRecorder:
    """Records a batch in the ledger, in one statement for each kind of end, before anything is published.

    The recorder never gives up while the ledger is away, but for attempts whose handlers were stopped: these
    are released when their leases have ended, so that an agent with a ledger can run them.
    """

    def __init__(self, agent: AgentContext) -> None:
        self._agent = agent

    async def record(self, reports: list[AttemptReport]) -> Sequence[outcomes.FinalOutcome | None]:
        """Return the final outcome of each report, in order, as the ledger has it from now on.

        None if the job's row is locked, so that nothing is known yet: report it again later.
        """
        successes = [one.outcome for one in reports if _is_new(one.outcome)]
        completed = await self._complete([one.completion for one in successes])
        if len(completed) == len(reports):  # nothing but successes, and all are recorded
            return successes
        failed = await self._fail(reports)
        ends = [_apply_refusal(one, completed, failed) for one in reports]
        settled = await self._resolve(reports, ends)
        free = [_claim(one) for one, end in zip(reports, settled, strict=True) if _is_released(end)]
        if free:
            await self._retry_while_unavailable(
                "release", lambda: self._agent.ledger.release(free, agent_id=self._agent.holder_id)
            )
        return settled

    async def _complete(self, completions: list[Completion]) -> set[UUID]:
        if not completions:
            return set()
        return await self._retry_while_unavailable(
            "complete", lambda: self._agent.ledger.complete(completions, agent_id=self._agent.holder_id)
        )

    async def _fail(self, reports: list[AttemptReport]) -> dict[Claim, Failure]:
        now = self._agent.clock.now()
        failures = [
            outcomes.failure_to_record(_claim(one), one.outcome, one.started_at, now)
            for one in reports
            if _is_unrecorded(one.outcome)
        ]
        if not failures:
            return {}
        recorded = await self._retry_while_unavailable(
            "fail", lambda: self._agent.ledger.fail(failures, agent_id=self._agent.holder_id)
        )
        return {Claim(one.job_id, one.attempt): one for one in failures if one.job_id in recorded}

    async def _resolve(
        self, reports: list[AttemptReport], ends: list[outcomes.Outcome]
    ) -> list[outcomes.FinalOutcome | None]:
        """Claim again what is in doubt: the answer says what the ledger has."""
        unresolved = [
            _claim(one)
            for one, end in zip(reports, ends, strict=True)
            if isinstance(end, outcomes.UnresolvedOutcome)
        ]
        answers: list[ClaimResult] = []
        if unresolved:
            try:
                answers = await self._retry_while_unavailable(
                    "claim",
                    lambda: self._agent.ledger.claim(
                        unresolved, agent_id=self._agent.holder_id, lease=self._agent.lease
                    ),
                    until=max(map(_waits_until, reports)),
                )
            except LedgerUnavailable as error:
                why = f"its lease has ended, and the ledger does not answer: {error}"
                return [outcomes.ReleasedOutcome(why[:_MAX_REASON], lease_ended=True) for _ in reports]
        by_claim = dict(zip(unresolved, answers, strict=True))
        settled: list[outcomes.FinalOutcome | None] = []
        for one, end in zip(reports, ends, strict=True):
            if isinstance(end, outcomes.UnresolvedOutcome):
                answer = by_claim[_claim(one)]
                # The lock may be that of the very commit that is in doubt.
                settled.append(None if answer.locked else outcomes.resolve(end, _claim(one), answer))
            else:
                settled.append(end)
        return settled

    async def _retry_while_unavailable(
        self, operation: str, work: Callable[[], Awaitable[R]], *, until: float = inf
    ) -> R:
        """Return the ledger's answer. Raises LedgerUnavailable after the monotonic moment `until`."""
        backoff = ExponentialBackoff(ceiling=5.0)
        while True:
            try:
                with self._agent.metrics.ledger_call(operation):
                    return await work()
            except LedgerUnavailable as error:
                if self._agent.clock.monotonic() > until:
                    raise
                pause = backoff.failed()
                _log.warning(
                    "The ledger does not answer; outcomes wait and are recorded when it does.",
                    action="agent.ledger_unavailable",
                    error=str(error),
                    pause=pause,
                )
                await self._agent.clock.sleep(pause)


@lru_cache(maxsize=1024)
def _report_shape(job_type: str, attempt: int) -> SpanShape:
    return names.REPORT.shape(job_type, {names.ATTEMPT: attempt})


def _recorded_message(recorded: port.ChildJobRequest) -> Message:
    """Return the message of an event of this agent, as the ledger has it."""
    if recorded.message is not None:
        return recorded.message
    (read,) = decode(recorded.request)
    assert isinstance(read, DecodedEvent), recorded
    return build_message(read.event)._replace(body=recorded.request)


def _claim(report: AttemptReport) -> Claim:
    return Claim(report.dispatch.job_id, report.dispatch.attempt)


def _waits_until(report: AttemptReport) -> float:
    """Return the monotonic moment until which the report waits for the ledger."""
    doubt = report.outcome
    if isinstance(doubt, outcomes.UnresolvedOutcome) and doubt.has_stopped and report.run is not None:
        return report.run.lease_expires_at
    return inf


def _is_new(outcome: outcomes.Outcome) -> TypeGuard[outcomes.SucceededOutcome]:
    return isinstance(outcome, outcomes.SucceededOutcome) and not outcome.recorded


def _is_unrecorded(
    outcome: outcomes.Outcome,
) -> TypeGuard[outcomes.FailedOutcome | outcomes.SuspendedOutcome]:
    """True of a failure, and of a suspension, which is recorded as one."""
    return (
        isinstance(outcome, outcomes.FailedOutcome | outcomes.SuspendedOutcome) and outcome.recorded is None
    )


def _apply_refusal(
    report: AttemptReport, completed: set[UUID], failed: Mapping[Claim, Failure]
) -> outcomes.Outcome:
    outcome = report.outcome
    if _is_new(outcome) and report.dispatch.job_id not in completed:
        return outcomes.UnresolvedOutcome("the ledger refused the completion")
    if _is_unrecorded(outcome):
        failure = failed.get(_claim(report))
        if failure is None:
            return outcomes.UnresolvedOutcome("the ledger refused the failure")
        return replace(outcome, recorded=failure)
    return outcome


def _is_released(end: outcomes.FinalOutcome | None) -> bool:
    """True if the claim is to be released: the attempt did not end here. A later one may wait for that."""
    if isinstance(end, outcomes.ReleasedOutcome):
        return not end.lease_ended
    return isinstance(end, (outcomes.CancelledOutcome, outcomes.SupersededOutcome))
