"""Incidents in memory. Nothing here awaits anything, so each operation is atomic."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import islice

from warrener_store.encoding import decode, encode
from warrener_store.incidents.lifecycle import aggregate_raised, apply_update, unique_raised
from warrener_store.incidents.port import Escalations
from warrener_store.incidents.rows import (
    ALL_STEPS_DONE,
    OPEN_INCIDENTS,
    IncidentChange,
    IncidentFilter,
    IncidentOccurrence,
    IncidentRow,
    PolicyVersionRow,
    RaisedIncident,
)
from warrener_store.retention.rows import Occurrence


class MemoryEscalations(Escalations):
    """Incidents and occurrences in dictionaries."""

    def __init__(self) -> None:
        self._incidents: dict[str, IncidentRow] = {}
        self._entries: dict[str, dict[str, IncidentOccurrence]] = {}
        self._policies: dict[str, PolicyVersionRow] = {}

    @property
    def rows(self) -> Mapping[str, IncidentRow]:
        """All incidents."""
        return self._incidents

    @property
    def policy_versions(self) -> Mapping[str, PolicyVersionRow]:
        """All versions of policies."""
        return self._policies

    def drop_policies(self, versions: Collection[str]) -> None:
        """Delete these versions of policies."""
        for version in versions:
            del self._policies[version]

    def names(self, fingerprint: str, occurrence: str) -> bool:
        """True if the incident is open and this occurrence is not settled."""
        incident, entry = self._incidents.get(fingerprint), self._of(fingerprint).get(occurrence)
        return (
            incident is not None
            and incident.closed_at is None
            and entry is not None
            and entry.steps_done < ALL_STEPS_DONE
        )

    def occurrences(self, fingerprint: str) -> int:
        """The number of stored occurrences of an incident."""
        return len(self._of(fingerprint))

    def drop(self, fingerprints: Collection[str]) -> None:
        """Delete these incidents."""
        for fingerprint in fingerprints:
            del self._incidents[fingerprint]
            self._entries.pop(fingerprint, None)

    def old_occurrences(self, before: datetime, limit: int) -> list[Occurrence]:
        """Occurrences that were raised before then, the oldest first."""
        found = (
            Occurrence(fingerprint, name, entry.subject, entry.raised_at)
            for fingerprint, entries in self._entries.items()
            for name, entry in entries.items()
            if entry.raised_at < before
        )
        return sorted(found, key=lambda one: (one.raised_at, one.key))[:limit]

    def drop_occurrences(self, keys: Collection[tuple[str, str]]) -> int:
        """Delete these; returns how many."""
        return sum(self._entries.get(key[0], {}).pop(key[1], None) is not None for key in set(keys))

    async def raise_incidents(self, raised: Sequence[RaisedIncident]) -> None:
        new = [each for each in unique_raised(raised) if each.occurrence not in self._of(each.fingerprint)]
        for each in new:
            self._of(each.fingerprint)[each.occurrence] = IncidentOccurrence(
                occurrence=each.occurrence, subject=each.subject, raised_at=each.raised_at
            )
        for incident_update in aggregate_raised(new):
            fingerprint = incident_update.last.fingerprint
            row = apply_update(self._incidents.get(fingerprint), incident_update)
            self._incidents[fingerprint] = replace(row, sample=decode(encode(row.sample)))

    async def claim_incidents(
        self, now: datetime, until: datetime, claim: str, limit: int
    ) -> list[IncidentRow]:
        due = sorted(
            (row.wake_at, row.fingerprint)
            for row in self._incidents.values()
            if row.wake_at is not None
            and row.wake_at <= now
            and (row.claimed_until is None or row.claimed_until <= now)
        )
        claimed = [
            replace(self._incidents[fingerprint], claimed_by=claim, claimed_until=until)
            for _, fingerprint in due[:limit]
        ]
        self._incidents.update((row.fingerprint, row) for row in claimed)
        return claimed

    async def save_incident(self, row: IncidentRow) -> bool:
        held = self._incidents.get(row.fingerprint)
        if held is None or held.closed_at is not None or held.claimed_by != row.claimed_by:
            return False
        raised_since = held.times != row.times
        self._incidents[row.fingerprint] = replace(
            held,
            round=row.round,
            policy_version=row.policy_version,
            policy_history=row.policy_history,
            step=row.step,
            due_at=row.due_at,
            failed_tries=row.failed_tries,
            delivered=row.delivered,
            last_error=row.last_error,
            wake_at=held.wake_at if raised_since else row.wake_at,
            claimed_by=None,
            claimed_until=None,
            closed_at=None if raised_since else row.closed_at,
            close_reason=None if raised_since else row.close_reason,
        )
        if row.round > held.round:
            self._settle_back(row.fingerprint)
        self._end_if_closed(row.fingerprint)
        return True

    async def change_incidents(self, changes: Sequence[IncidentChange]) -> set[str]:
        found = [each for each in changes if self._change(each)]
        return {each.fingerprint for each in found}

    def _change(self, change: IncidentChange) -> bool:
        held = self._incidents.get(change.fingerprint)
        if held is None or held.closed_at is not None:
            return False
        closes = change.close_reason is not None
        acknowledges = change.acknowledged_by is not None
        self._incidents[change.fingerprint] = replace(
            held,
            acknowledged_by=change.acknowledged_by or held.acknowledged_by,
            acknowledged_at=change.at if acknowledges else held.acknowledged_at,
            snoozed_until=change.snoozed_until or held.snoozed_until,
            wake_at=None if closes else change.at,
            closed_at=change.at if closes else None,
            close_reason=change.close_reason,
        )
        self._end_if_closed(change.fingerprint)
        return True

    async def pending(self, fingerprint: str, below: int, limit: int) -> list[IncidentOccurrence]:
        waiting = [entry for entry in self._of(fingerprint).values() if entry.steps_done < below]
        return sorted(waiting, key=lambda entry: (entry.raised_at, entry.occurrence))[:limit]

    async def settle(self, fingerprint: str, occurrences: Collection[str], done: int) -> None:
        entries = self._of(fingerprint)
        for occurrence in occurrences:
            if occurrence in entries and entries[occurrence].steps_done < done:
                entries[occurrence] = replace(entries[occurrence], steps_done=done)

    async def put_policies(self, versions: Sequence[PolicyVersionRow]) -> None:
        for row in versions:
            held = self._policies.get(row.version, row)
            self._policies[row.version] = replace(
                held,
                first_seen_at=min(held.first_seen_at, row.first_seen_at),
                last_seen_at=max(held.last_seen_at, row.last_seen_at),
                definition=decode(encode(held.definition)),
            )

    async def policies(self) -> list[PolicyVersionRow]:
        return sorted(self._policies.values(), key=lambda row: (row.first_seen_at, row.version))

    async def incidents(self, which: IncidentFilter = OPEN_INCIDENTS) -> list[IncidentRow]:
        named = self._incidents.keys() if which.fingerprints is None else set(which.fingerprints)
        chosen = [
            row
            for fingerprint, row in self._incidents.items()
            if fingerprint in named and (which.closed or row.closed_at is None)
        ]
        newest = sorted(chosen, key=lambda row: (row.last_seen_at, row.fingerprint), reverse=True)
        if which.fingerprints is not None:
            return newest
        after = which.after
        behind = (row for row in newest if after is None or (row.last_seen_at, row.fingerprint) < after)
        return list(islice(behind, which.limit))

    def _of(self, fingerprint: str) -> dict[str, IncidentOccurrence]:
        return self._entries.setdefault(fingerprint, {})

    def _settle_back(self, fingerprint: str) -> None:
        self._entries[fingerprint] = {
            name: entry if entry.steps_done >= ALL_STEPS_DONE else replace(entry, steps_done=0)
            for name, entry in self._of(fingerprint).items()
        }

    def _end_if_closed(self, fingerprint: str) -> None:
        if self._incidents[fingerprint].closed_at is not None:
            self._entries[fingerprint] = {
                name: replace(entry, steps_done=ALL_STEPS_DONE)
                for name, entry in self._of(fingerprint).items()
            }
