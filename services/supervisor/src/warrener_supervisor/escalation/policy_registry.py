"""Store the versions of the file's policies, and read those that open incidents follow."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from pydantic import ValidationError

from warrener_runtime.clock import Clock
from warrener_runtime.logs import get_logger
from warrener_store.errors import StoreRefused
from warrener_store.incidents.rows import IncidentChange, IncidentFilter
from warrener_store.incidents.store import Escalations
from warrener_supervisor.escalation import policy_versions
from warrener_supervisor.escalation.policy import Escalation

_log = get_logger("escalation")

_REFRESH = timedelta(minutes=10)
"""Interval at which a version in the file is marked as seen, so that retention does not delete it."""
_MAX_INCIDENTS = 10_000
_NAMED = 20  # incidents in a log line


class PolicyRegistry:
    """Knows the policies in the file and in the store. A version is stored before any incident follows it."""

    def __init__(self, incidents: Escalations, policies: Callable[[], Escalation], clock: Clock) -> None:
        self._incidents, self._policies, self._clock = incidents, policies, clock
        self._loaded: policy_versions.LoadedEscalation | None = None
        self._stored: Mapping[str, policy_versions.StoredPolicy] = {}
        self._seen_at: datetime | None = None

    async def load(self) -> policy_versions.LoadedEscalation:
        """Return the contents of the file, after storing the policies that are new in it."""
        file, now = self._policies(), self._clock.now()
        loaded = self._loaded
        # The sinks of the file may differ.
        if loaded is None or (loaded.file.policies, loaded.file.quiet) != (file.policies, file.quiet):
            loaded = policy_versions.LoadedEscalation.of(file, now)
            await self._put(loaded, now)
            await self._announce(loaded, now)
        elif self._seen_at is None or abs(now - self._seen_at) >= _REFRESH:
            await self._put(loaded, now)
        self._loaded = replace(loaded, file=file)
        return self._loaded

    async def stored(self, version: str) -> policy_versions.StoredPolicy | None:
        """Return a version, which another supervisor may have stored; None if it is not there."""
        if version not in self._stored:
            await self.read()
        return self._stored.get(version)

    async def read(self) -> Mapping[str, policy_versions.StoredPolicy]:
        """Read all stored versions."""
        found: dict[str, policy_versions.StoredPolicy] = {}
        for row in await self._incidents.policies():
            try:
                found[row.version] = policy_versions.stored_policy(row)
            except ValidationError:
                _log.exception(
                    "A stored policy cannot be read, which is a bug unless a later Warrener stored it.",
                    action="escalation.unreadable_policy",
                    policy=row.name,
                    version=row.version,
                )
        self._stored = found
        return found

    async def _put(self, loaded: policy_versions.LoadedEscalation, now: datetime) -> None:
        try:
            await self._incidents.put_policies(
                [policy_versions.version_row(version, now) for version in loaded.versions]
            )
        except StoreRefused:
            _log.exception(
                "Policies could not be stored, which is a bug: their incidents restart with the supervisor.",
                action="escalation.refused",
                policies=[version.label for version in loaded.versions],
            )
        await self.read()
        self._seen_at = now

    async def _announce(self, loaded: policy_versions.LoadedEscalation, now: datetime) -> None:
        """Log the effect of the file on the open incidents, and wake those that restart."""
        affected: dict[policy_versions.PolicyChange, list[str]] = {}
        for row in await self._incidents.incidents(IncidentFilter(limit=_MAX_INCIDENTS)):
            readable = row.policy_version in self._stored
            change = policy_versions.change_for(row, loaded.current(row), loaded.loaded_at, readable=readable)
            affected.setdefault(change, []).append(row.fingerprint)
        if continuing := affected.get(policy_versions.PolicyChange.CONTINUES):
            _log.info(
                "Open incidents go on by the policies with which they began; the file has other ones now.",
                action="escalation.continued",
                incidents=len(continuing),
                fingerprints=continuing[:_NAMED],
            )
        if restarting := affected.get(policy_versions.PolicyChange.RESTARTS):
            _log.info(
                "Open incidents restart by the policies in the file.",
                action="escalation.restarting",
                incidents=len(restarting),
                fingerprints=restarting[:_NAMED],
            )
            await self._incidents.change_incidents(
                [IncidentChange(fingerprint=name, at=now) for name in restarting]
            )
