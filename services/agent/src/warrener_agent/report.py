"""report: the ledger first, then the follow-ups and the outcomes, confirmed, and only then the
acknowledgement."""

import asyncio
from collections import deque
from collections.abc import Sequence

from warrener_agent.agent_context import AgentContext
from warrener_agent.ledger.port import FollowUp
from warrener_agent.outbox import AgentOutbox, OutboxEntry
from warrener_agent.outcome_recorder import AttemptReport, OutcomeRecorder
from warrener_agent.outcomes import FinalOutcome, ReportableOutcome, SucceededOutcome, SupersededOutcome
from warrener_agent.status_events import Times
from warrener_contracts.codec import DecodedEvent, decode
from warrener_contracts.messages import Message, build_message
from warrener_runtime.lifecycle import ManagedComponent
from warrener_runtime.logs import get_logger

_log = get_logger("agent.report")

_AT_ONCE = 500
"""Reports in one commit."""
_LOCKED_PAUSE = 1.0
"""Seconds until outcomes are recorded again whose rows were locked."""
_FAILED_PAUSE = 5.0
"""Seconds until an outcome is recorded again that met an error nobody expected."""


class Reporter(ManagedComponent):
    """Gathers what ends meanwhile: one statement, one publish and one acknowledgement for all of it.

    There is no timer: what is handed in while nothing is committed goes at once. It does not give up: while
    the ledger or the broker is away it tries again, and the deliveries stay unacknowledged. What a queue
    refuses is left to the outbox. If the agent dies
    at any point, the delivery comes again and finds in the ledger what was recorded; so an outcome may be
    told twice, and the work is done once.
    """

    def __init__(self, agent: AgentContext, outbox: AgentOutbox) -> None:
        super().__init__("reporter")
        self._agent, self._outbox = agent, outbox
        self._recorder = OutcomeRecorder(agent)
        self._waiting: deque[AttemptReport] = deque()
        self._work: asyncio.Task[None] | None = None
        self._later: set[asyncio.Task[None]] = set()

    def submit(self, report: AttemptReport) -> None:
        """It will be recorded, told and acknowledged; nobody has to wait for that."""
        self._waiting.append(report)
        if self._work is None:
            self._work = asyncio.create_task(self._run(), name="reports")

    def _retry_locked(self, reports: Sequence[AttemptReport]) -> None:
        """Their rows are locked: the others need not wait."""
        _log.warning(
            "Outcomes wait: other transactions hold their rows in the ledger.",
            action="agent.rows_locked",
            jobs=[str(one.dispatch.job_id) for one in reports[:10]],
            outcomes=len(reports),
        )
        self._retry_later(reports, _LOCKED_PAUSE)

    def _retry_later(self, reports: Sequence[AttemptReport], pause: float) -> None:
        later = asyncio.create_task(self._retry(reports, pause), name="reports that are tried again")
        self._later.add(later)
        later.add_done_callback(self._later.discard)

    async def _retry(self, reports: Sequence[AttemptReport], pause: float) -> None:
        await self._agent.clock.sleep(pause)
        for report in reports:
            self.submit(report)

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
                count = min(len(self._waiting), _AT_ONCE)
                await self._settle_or_leave([self._waiting.popleft() for _ in range(count)])
        finally:
            self._work = None

    async def _settle_or_leave(self, reports: list[AttemptReport]) -> None:
        """Report them. An error that nobody expected stops only the outcome that meets it, which is reported
        again later: its claim is renewed meanwhile, so nobody else would end the attempt."""
        try:
            await self._settle(reports)
        except Exception:  # noqa: BLE001 - logged with its trace, as the lines below say
            _log.exception(
                "The agent itself failed at reporting.", action="agent.report_failed", reports=len(reports)
            )
            if len(reports) > 1:
                for report in reports:
                    await self._settle_or_leave([report])
            else:
                self._retry_later(reports, _FAILED_PAUSE)

    async def _settle(self, reports: list[AttemptReport]) -> None:
        recorded = await self._recorder.record(reports)
        settled = [end for end in recorded if end is not None]
        if len(settled) < len(reports):
            self._retry_locked([one for one, end in zip(reports, recorded, strict=True) if end is None])
            reports = [one for one, end in zip(reports, recorded, strict=True) if end is not None]
        await self._outbox.send(
            [
                OutboxEntry(self._messages(report, end), report.delivery_refs, report.run)
                for report, end in zip(reports, settled, strict=True)
            ]
        )

    def _messages(self, report: AttemptReport, end: FinalOutcome) -> list[Message]:
        if isinstance(end, SucceededOutcome):
            message = self._agent.event_factory.succeeded(
                self._agent.entropy.new_id_text(), report.dispatch, report.context, end.completion
            )
            follow_ups = end.completion.follow_ups
            return [*map(_request, follow_ups), message] if follow_ups else [message]
        if isinstance(end, SupersededOutcome):
            _log.warning(
                "The end of an attempt is dropped: it belongs to another by now.",
                action="agent.fenced",
                job_id=str(report.dispatch.job_id),
                attempt=report.dispatch.attempt,
                why=end.why,
            )
            return []
        return [self._outcome_message(report, end)]

    def _outcome_message(self, report: AttemptReport, end: ReportableOutcome) -> Message:
        times = Times(report.started_at, self._agent.clock.now())
        event_id = self._agent.entropy.new_id()
        return build_message(
            self._agent.event_factory.ended(event_id, report.dispatch, times, report.context, end)
        )


def _request(follow_up: FollowUp) -> Message:
    (read,) = decode(follow_up.request)
    assert isinstance(read, DecodedEvent), follow_up.request
    return build_message(read.event)._replace(body=follow_up.request)
