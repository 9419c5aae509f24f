"""report: the ledger first, then the follow-ups and the outcomes, confirmed, and only then the
acknowledgement."""

import asyncio
from collections.abc import Sequence

from warrener_agent.ledger.port import FollowUp
from warrener_agent.outcomes import Dropped, Settled, Succeeded, Told
from warrener_agent.publish import publish_surely
from warrener_agent.receipts import acknowledge
from warrener_agent.record import Recorder, Report
from warrener_agent.status_events import Times
from warrener_agent.workplace import Workplace
from warrener_contracts.codec import Readable, decode
from warrener_contracts.letters import Letter, gathered, letter_for
from warrener_runtime.gather import Gatherer
from warrener_runtime.lifecycle import Managed
from warrener_runtime.logs import get_logger

_log = get_logger("agent.report")


class Reporter(Managed):
    """Gathers what ends meanwhile: one statement, one publish and one acknowledgement for all of it.

    It does not give up: while the ledger or the broker is away it tries again, and the deliveries stay
    unacknowledged. If the agent dies at any point, the delivery comes again and finds in the ledger what was
    recorded; so an outcome may be told twice, and the work is done once.
    """

    def __init__(self, at: Workplace) -> None:
        super().__init__("reporter")
        self._at = at
        self._recorder = Recorder(at)
        self._gatherer = self._new_gatherer()
        self._work: asyncio.Task[list[Settled]] | None = None

    def _new_gatherer(self) -> Gatherer[Report, Settled]:
        return Gatherer(self._commit)

    async def submit(self, report: Report) -> Settled:
        """Return once it is recorded, told and acknowledged; what was found to have become of it."""
        return await self._gatherer.submit(report)

    async def _on_start(self) -> None:
        self._gatherer = self._new_gatherer()

    async def _on_drain(self) -> None:
        await self._gatherer.close()

    async def _on_stop(self) -> None:
        if self._work is not None:
            self._work.cancel()
        closing = asyncio.create_task(self._gatherer.close())
        await asyncio.wait({closing}, timeout=1)
        closing.cancel()

    async def _commit(self, reports: list[Report]) -> Sequence[Settled]:
        self._work = asyncio.create_task(self._settle(reports))
        return await self._work

    async def _settle(self, reports: list[Report]) -> list[Settled]:
        settled = await self._recorder.record(reports)
        await self._tell(reports, settled)
        for report in reports:
            for receipt in report.receipts:
                receipt.settle()
            if report.run is not None:
                self._at.running.remove(report.run)  # first the slot: the next delivery comes with the ack
        await acknowledge(receipt for report in reports for receipt in report.receipts)
        return settled

    async def _tell(self, reports: list[Report], settled: list[Settled]) -> None:
        letters: list[Letter] = []
        for report, end in zip(reports, settled, strict=True):
            if isinstance(end, Succeeded):
                letters += [_request(follow_up) for follow_up in end.completion.follow_ups]
            if isinstance(end, Dropped):
                _log.warning(
                    "The end of an attempt is dropped: it belongs to another by now.",
                    action="agent.fenced",
                    job_id=str(report.about.job_id),
                    attempt=report.about.attempt,
                    why=end.why,
                )
            else:
                letters.append(self._letter(report, end))
        if letters:
            await publish_surely(self._at, gathered(letters))

    def _letter(self, report: Report, end: Succeeded | Told) -> Letter:
        event_id = self._at.entropy.new_id()
        if isinstance(end, Succeeded):
            return self._at.speaker.succeeded(event_id, report.about, report.context, end.completion)
        times = Times(report.started_at, self._at.clock.now())
        return letter_for(self._at.speaker.ended(event_id, report.about, times, report.context, end))


def _request(follow_up: FollowUp) -> Letter:
    (read,) = decode(follow_up.request)
    assert isinstance(read, Readable), follow_up.request
    return letter_for(read.event)._replace(body=follow_up.request)
