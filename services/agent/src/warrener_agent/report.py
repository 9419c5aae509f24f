"""report: the ledger first, then the follow-ups and the outcomes, confirmed, and only then the
acknowledgement."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby
from typing import Any, TypeGuard, TypeVar
from uuid import UUID

from warrener_agent.decide_receipt import resolve
from warrener_agent.ledger.port import Claim, Completion, FollowUp, Granted, LedgerUnavailable
from warrener_agent.outcomes import Doubtful, Dropped, Outcome, Settled, Succeeded
from warrener_agent.publish import publish_surely
from warrener_agent.receipts import Receipt, acknowledge
from warrener_agent.running import Run
from warrener_agent.status_events import Times
from warrener_agent.workplace import Workplace
from warrener_contracts.addresses import address_of
from warrener_contracts.codec import Readable, decode
from warrener_contracts.events import AttemptDispatchedData, Event
from warrener_contracts.letters import Letter, batch_letter, letter_for
from warrener_contracts.topology import MAX_BODY
from warrener_runtime.backoff import Backoff
from warrener_runtime.gather import Gatherer
from warrener_runtime.lifecycle import Managed
from warrener_runtime.logs import get_logger
from warrener_runtime.telemetry import TraceContext

_log = get_logger("agent.report")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Report:
    """An attempt's end, to be recorded and told. `run` is None where nothing was run here."""

    about: AttemptDispatchedData
    context: TraceContext
    outcome: Outcome
    started_at: datetime
    receipts: list[Receipt]
    run: Run | None = None


class Reporter(Managed):
    """Gathers what ends meanwhile: one statement, one publish and one acknowledgement for all of it.

    It does not give up: while the ledger or the broker is away it tries again, and the deliveries stay
    unacknowledged. If the agent dies at any point, the delivery comes again and finds in the ledger what was
    recorded; so an outcome may be told twice, and the work is done once.
    """

    def __init__(self, at: Workplace) -> None:
        super().__init__("reporter")
        self._at = at
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
        settled = await self._record(reports)
        await self._tell(reports, settled)
        for report in reports:
            for receipt in report.receipts:
                receipt.settle()
            if report.run is not None:
                await self._at.running.remove(
                    report.run
                )  # first the slot: the next delivery comes with the ack
        await acknowledge(receipt for report in reports for receipt in report.receipts)
        return settled

    # -- the ledger ----------------------------------------------------------------------------------------

    async def _record(self, reports: list[Report]) -> list[Settled]:
        fresh = [one.outcome.completion for one in reports if _is_new(one.outcome)]
        done = await self._complete(fresh)
        outcomes = [
            Doubtful("the ledger refused the completion")
            if _is_new(one.outcome) and one.about.job_id not in done
            else one.outcome
            for one in reports
        ]
        settled = await self._resolve(reports, outcomes)
        free = [_claim(one) for one, end in zip(reports, settled, strict=True) if _is_free(end)]
        if free:
            await self._patiently(lambda: self._at.ledger.release(free, agent_id=self._at.agent_id))
        return settled

    async def _complete(self, completions: list[Completion]) -> set[UUID]:
        if not completions:
            return set()
        return await self._patiently(
            lambda: self._at.ledger.complete(completions, agent_id=self._at.agent_id)
        )

    async def _resolve(self, reports: list[Report], outcomes: list[Outcome]) -> list[Settled]:
        """Ask the ledger again about what is in doubt."""
        doubts = [
            _claim(one) for one, end in zip(reports, outcomes, strict=True) if isinstance(end, Doubtful)
        ]
        answers = await self._patiently(lambda: self._ask(doubts)) if doubts else []
        ends = dict(zip(doubts, answers, strict=True))
        return [
            resolve(end, _claim(one), ends[_claim(one)]) if isinstance(end, Doubtful) else end
            for one, end in zip(reports, outcomes, strict=True)
        ]

    async def _ask(self, claims: list[Claim]) -> list[Granted]:
        now = self._at.clock.now()
        return await self._at.ledger.claim(
            claims, agent_id=self._at.agent_id, now=now, until=now + self._at.lease
        )

    async def _patiently(self, work: Callable[[], Awaitable[R]]) -> R:
        backoff = Backoff(ceiling=5.0)
        while True:
            try:
                return await work()
            except LedgerUnavailable as error:
                pause = backoff.failed()
                _log.warning(
                    "The ledger does not answer; outcomes wait and are recorded when it does.",
                    action="agent.ledger_unavailable",
                    error=str(error),
                    pause=pause,
                )
                await self._at.clock.sleep(pause)

    # -- the broker ----------------------------------------------------------------------------------------

    async def _tell(self, reports: list[Report], settled: list[Settled]) -> None:
        letters: list[Letter] = []
        events: list[Event[Any]] = []
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
            event = self._event(report, end)
            if event is not None:
                events.append(event)
        letters += bundled(events)
        if letters:
            await publish_surely(self._at, letters)

    def _event(self, report: Report, end: Settled) -> Event[Any] | None:
        times = Times(report.started_at, self._at.clock.now())
        return self._at.speaker.ended(self._at.entropy.new_id(), report.about, times, report.context, end)


def bundled(events: Iterable[Event[Any]]) -> list[Letter]:
    """Few messages for many events: those of one routing key together, up to the size of a body."""
    groups = groupby(sorted(events, key=_key), key=_key)
    return [letter for _, group in groups for letter in _letters(list(group))]


def _letters(events: list[Event[Any]]) -> list[Letter]:
    """One message, in halves where it is too big: so most events are encoded once."""
    letter = letter_for(events[0]) if len(events) == 1 else batch_letter(events)
    if len(events) == 1 or len(letter.body) <= MAX_BODY:
        return [letter]
    half = len(events) // 2
    return [*_letters(events[:half]), *_letters(events[half:])]


def _key(event: Event[Any]) -> str:
    return address_of(event)[1]


def _request(follow_up: FollowUp) -> Letter:
    (read,) = decode(follow_up.request)
    assert isinstance(read, Readable), follow_up.request
    return replace(letter_for(read.event), body=follow_up.request)


def _claim(report: Report) -> Claim:
    return Claim(report.about.job_id, report.about.attempt)


def _is_new(outcome: Outcome) -> TypeGuard[Succeeded]:
    return isinstance(outcome, Succeeded) and not outcome.recorded


def _is_free(end: Settled) -> bool:
    """Whether the claim is to be let go: it succeeded neither here nor elsewhere."""
    return not isinstance(end, (Succeeded, Dropped))
