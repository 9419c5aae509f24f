"""record: what became of attempts, in the ledger, before anybody is told."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple, TypeGuard, TypeVar
from uuid import UUID

from warrener_agent.decide_receipt import failure_to_record, resolve
from warrener_agent.ledger.port import Claim, Completion, Failure, Granted, LedgerUnavailable
from warrener_agent.outcomes import (
    Cancelled,
    Doubtful,
    Dropped,
    Failed,
    Outcome,
    Released,
    Settled,
    Succeeded,
)
from warrener_agent.receipts import Receipt
from warrener_agent.running import Run
from warrener_agent.workplace import Workplace
from warrener_contracts.events import AttemptDispatchedData
from warrener_runtime.backoff import ExponentialBackoff
from warrener_runtime.logs import get_logger
from warrener_runtime.telemetry import TraceContext

_log = get_logger("agent.record")
R = TypeVar("R")


class Report(NamedTuple):
    """An attempt's end, to be recorded and told. `run` is None where nothing was run here."""

    about: AttemptDispatchedData
    context: TraceContext
    outcome: Outcome
    started_at: datetime
    receipts: list[Receipt]
    run: Run | None = None


class Recorder:
    """Records a batch in one statement for each kind of end. It does not give up while the ledger is away."""

    def __init__(self, at: Workplace) -> None:
        self._at = at

    async def record(self, reports: list[Report]) -> Sequence[Settled | None]:
        """What became of each, in order, as the ledger has it from now on. None where that cannot be said
        yet, as the job's row is locked: report it again later."""
        successes = [one.outcome for one in reports if _is_new(one.outcome)]
        completed = await self._complete([one.completion for one in successes])
        if len(completed) == len(reports):  # nothing but successes, and all are recorded
            return successes
        failed = await self._fail(reports)
        outcomes = [_unless_refused(one, completed, failed) for one in reports]
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

    async def _fail(self, reports: list[Report]) -> dict[Claim, Failure]:
        now = self._at.clock.now()
        failures = [
            failure_to_record(_claim(one), one.outcome, one.started_at, now)
            for one in reports
            if _is_new_failure(one.outcome)
        ]
        if not failures:
            return {}
        told = await self._patiently(lambda: self._at.ledger.fail(failures, agent_id=self._at.agent_id))
        return {Claim(one.job_id, one.attempt): one for one in failures if one.job_id in told}

    async def _resolve(self, reports: list[Report], outcomes: list[Outcome]) -> list[Settled | None]:
        """Ask the ledger again about what is in doubt."""
        doubts = [
            _claim(one) for one, end in zip(reports, outcomes, strict=True) if isinstance(end, Doubtful)
        ]
        answers = await self._patiently(lambda: self._ask(doubts)) if doubts else []
        ends = dict(zip(doubts, answers, strict=True))
        settled: list[Settled | None] = []
        for one, end in zip(reports, outcomes, strict=True):
            if isinstance(end, Doubtful):
                answer = ends[_claim(one)]
                # The lock may be that of the very commit that is in doubt.
                settled.append(None if answer.locked else resolve(end, _claim(one), answer))
            else:
                settled.append(end)
        return settled

    async def _ask(self, claims: list[Claim]) -> list[Granted]:
        return await self._at.ledger.claim(claims, agent_id=self._at.agent_id, lease=self._at.lease)

    async def _patiently(self, work: Callable[[], Awaitable[R]]) -> R:
        backoff = ExponentialBackoff(ceiling=5.0)
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


def _claim(report: Report) -> Claim:
    return Claim(report.about.job_id, report.about.attempt)


def _is_new(outcome: Outcome) -> TypeGuard[Succeeded]:
    return isinstance(outcome, Succeeded) and not outcome.recorded


def _is_new_failure(outcome: Outcome) -> TypeGuard[Failed]:
    return isinstance(outcome, Failed) and outcome.recorded is None


def _unless_refused(report: Report, completed: set[UUID], failed: Mapping[Claim, Failure]) -> Outcome:
    outcome = report.outcome
    if _is_new(outcome) and report.about.job_id not in completed:
        return Doubtful("the ledger refused the completion")
    if _is_new_failure(outcome):
        failure = failed.get(_claim(report))
        return replace(outcome, recorded=failure) if failure else Doubtful("the ledger refused the failure")
    return outcome


def _is_free(end: Settled | None) -> bool:
    """Whether the claim is to be let go: the attempt has come to no end here. A later one may wait for it."""
    return isinstance(end, (Cancelled, Released, Dropped))
