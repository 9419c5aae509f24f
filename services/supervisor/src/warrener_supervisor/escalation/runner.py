"""Claim the cases that are due, run their steps, and save their progress.

A case runs one step at a time, saved before the next. After a crash in between, the step runs again: the
alert is repeated under one id, and a repeated request is for the same job.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import timedelta

from warrener_contracts.messages import Message
from warrener_runtime.clock import Clock, Entropy
from warrener_runtime.logs import get_logger
from warrener_store.errors import StoreError
from warrener_store.incidents.rows import CaseRow
from warrener_store.store import StateStore
from warrener_supervisor.escalation import alerts, decisions
from warrener_supervisor.escalation.alert_sinks import SinkRegistry
from warrener_supervisor.escalation.decisions import RunStep, SkipStep, WaitUntil, ladder_of
from warrener_supervisor.escalation.job_steps import JobSteps, Unfinished
from warrener_supervisor.escalation.policy import (
    DEAD,
    DEFAULT_DIGEST,
    AlertStep,
    CompensateStep,
    DigestStep,
    Escalation,
    EscalationStep,
    Ladder,
    RetryStep,
)

_log = get_logger("escalation")

CLAIM = timedelta(seconds=30)
_WITHIN = 25.0  # seconds: less than a claim, so that no two supervisors work on a case
_BATCH_SIZE = 20


class EscalationRunner:
    """Runs the steps of cases. Any number of runners may work at once."""

    def __init__(
        self,
        store: StateStore,
        publish: Callable[[Sequence[Message]], Awaitable[None]],
        ladders: Callable[[], Escalation],
        *,
        sinks: SinkRegistry,
        clock: Clock,
        entropy: Entropy,
    ) -> None:
        self._cases = store.escalations
        self._job_steps = JobSteps(store, publish, clock)
        self._ladders = ladders
        self._sinks = sinks
        self._clock = clock
        self._entropy = entropy

    async def run_once(self) -> None:
        """Run a step of every case that is due."""
        while True:
            now = self._clock.now()
            claim = self._entropy.new_id_text()
            due = await self._cases.claim_cases(now, now + CLAIM, claim, _BATCH_SIZE)
            file = self._ladders() if due else Escalation()
            await asyncio.gather(*(self._advance(case, file) for case in due))
            if len(due) < _BATCH_SIZE:
                return

    async def _advance(self, case: CaseRow, file: Escalation) -> None:
        """Run one case; if it fails, the others go on and it is repeated later."""
        ladder = ladder_of(case, file)
        try:
            async with asyncio.timeout(_WITHIN):
                moved = await (
                    self._report(case, file) if case.kind == alerts.KIND else self._step(case, ladder, file)
                )
        except Exception as error:  # noqa: BLE001 - one case must not stop the others
            _log.exception("A step of a case failed.", action="escalation.step_failed", **_named(case))
            moved = decisions.internal_error(case, self._clock.now(), f"{type(error).__name__}: {error}")
        try:
            counted = await self._cases.save_case(moved)
        except StoreError:
            _log.exception(
                "The progress of a case could not be saved.", action="escalation.not_noted", **_named(case)
            )
        else:
            if not counted:
                _log.info(
                    "Another supervisor changed a case meanwhile.",
                    action="escalation.overtaken",
                    **_named(case),
                )

    async def _step(self, case: CaseRow, ladder: Ladder, file: Escalation) -> CaseRow:
        now = self._clock.now()
        quiet = file.quiet.get(ladder.quiet or "", ())
        decision = decisions.decide(case, ladder, quiet, now)
        if not decisions.is_snoozed(case, now):
            await self._catch_up(case, ladder, file)
        match decision:
            case WaitUntil():
                return decisions.waiting(case, decision)
            case SkipStep(why):
                _log.info(
                    "A step of a case was passed over.", action="escalation.skipped", why=why, **_named(case)
                )
                return decisions.advance(case, ladder, now)
            case RunStep():
                return await self._run_step(case, ladder, file)

    async def _catch_up(self, case: CaseRow, ladder: Ladder, file: Escalation) -> None:
        """Run the passed per-job step for entries that came after it."""
        if (late := decisions.late_step(case, ladder)) is not None and case.kind == DEAD:
            with suppress(Unfinished):  # a job that must wait is raised again if it dies
                await self._job_steps.run(case, ladder.steps[late], late, give_up=True)
        if (name := decisions.digest_of(case, ladder)) is not None:
            await self._add_to_digest(case, name, file)

    async def _run_step(self, case: CaseRow, ladder: Ladder, file: Escalation) -> CaseRow:
        step = ladder.steps[case.step]
        if not isinstance(step, RetryStep) and await self._mended(case, ladder):
            why = f"mended: all {case.times} jobs have succeeded when they were requested again"
            return decisions.closed(case, self._clock.now(), why)
        match step:
            case AlertStep():
                return await self._alert(case, step, ladder, file)
            case DigestStep():
                await self._add_to_digest(case, step.into, file)
            case RetryStep() | CompensateStep():
                return await self._for_each_job(case, step, ladder)
            case _:
                pass
        _log.info("A step of a case was done.", action="escalation.step", step=step.do, **_named(case))
        return decisions.advance(case, ladder, self._clock.now())

    async def _for_each_job(self, case: CaseRow, step: EscalationStep, ladder: Ladder) -> CaseRow:
        last = decisions.is_last_try(case)
        try:
            given_up = await self._job_steps.run(case, step, case.step, give_up=last)
        except Unfinished as rest:
            return decisions.fail_step(case, ladder, self._clock.now(), str(rest))
        return decisions.advance(case, ladder, self._clock.now(), given_up)

    async def _mended(self, case: CaseRow, ladder: Ladder) -> bool:
        retried = any(isinstance(step, RetryStep) for step in ladder.steps[: case.step])
        return retried and case.kind == DEAD and await self._job_steps.all_mended(case)

    async def _alert(self, case: CaseRow, step: AlertStep, ladder: Ladder, file: Escalation) -> CaseRow:
        now = self._clock.now()
        left = [name for name in step.to if name not in case.delivered]
        failures = await self._sinks.send(alerts.render_alert(case, step), left, file.sinks, now)
        taken = tuple(name for name in step.to if name not in failures)
        if failures:
            trouble = "; ".join(f"{name}: {why}" for name, why in failures.items())
            _log.error(
                "A sink did not take an alert.",
                action="escalation.not_taken",
                trouble=trouble,
                **_named(case),
            )
            moved = decisions.fail_step(case, ladder, now, trouble)
            return moved if moved.step != case.step else decisions.mark_delivered(moved, taken)
        return decisions.advance(case, ladder, now)

    async def _add_to_digest(self, case: CaseRow, name: str, file: Escalation) -> None:
        plan = file.digests.get(name, DEFAULT_DIGEST)
        await self._cases.raise_cases([alerts.add_entry(case, name, plan, self._clock.now())])

    async def _report(self, case: CaseRow, file: Escalation) -> CaseRow:
        """Send a digest with all its entries when its time has come."""
        now = self._clock.now()
        plan = file.digests.get(case.subject, DEFAULT_DIGEST)
        due = case.due_at or alerts.next_report(plan, case.first_seen_at)
        if due > now:
            return decisions.postpone(case, due)
        entries = await self._cases.pending(case.fingerprint, 1, alerts.MAX_LINES)
        if not entries:  # it was sent before a crash
            return decisions.closed(case, now, "sent")
        named = await self._cases.cases_by_fingerprint(
            [alerts.fingerprint_of_entry(entry) for entry in entries]
        )
        alert = alerts.report(case, entries, named, due)
        failures = await self._sinks.send(
            alert, [name for name in plan.to if name not in case.delivered], file.sinks, now
        )
        if failures:
            return decisions.fail_report(case, now, failures, plan.to, alerts.next_report(plan, now))
        await self._cases.settle(case.fingerprint, [entry.occurrence for entry in entries], 1)
        _log.info("A digest was sent.", action="escalation.digest", entries=len(entries), **_named(case))
        following = decisions.postpone(case, alerts.next_report(plan, now))
        return decisions.closed(following, now, "sent")


def _named(case: CaseRow) -> dict[str, object]:
    return {"fingerprint": case.fingerprint, "kind": case.kind, "times": case.times}
