"""record: what became of attempts, in the ledger, before anybody is told."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import NamedTuple, TypeGuard, TypeVar
from uuid import UUID

from warrener_agent.agent_context import AgentContext
from warrener_agent.delivery_refs import DeliveryRef
from warrener_agent.intake_decisions import failure_to_record, resolve
from warrener_agent.ledger.port import Claim, ClaimResult, Completion, Failure, LedgerUnavailable
from warrener_agent.outcomes import (
    CancelledOutcome,
    FailedOutcome,
    FinalOutcome,
    Outcome,
    ReleasedOutcome,
    SucceededOutcome,
    SupersededOutcome,
    UnresolvedOutcome,
)
from warrener_agent.run_table import Run
from warrener_contracts.events import AttemptDispatchedData
from warrener_runtime.backoff import ExponentialBackoff
from warrener_runtime.logs import get_logger
from warrener_runtime.telemetry import TraceContext

_log = get_logger("agent.record")
R = TypeVar("R")


class AttemptReport(NamedTuple):
    """An attempt's end, to be recorded and told. `run` is None where nothing was run here."""

    dispatch: AttemptDispatchedData
    context: TraceContext
    outcome: Outcome
    started_at: datetime
    delivery_refs: list[DeliveryRef]
    run: Run | None = None


class OutcomeRecorder:
    """Records a batch in one statement for each kind of end. It does not give up while the ledger is away."""

    def __init__(self, agent: AgentContext) -> None:
        self._agent = agent

    async def record(self, reports: list[AttemptReport]) -> Sequence[FinalOutcome | None]:
        """What became of each, in order, as the ledger has it from now on. None where that cannot be said
        yet, as the job's row is locked: report it again later."""
        successes = [one.outcome for one in reports if _is_new(one.outcome)]
        completed = await self._complete([one.completion for one in successes])
        if len(completed) == len(reports):  # nothing but successes, and all are recorded
            return successes
        failed = await self._fail(reports)
        outcomes = [_apply_refusal(one, completed, failed) for one in reports]
        settled = await self._resolve(reports, outcomes)
        free = [_claim(one) for one, end in zip(reports, settled, strict=True) if _is_released(end)]
        if free:
            await self._retry_while_unavailable(
                lambda: self._agent.ledger.release(free, agent_id=self._agent.agent_id)
            )
        return settled

    async def _complete(self, completions: list[Completion]) -> set[UUID]:
        if not completions:
            return set()
        return await self._retry_while_unavailable(
            lambda: self._agent.ledger.complete(completions, agent_id=self._agent.agent_id)
        )

    async def _fail(self, reports: list[AttemptReport]) -> dict[Claim, Failure]:
        now = self._agent.clock.now()
        failures = [
            failure_to_record(_claim(one), one.outcome, one.started_at, now)
            for one in reports
            if _is_new_failure(one.outcome)
        ]
        if not failures:
            return {}
        recorded = await self._retry_while_unavailable(
            lambda: self._agent.ledger.fail(failures, agent_id=self._agent.agent_id)
        )
        return {Claim(one.job_id, one.attempt): one for one in failures if one.job_id in recorded}

    async def _resolve(
        self, reports: list[AttemptReport], outcomes: list[Outcome]
    ) -> list[FinalOutcome | None]:
        """Ask the ledger again about what is in doubt."""
        unresolved = [
            _claim(one)
            for one, end in zip(reports, outcomes, strict=True)
            if isinstance(end, UnresolvedOutcome)
        ]
        answers = (
            await self._retry_while_unavailable(lambda: self._claim_again(unresolved)) if unresolved else []
        )
        ends = dict(zip(unresolved, answers, strict=True))
        settled: list[FinalOutcome | None] = []
        for one, end in zip(reports, outcomes, strict=True):
            if isinstance(end, UnresolvedOutcome):
                answer = ends[_claim(one)]
                # The lock may be that of the very commit that is in doubt.
                settled.append(None if answer.locked else resolve(end, _claim(one), answer))
            else:
                settled.append(end)
        return settled

    async def _claim_again(self, claims: list[Claim]) -> list[ClaimResult]:
        return await self._agent.ledger.claim(claims, agent_id=self._agent.agent_id, lease=self._agent.lease)

    async def _retry_while_unavailable(self, work: Callable[[], Awaitable[R]]) -> R:
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
                await self._agent.clock.sleep(pause)


def _claim(report: AttemptReport) -> Claim:
    return Claim(report.dispatch.job_id, report.dispatch.attempt)


def _is_new(outcome: Outcome) -> TypeGuard[SucceededOutcome]:
    return isinstance(outcome, SucceededOutcome) and not outcome.recorded


def _is_new_failure(outcome: Outcome) -> TypeGuard[FailedOutcome]:
    return isinstance(outcome, FailedOutcome) and outcome.recorded is None


def _apply_refusal(report: AttemptReport, completed: set[UUID], failed: Mapping[Claim, Failure]) -> Outcome:
    outcome = report.outcome
    if _is_new(outcome) and report.dispatch.job_id not in completed:
        return UnresolvedOutcome("the ledger refused the completion")
    if _is_new_failure(outcome):
        failure = failed.get(_claim(report))
        return (
            replace(outcome, recorded=failure)
            if failure
            else UnresolvedOutcome("the ledger refused the failure")
        )
    return outcome


def _is_released(end: FinalOutcome | None) -> bool:
    """Whether the claim is to be let go: the attempt has come to no end here. A later one may wait for it."""
    return isinstance(end, (CancelledOutcome, ReleasedOutcome, SupersededOutcome))
