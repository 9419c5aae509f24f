"""Claim the incidents that are due, run their steps, and save their progress.

An incident runs one step at a time, saved before the next. After a crash in between, the step runs again: the
alert is repeated under one id, and a repeated request is for the same job.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import NamedTuple

from warrener_contracts.messages import Message
from warrener_runtime.clock import Clock, Entropy
from warrener_runtime.logs import Log, get_logger
from warrener_store.errors import StoreError, StoreUnavailable
from warrener_store.incidents.rows import IncidentFilter, IncidentRow
from warrener_store.store import StateStore
from warrener_supervisor.escalation import alerts, decisions, policy_versions
from warrener_supervisor.escalation.alert_sinks import SendAlert, send_alert, send_to_sinks
from warrener_supervisor.escalation.decisions import RunStep, SkipStep, WaitUntil
from warrener_supervisor.escalation.job_steps import JobSteps, Unfinished
from warrener_supervisor.escalation.policy import (
    DEAD,
    AlertStep,
    CompensateStep,
    DigestStep,
    Escalation,
    EscalationPolicy,
    EscalationStep,
    QuietPeriod,
    RetryStep,
    digest_plan,
)
from warrener_supervisor.escalation.policy_registry import PolicyRegistry

_log = get_logger("escalation")

CLAIM = timedelta(seconds=30)
_WITHIN = 25.0  # seconds: less than a claim, so that no two supervisors work on an incident
_BATCH_SIZE = 20


class FollowedPolicy(NamedTuple):
    """The policy that an incident follows, the one that matches it now, and the present file."""

    policy: EscalationPolicy
    quiet: tuple[QuietPeriod, ...]
    current: EscalationPolicy
    file: Escalation


class EscalationRunner:
    """Runs the steps of incidents. Any number of runners may work at once."""

    def __init__(
        self,
        store: StateStore,
        publish: Callable[[Sequence[Message]], Awaitable[object]],
        policies: Callable[[], Escalation],
        *,
        clock: Clock,
        entropy: Entropy,
        send: SendAlert = send_alert,
    ) -> None:
        self._incidents = store.escalations
        self._job_steps = JobSteps(store, publish, clock)
        self._policies = PolicyRegistry(self._incidents, policies, clock)
        self._send = send
        self._clock = clock
        self._entropy = entropy

    async def load_policies(self) -> None:
        """Store the policies in the file, before anything can die under them.

        If the store does not answer, the first `run_once` that finds it does.
        """
        try:
            await self._policies.load()
        except StoreUnavailable as error:
            _log.warning(
                "The policies could not be stored yet.", action="escalation.store_failed", error=str(error)
            )

    async def run_once(self) -> None:
        """Run a step of every incident that is due."""
        loaded = await self._policies.load()
        while True:
            now = self._clock.now()
            claim = self._entropy.new_id_text()
            due = await self._incidents.claim_incidents(now, now + CLAIM, claim, _BATCH_SIZE)
            await asyncio.gather(*(self._advance(incident, loaded) for incident in due))
            if len(due) < _BATCH_SIZE:
                return

    async def _advance(self, incident: IncidentRow, loaded: policy_versions.LoadedEscalation) -> None:
        """Run one incident; if it fails, the others go on and it is repeated later."""
        try:
            async with asyncio.timeout(_WITHIN):
                moved = await (
                    self._report(incident, loaded.file)
                    if incident.kind == alerts.KIND
                    else self._follow(incident, loaded)
                )
        except Exception as error:  # noqa: BLE001 - one incident must not stop the others
            _log_of(incident).exception("A step of an incident failed.", action="escalation.step_failed")
            moved = decisions.internal_error(incident, self._clock.now(), f"{type(error).__name__}: {error}")
        try:
            if not await self._incidents.save_incident(moved):
                _log_of(incident).info(
                    "Another supervisor changed an incident meanwhile.", action="escalation.changed_meanwhile"
                )
        except StoreError:
            _log_of(incident).exception(
                "The progress of an incident could not be saved.", action="escalation.save_failed"
            )

    async def _follow(self, incident: IncidentRow, loaded: policy_versions.LoadedEscalation) -> IncidentRow:
        """Run a step of the policy with which the incident began, or restart by the one that matches now."""
        current, version = loaded.current(incident), incident.policy_version
        held = None if version is None else await self._policies.stored(version)
        change = policy_versions.change_for(incident, current, loaded.loaded_at, readable=held is not None)
        if change is policy_versions.PolicyChange.RESTARTS:
            return await self._restart(incident, current, loaded.loaded_at)
        if change is policy_versions.PolicyChange.BEGINS:
            incident = policy_versions.adopt(incident, current, self._clock.now())
        following = held.version if held and change is policy_versions.PolicyChange.CONTINUES else current
        return await self._step(
            incident, FollowedPolicy(following.policy, following.quiet, current.policy, loaded.file)
        )

    async def _restart(
        self, incident: IncidentRow, current: policy_versions.PolicyVersion, loaded_at: datetime
    ) -> IncidentRow:
        now = self._clock.now()
        stored = await self._policies.stored(current.version) or policy_versions.StoredPolicy(current, now)
        _log_of(incident).info(
            "An incident restarted by another version of its policy.",
            action="escalation.restarted",
            policy=current.label,
            version_before=incident.policy_version,
        )
        return policy_versions.restart(
            incident, policy_versions.StoredPolicy(current, stored.first_seen_at), loaded_at, now
        )

    async def _step(self, incident: IncidentRow, followed: FollowedPolicy) -> IncidentRow:
        now = self._clock.now()
        decision = decisions.decide(incident, followed.policy, followed.quiet, now)
        if not decisions.is_snoozed(incident, now):
            await self._catch_up(incident, followed)
        match decision:
            case WaitUntil():
                return replace(incident, wake_at=decision.until)
            case SkipStep(why):
                _log_of(incident).info(
                    "A step of an incident was passed over.", action="escalation.skipped", reason=why
                )
                return decisions.advance(incident, followed.policy, now)
            case RunStep():
                return await self._run_step(incident, followed)

    async def _catch_up(self, incident: IncidentRow, followed: FollowedPolicy) -> None:
        """Run the passed per-job step for entries that came after it."""
        policy = followed.policy
        if (late := decisions.late_step(incident, policy)) is not None and incident.kind == DEAD:
            with suppress(Unfinished):  # a job that must wait is raised again if it dies
                await self._run_for_jobs(incident, policy.steps[late], late, give_up=True)
        if (name := decisions.digest_of(incident, policy)) is not None:
            await self._add_to_digest(incident, name, followed.file)

    async def _run_for_jobs(
        self, incident: IncidentRow, step: EscalationStep, place: int, *, give_up: bool
    ) -> str | None:
        """Run a step for the jobs that died after it was in their policy; return why some were left."""
        stored = await self._policies.read()
        return await self._job_steps.run(
            incident,
            step,
            place,
            was_there=lambda died_at: policy_versions.was_there(step, died_at, incident, stored),
            give_up=give_up,
        )

    async def _run_step(self, incident: IncidentRow, followed: FollowedPolicy) -> IncidentRow:
        policy = followed.policy
        step = policy.steps[incident.step]
        retried = any(isinstance(each, RetryStep) for each in policy.steps[: incident.step])
        may_be_mended = retried and not isinstance(step, RetryStep) and incident.kind == DEAD
        if may_be_mended and await self._job_steps.all_mended(incident):
            why = f"mended: all {incident.times} jobs have succeeded when they were requested again"
            return decisions.closed(incident, self._clock.now(), why)
        match step:
            case AlertStep():
                return await self._alert(incident, step, followed)
            case DigestStep():
                await self._add_to_digest(incident, step.into, followed.file)
            case RetryStep() | CompensateStep():
                last = incident.failed_tries + 1 >= decisions.MAX_TRIES
                try:
                    given_up = await self._run_for_jobs(incident, step, incident.step, give_up=last)
                except Unfinished as rest:
                    return decisions.fail_step(incident, policy, self._clock.now(), str(rest))
                return decisions.advance(incident, policy, self._clock.now(), given_up)
            case _:
                pass
        _log_of(incident).info("A step of an incident was done.", action="escalation.step", step=step.do)
        return decisions.advance(incident, policy, self._clock.now())

    async def _alert(self, incident: IncidentRow, step: AlertStep, followed: FollowedPolicy) -> IncidentRow:
        now, declared = self._clock.now(), followed.file.sinks
        names, gone = policy_versions.reachable_sinks(step.to, followed.current, declared)
        if gone:
            _log_of(incident).error(
                "The file no longer has the sink of an alert: the alert goes to other sinks.",
                action="escalation.sink_gone",
                gone=list(gone),
                sinks=list(names),
            )
        left = [name for name in names if name not in incident.delivered]
        alert = alerts.render_alert(incident, step)
        failures = await send_to_sinks(self._send, alert, left, declared, now)
        if not failures:
            return decisions.advance(incident, followed.policy, now)
        trouble = "; ".join(f"{name}: {why}" for name, why in failures.items())
        _log_of(incident).error(
            "A sink did not take an alert.", action="escalation.alert_failed", last_error=trouble
        )
        moved = decisions.fail_step(incident, followed.policy, now, trouble)
        if moved.step != incident.step:
            return moved
        # A repeat leaves out the sinks that have taken the alert.
        return replace(moved, delivered=tuple(name for name in names if name not in failures))

    async def _add_to_digest(self, incident: IncidentRow, name: str, file: Escalation) -> None:
        plan = digest_plan(name, file)
        await self._incidents.raise_incidents([alerts.add_entry(incident, name, plan, self._clock.now())])

    async def _report(self, incident: IncidentRow, file: Escalation) -> IncidentRow:
        """Send a digest with all its entries when its time has come."""
        now = self._clock.now()
        plan = digest_plan(incident.subject, file)
        due = incident.due_at or alerts.next_report(plan, incident.first_seen_at)
        if due > now:
            return decisions.postpone(incident, due)
        entries = await self._incidents.pending(incident.fingerprint, 1, alerts.MAX_LINES)
        if not entries:  # it was sent before a crash
            return decisions.closed(incident, now, "sent")
        fingerprints = set(map(alerts.fingerprint_of_entry, entries))
        found = await self._incidents.incidents(IncidentFilter(fingerprints=fingerprints, closed=True))
        alert = alerts.report(incident, entries, found, due)
        left = [name for name in plan.to if name not in incident.delivered]
        failures = await send_to_sinks(self._send, alert, left, file.sinks, now)
        if failures:
            return decisions.fail_report(incident, now, failures, plan.to, alerts.next_report(plan, now))
        await self._incidents.settle(incident.fingerprint, [entry.occurrence for entry in entries], 1)
        _log_of(incident).info("A digest was sent.", action="escalation.digest", entries=len(entries))
        following = decisions.postpone(incident, alerts.next_report(plan, now))
        return decisions.closed(following, now, "sent")


def _log_of(incident: IncidentRow) -> Log:
    return _log.bind(fingerprint=incident.fingerprint, kind=incident.kind, times=incident.times)
