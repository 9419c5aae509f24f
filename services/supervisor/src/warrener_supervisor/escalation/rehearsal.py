"""A ladder played through without broker, database or anybody being told: the real runner on virtual time.

`warrener escalation test` shows what comes of it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from heapq import heappop, heappush
from typing import Any
from uuid import NAMESPACE_OID, uuid5

from warrener_contracts.codec import DecodedEvent, decode
from warrener_contracts.events import ErrorInfo, ErrorKind, JobRequested, JsonObject
from warrener_contracts.messages import Message
from warrener_contracts.policy import Guarantee, JobPolicy
from warrener_contracts.states import JobState
from warrener_runtime.clock import SystemEntropy
from warrener_runtime.virtual_clock import VirtualClock
from warrener_store.escalations import CaseChange, CaseRow
from warrener_store.memory import MemoryStore
from warrener_store.rows import JobRow
from warrener_supervisor.escalation.alerts import Alert
from warrener_supervisor.escalation.deciding import Wait, decide
from warrener_supervisor.escalation.digests import KIND as DIGEST
from warrener_supervisor.escalation.intake import Intake
from warrener_supervisor.escalation.matching import ladder_of
from warrener_supervisor.escalation.model import DEAD, Escalation, Sink
from warrener_supervisor.escalation.runner import Runner
from warrener_supervisor.escalation.sinks.port import AlertSink
from warrener_supervisor.escalation.sinks.rack import Rack


@dataclass(frozen=True, slots=True)
class Scene:
    """The trouble that is played."""

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
class Happening:
    """One line of what comes of it."""

    at: datetime
    what: str
    about: str
    detail: Any = None


class _Told:
    """A sink that only notes what it is told."""

    def __init__(self, name: str, told: list[Happening]) -> None:
        self._name = name
        self._told = told

    async def send(self, alert: Alert, now: datetime) -> None:
        about = f"to {self._name}: {alert.title}"
        self._told.append(Happening(now, "digest" if "digest" in alert.facts else "alert", about, alert.text))


class Rehearsal:
    """Plays one scene."""

    def __init__(self, file: Escalation, scene: Scene) -> None:
        self._file = file
        self._scene = scene
        self._told: list[Happening] = []
        self._clock = VirtualClock(scene.at)
        self._store = MemoryStore()
        self._cases = self._store.escalations
        self._intake = Intake(self._cases, self._clock)
        self._runner = Runner(
            self._store,
            self._ask,
            lambda: file,
            rack=Rack(self._sink),
            clock=self._clock,
            entropy=SystemEntropy(),
        )

    async def play(self) -> Sequence[Happening]:
        """Everything that happens, in its order."""
        script = list(self._script())
        end = self._scene.at + self._scene.lasts
        while (moment := await self._next(script)) is not None and moment <= end:
            await self._clock.advance((moment - self._clock.now()).total_seconds())
            while script and script[0][0] <= moment:
                await self._act(heappop(script)[2])
            before = {row.fingerprint: row for row in await self._cases.cases(closed=True)}
            await self._runner.look()
            for row in await self._cases.cases(closed=True):
                self._note(before.get(row.fingerprint), row)
        self._told.append(Happening(self._clock.now(), "end", await self._end()))
        return self._told

    def _script(self) -> Iterator[tuple[datetime, int, int | None]]:
        """What befalls us: times that it is raised, by number, and None for the acknowledgement."""
        scene, script = self._scene, list[tuple[datetime, int, int | None]]()
        for number in range(scene.times):
            heappush(script, (scene.at + number * scene.every, number, number))
        if scene.acknowledged_after is not None:
            heappush(script, (scene.at + scene.acknowledged_after, scene.times, None))
        return iter(script)

    async def _next(self, script: Sequence[tuple[datetime, int, int | None]]) -> datetime | None:
        now = self._clock.now()
        wakes = [max(row.wake_at, now) for row in await self._cases.cases() if row.wake_at is not None]
        return min([*wakes, *(moment for moment, _, _ in script[:1])], default=None)

    async def _act(self, number: int | None) -> None:
        now = self._clock.now()
        if number is None:
            names = [row.fingerprint for row in await self._cases.cases() if row.kind != DIGEST]
            await self._cases.change_cases(
                [CaseChange(fingerprint=name, at=now, acknowledged_by="you") for name in names]
            )
            self._told.append(Happening(now, "acknowledged", "by you"))
            return
        about = self._scene.job_type if self._scene.kind == DEAD else "the subject"
        self._told.append(Happening(now, "raised", f"{self._scene.kind} {about}"))
        if self._scene.kind == DEAD:
            job = _dead_job(self._scene, number, now)
            await self._store.insert_jobs([job])
            await self._intake.bury([job])
        else:
            await self._intake.raise_case(self._scene.kind, about, f"{self._scene.kind}:{about}", {})

    def _note(self, before: CaseRow | None, after: CaseRow) -> None:
        now = self._clock.now()
        if after.kind == DIGEST:
            return
        if after.closed_at is not None:
            if before is None or before.closed_at is None:
                self._told.append(Happening(now, "closed", after.closed_why or ""))
            return
        ladder = ladder_of(after, self._file)
        wait = decide(after, ladder, self._file.quiet.get(ladder.quiet or "", ()), now)
        if isinstance(wait, Wait) and wait.why == "quiet hours" and wait.until is not None:
            self._told.append(Happening(now, "held back", f"by quiet hours until {wait.until.isoformat()}"))

    async def _end(self) -> str:
        states = [row for row in await self._cases.cases() if row.kind != DIGEST]
        return "the case stays open until somebody closes it" if states else "the case is closed"

    async def _ask(self, letters: Sequence[Message]) -> None:
        for letter in letters:
            for found in decode(letter.body, letter.content_type):
                if isinstance(found, DecodedEvent) and isinstance(found.event, JobRequested):
                    what = found.event.source.rpartition("/")[2]
                    about = f"asks for {found.event.data.job_type}"
                    self._told.append(Happening(self._clock.now(), what, about, found.event.data.arguments))

    def _sink(self, name: str, declared: Sink) -> AlertSink:
        del declared
        return _Told(name, self._told)


def merged(happenings: Sequence[Happening]) -> list[tuple[Happening, int]]:
    """The same thing several times in a row as one line, with how often."""
    lines: list[tuple[Happening, int]] = []
    for each in happenings:
        last = lines[-1] if lines else None
        if last and (last[0].what, last[0].about, last[0].detail) == (each.what, each.about, each.detail):
            lines[-1] = (last[0], last[1] + 1)
        else:
            lines.append((each, 1))
    return lines


def _dead_job(scene: Scene, number: int, now: datetime) -> JobRow:
    return JobRow(
        job_id=uuid5(NAMESPACE_OID, f"rehearsal {number}"),
        job_type=scene.job_type,
        queue="default",
        arguments=scene.arguments,
        guarantee=Guarantee.IDEMPOTENT,
        policy=JobPolicy(),
        source="rehearsal",
        requested_at=scene.at,
        accepted_at=scene.at,
        state=JobState.DEAD,
        attempt=5,
        failures=5,
        finished_at=now,
        error=ErrorInfo(kind=ErrorKind.ERROR, type=scene.error, message="as it might be said"),
        updated_at=now,
    )
