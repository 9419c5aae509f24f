"""Versions of policies: the one that an incident follows after an edit of the file, and the jobs of a step.

A version is a digest of a policy's definition, so every supervisor computes the same one. Pure.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum, auto
from hashlib import sha256
from itertools import zip_longest
from typing import Any, NamedTuple

from warrener_store.incidents.rows import IncidentRow, PolicyAdoption, PolicyHistory, PolicyVersionRow
from warrener_supervisor.escalation.decisions import matches
from warrener_supervisor.escalation.policy import (
    DEFAULT_ESCALATION_POLICY,
    LOG,
    AlertStep,
    CompensateStep,
    Escalation,
    EscalationPolicy,
    EscalationStep,
    PolicyDefinition,
    QuietPeriod,
    RetryStep,
)

_DIGITS = 12
_MAX_ADOPTIONS = 20
_NOT_IN_DIGEST: Any = {"policy": {"name", "on_change"}}
"""A renamed policy is the same policy, and `on_change` says nothing about the steps."""


@dataclass(frozen=True, slots=True)
class PolicyVersion:
    """A policy with its quiet hours, and the digest of both."""

    version: str
    definition: PolicyDefinition

    @property
    def policy(self) -> EscalationPolicy:
        return self.definition.policy

    @property
    def quiet(self) -> tuple[QuietPeriod, ...]:
        return self.definition.quiet

    @property
    def label(self) -> str:
        """The name and the version, for people."""
        return f"{self.policy.name}@{self.version}"


class StoredPolicy(NamedTuple):
    """A version, and the time at which any supervisor saw the version first."""

    version: PolicyVersion
    first_seen_at: datetime


@dataclass(frozen=True, slots=True)
class LoadedEscalation:
    """The contents of the file, and the time at which this supervisor read these policies."""

    file: Escalation
    loaded_at: datetime
    versions: tuple[PolicyVersion, ...]
    """Those of all policies in the file, and of the default one, which matches every incident."""

    @classmethod
    def of(cls, file: Escalation, now: datetime) -> "LoadedEscalation":
        """Compute the versions of the policies in a file that was read at `now`."""
        policies = (*file.policies, DEFAULT_ESCALATION_POLICY)
        return cls(file, now, tuple(version_of(policy, file) for policy in policies))

    def current(self, incident: IncidentRow) -> PolicyVersion:
        """Return the version by which the incident would begin now."""
        return next(version for version in self.versions if matches(version.policy, incident))


class PolicyChange(Enum):
    """The effect of the present file on an incident."""

    BEGINS = auto()  # no supervisor has looked at the incident
    SAME = auto()
    CONTINUES = auto()  # by the version with which it began
    RESTARTS = auto()  # by the version in the file


def version_of(policy: EscalationPolicy, file: Escalation) -> PolicyVersion:
    """Return the version of a policy of this file."""
    definition = PolicyDefinition(policy=policy, quiet=file.quiet.get(policy.quiet or "", ()))
    # Without defaults: a key that a later Warrener adds changes no version of a policy that does not use it.
    content = definition.model_dump(mode="json", by_alias=True, exclude_defaults=True, exclude=_NOT_IN_DIGEST)
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return PolicyVersion(sha256(text.encode()).hexdigest()[:_DIGITS], definition)


DEFAULT_VERSION = version_of(DEFAULT_ESCALATION_POLICY, Escalation()).version


def version_row(version: PolicyVersion, now: datetime) -> PolicyVersionRow:
    """Return the row that stores a version which is in the file at `now`."""
    return PolicyVersionRow(
        version=version.version,
        name=version.policy.name,
        definition=version.definition.model_dump(mode="json", by_alias=True),
        first_seen_at=now,
        last_seen_at=now,
    )


def stored_policy(row: PolicyVersionRow) -> StoredPolicy:
    """Read a stored version. Raises ValidationError if a later Warrener stored what this one cannot read."""
    definition = PolicyDefinition.model_validate(row.definition)
    return StoredPolicy(PolicyVersion(row.version, definition), row.first_seen_at)


def change_for(
    incident: IncidentRow, current: PolicyVersion, loaded_at: datetime, *, readable: bool
) -> PolicyChange:
    """Decide which policy the incident follows. `readable`: the version that it follows is in the store.

    A supervisor restarts an incident once for each time it reads the file, so supervisors with different
    files do not restart it in turns. The default policy restarts nothing, and whatever began without a
    policy restarts by the first one that matches.
    """
    if incident.policy_version is None:
        return PolicyChange.BEGINS
    if incident.policy_version == current.version:
        return PolicyChange.SAME
    if not readable:
        return PolicyChange.RESTARTS
    if current.version == DEFAULT_VERSION or loaded_at <= _following_since(incident):
        return PolicyChange.CONTINUES
    if incident.policy_version == DEFAULT_VERSION or current.policy.on_change == "restart":
        return PolicyChange.RESTARTS
    return PolicyChange.CONTINUES


def _following_since(incident: IncidentRow) -> datetime:
    adoptions = _adoptions(incident)
    return adoptions[-1].since if adoptions else incident.first_seen_at


def _adoptions(incident: IncidentRow) -> tuple[PolicyAdoption, ...]:
    return incident.policy_history.adoptions if incident.policy_history else ()


def restart(incident: IncidentRow, current: StoredPolicy, loaded_at: datetime, now: datetime) -> IncidentRow:
    """Restart the incident at the first step of another policy.

    The round grows, so that no receiver takes the alerts for repeats of earlier ones. An acknowledgement and
    a snooze stay: both are about the incident, and not about the policy.
    """
    due = now + current.version.policy.steps[0].after
    before = _following_since(incident)
    since = current.first_seen_at if current.first_seen_at > before else loaded_at
    return replace(
        adopt(incident, current.version, since),
        round=incident.round + 1,
        step=0,
        due_at=due,
        wake_at=due,
        failed_tries=0,
        delivered=(),
        last_error=None,
    )


def adopt(incident: IncidentRow, version: PolicyVersion, since: datetime) -> IncidentRow:
    """Let the incident follow this version from `since` on."""
    adoption = PolicyAdoption(name=version.policy.name, version=version.version, since=since)
    adoptions = (*_adoptions(incident), adoption)[-_MAX_ADOPTIONS:]
    history = PolicyHistory(adoptions=adoptions)
    return replace(incident, policy_version=version.version, policy_history=history)


def action_of(step: EscalationStep) -> str | None:
    """Return the action of a step on each job, by which two steps are the same; None if there is none.

    Corrected arguments are the same compensation: its job has the same id.
    """
    if isinstance(step, CompensateStep):
        return f"compensate {step.job_type}"
    return step.do if isinstance(step, RetryStep) else None


def was_there(
    step: EscalationStep, died_at: datetime, incident: IncidentRow, stored: Mapping[str, StoredPolicy]
) -> bool:
    """True if the policy had the action of this step when the job died.

    The incident's own history decides. If its first policy was not there yet, because the file changed
    between the death and the first look at the incident, the stored versions of matching policies decide.
    """
    action = action_of(step)
    adoptions = _adoptions(incident)
    for adoption, following in zip_longest(adoptions, adoptions[1:]):
        if adoption.since <= died_at and (following is None or died_at < following.since):
            found = stored.get(adoption.version)
            return found is not None and _has(found.version.policy, action)
    first = stored.get(adoptions[0].version) if adoptions else None
    if first is not None and first.first_seen_at <= died_at:
        return _has(first.version.policy, action)
    return any(
        found.first_seen_at <= died_at
        and _has(found.version.policy, action)
        and matches(found.version.policy, incident)
        for found in stored.values()
    )


def _has(policy: EscalationPolicy, action: str | None) -> bool:
    return any(action_of(step) == action for step in policy.steps)


def reachable_sinks(
    names: Iterable[str], current: EscalationPolicy, declared: Mapping[str, object]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the sinks for an alert, and those of `names` that the file no longer declares.

    The alerts of an undeclared sink go to the sinks of the policy that matches now, or to the log.
    """
    wanted = list(names)
    gone = tuple(name for name in wanted if name != LOG and name not in declared)
    if not gone:
        return tuple(wanted), ()
    steps = (step for step in current.steps if isinstance(step, AlertStep))
    instead = [name for step in steps for name in step.to] or [LOG]
    left = [name for name in wanted if name not in gone]
    return tuple(dict.fromkeys([*left, *instead])), gone
