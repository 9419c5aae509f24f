"""Play a policy offline: the real runner on virtual time, with a store in memory and sinks that record.

`warrener escalation test` shows the timeline.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from heapq import heappop, heappush
from typing import Any
from uuid import NAMESPACE_OID, uuid5

from warrener_contracts.codec import DecodedEvent, decode
from warrener_contracts.events import ErrorInfo, ErrorKind, JobRequested, JsonObject
from warrener_contracts.messages import Message
from warrener_contracts.policy import Guarantee, JobPolicy
from warrener_contracts.state_machine import JobState
from warrener_runtime.clock import SystemEntropy
from warrener_runtime.virtual_clock import VirtualClock
from warrener_store.incidents.rows import IncidentChange, IncidentFilter, IncidentRow
from warrener_store.jobs.rows import JobRow
from warrener_store.memory import MemoryStore
from warrener_supervisor.escalation.alerts import KIND as DIGEST
from warrener_supervisor.escalation.alerts import AlertMessage
from warrener_supervisor.escalation.decisions import WaitUntil, decide
from warrener_supervisor.escalation.incident_reporter import IncidentReporter
from warrener_supervisor.escalation.policy import DEAD, Escalation, SinkConfig
from warrener_supervisor.escalation.policy_versions import LoadedEscalation
from warrener_supervisor.escalation.runner import EscalationRunner

_WITH_CLOSED = IncidentFilter(closed=True)


@dataclass(frozen=True, slots=True)
class Scenario:
    """The incident to play."""

    at: datetime
    kind: str = DEAD
    job_type: str = "example.job"
    error: str = "builtins.RuntimeError"
    arguments: JsonObject = field(default_factory=dict[str, Any])
    times: int = 1
    every: timedelta = timedelta(0)
    acknowledged_after: timedelta | None = None
    lasts: timedelta = timedelta(days=14)


@dataclass(frozen=True, slots=True)
class TimelineEntry:
    """One line of the timeline."""

    at: datetime
    what: str
    about: str
    detail: Any = None


class EscalationSimulation:
    """Plays one scenario."""

    def __init__(self, file: Escalation, scenario: Scenario) -> None:
        self._loaded = LoadedEscalation.of(file, scenario.at)
        self._scenario = scenario
        self._timeline: list[TimelineEntry] = []
        self._clock = VirtualClock(scenario.at)
        self._store = MemoryStore()
        self._incidents = self._store.escalations
        self._reporter = IncidentReporter(self._incidents, self._clock)
        self._runner = EscalationRunner(
            self._store,
            self._publish,
            lambda: file,
            clock=self._clock,
            entropy=SystemEntropy(),
            send=self._record_alert,
        )

    async def play(self) -> Sequence[TimelineEntry]:
        """Return everything that happens, in order."""
        await self._runner.load_policies()
        script = self._script()
        end = self._scenario.at + self._scenario.lasts
        while (moment := await self._next(script)) is not None and moment <= end:
            await self._clock.advance((moment - self._clock.now()).total_seconds())
            while script and script[0][0] <= moment:
                await self._act(heappop(script)[2])
            before = {row.fingerprint: row for row in await self._incidents.incidents(_WITH_CLOSED)}
            await self._runner.run_once()
            for row in await self._incidents.incidents(_WITH_CLOSED):
                self._note(before.get(row.fingerprint), row)
        is_open = any(row.kind != DIGEST for row in await self._incidents.incidents())
        about = "the incident stays open until somebody closes it" if is_open else "the incident is closed"
        self._timeline.append(TimelineEntry(self._clock.now(), "end", about))
        return self._timeline

    def _script(self) -> list[tuple[datetime, int, int | None]]:
        """Return the script as a heap: occurrences by number, and None for the acknowledgement."""
        scenario, script = self._scenario, list[tuple[datetime, int, int | None]]()
        for number in range(scenario.times):
            heappush(script, (scenario.at + number * scenario.every, number, number))
        if scenario.acknowledged_after is not None:
            heappush(script, (scenario.at + scenario.acknowledged_after, scenario.times, None))
        return script

    async def _next(self, script: Sequence[tuple[datetime, int, int | None]]) -> datetime | None:
        now = self._clock.now()
        wakes = [
            max(row.wake_at, now) for row in await self._incidents.incidents() if row.wake_at is not None
        ]
        return min([*wakes, *(moment for moment, _, _ in script[:1])], default=None)

    async def _act(self, number: int | None) -> None:
        now, kind = self._clock.now(), self._scenario.kind
        if number is None:
            names = [row.fingerprint for row in await self._incidents.incidents() if row.kind != DIGEST]
            await self._incidents.change_incidents(
                [IncidentChange(fingerprint=name, at=now, acknowledged_by="you") for name in names]
            )
            self._timeline.append(TimelineEntry(now, "acknowledged", "by you"))
            return
        about = self._scenario.job_type if kind == DEAD else "the subject"
        self._timeline.append(TimelineEntry(now, "raised", f"{kind} {about}"))
        if kind == DEAD:
            job = _dead_job(self._scenario, number, now)
            await self._store.insert_jobs([job])
            await self._reporter.raise_dead_jobs([job])
        else:
            await self._reporter.raise_incident(kind, about, f"{kind}:{about}", {})

    def _note(self, before: IncidentRow | None, after: IncidentRow) -> None:
        now = self._clock.now()
        if after.kind == DIGEST:
            return
        if after.closed_at is not None:
            if before is None or before.closed_at is None:
                self._timeline.append(TimelineEntry(now, "closed", after.close_reason or ""))
            return
        version = self._loaded.current(after)
        wait = decide(after, version.policy, version.quiet, now)
        if isinstance(wait, WaitUntil) and wait.why == "quiet hours" and wait.until is not None:
            about = f"by quiet hours until {wait.until.isoformat()}"
            self._timeline.append(TimelineEntry(now, "held back", about))

    async def _publish(self, messages: Sequence[Message]) -> None:
        for message in messages:
            for found in decode(message.body, message.content_type):
                if isinstance(found, DecodedEvent) and isinstance(found.event, JobRequested):
                    what, data = found.event.source.rpartition("/")[2], found.event.data
                    about = f"requests {data.job_type}"
                    self._timeline.append(TimelineEntry(self._clock.now(), what, about, data.arguments))

    async def _record_alert(
        self, name: str, declared: SinkConfig, alert: AlertMessage, now: datetime
    ) -> None:
        del declared
        what = "digest" if "digest" in alert.facts else "alert"
        self._timeline.append(TimelineEntry(now, what, f"to {name}: {alert.title}", alert.text))


def merge_repeats(timeline: Sequence[TimelineEntry]) -> list[tuple[TimelineEntry, int]]:
    """Join equal neighbours into one line, with their number."""
    lines: list[tuple[TimelineEntry, int]] = []
    for each in timeline:
        last = lines[-1] if lines else None
        if last and (last[0].what, last[0].about, last[0].detail) == (each.what, each.about, each.detail):
            lines[-1] = (last[0], last[1] + 1)
        else:
            lines.append((each, 1))
    return lines


def _dead_job(scenario: Scenario, number: int, now: datetime) -> JobRow:
    return JobRow(
        job_id=uuid5(NAMESPACE_OID, f"rehearsal {number}"),
        job_type=scenario.job_type,
        queue="default",
        arguments=scenario.arguments,
        guarantee=Guarantee.IDEMPOTENT,
        policy=JobPolicy(),
        source="rehearsal",
        requested_at=scenario.at,
        accepted_at=scenario.at,
        state=JobState.DEAD,
        attempt=5,
        failures=5,
        finished_at=now,
        error=ErrorInfo(kind=ErrorKind.ERROR, type=scenario.error, message="an example of a message"),
        updated_at=now,
    )
