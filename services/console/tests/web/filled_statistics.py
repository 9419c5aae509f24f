"""Statistics of a week: a job type that fails since a deploy, and others that go well."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from math import pi, sin
from random import Random
from uuid import UUID

from warrener_contracts.events import ErrorInfo, ErrorKind
from warrener_contracts.identity import schedule_source
from warrener_contracts.state_machine import JobState
from warrener_store import Store
from warrener_store.statistics.rollup import KnownNames, add_to_stored, roll_up
from warrener_store.statistics.rows import Deploy, EndedJob, RollupPosition

from .filled_rooms import HOSTILE
from .stored_jobs import put_dead

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
DEPLOYED, BEGAN = 52 * MINUTE, 40 * MINUTE
KEY_ERROR = "4be0a1c2d3e4"
TYPES = (  # name, jobs an hour, seconds of a job, share that dies, fingerprint and error of the deaths
    ("flights.load", 220.0, 1.4, 0.004, "11aa22bb33cc", "TimeoutError"),
    ("mail.send", 340.0, 0.12, 0.002, "77dd88ee99ff", "SMTPServerDisconnected"),
    ("reports.make", 60.0, 18.0, 0.012, "0a0b0c0d0e0f", "OutOfMemory"),
    ("fares.fetch", 120.0, 0.7, 0.0, "", ""),
    ("ledger.close", 6.0, 94.0, 0.0, "", ""),
)


class StatisticsFiller:
    """Fills the statistics of a store; the same for the same moment. `density`: a share of the jobs."""

    def __init__(self, store: Store, now: datetime, *, density: float = 1.0) -> None:
        self.store, self.now, self.density = store, now, density
        self._random = Random(11)

    async def fill(self) -> None:
        """Fill buckets, deploys and the dead letters of the new cause."""
        jobs = sorted(self._jobs(), key=lambda job: job.finished_at)
        increments = roll_up(jobs, self._version_of, KnownNames(), self.now)
        buckets, causes = add_to_stored(increments, (), ())
        position = RollupPosition(
            revision=1, finished_at=self.now - MINUTE, job_id=UUID(int=0), complete_until=self.now - MINUTE
        )
        assert await self.store.statistics.add_statistics(position, buckets, causes)
        await self.store.statistics.put_deploys(list(self._deploys()))
        await self._bury()

    def _jobs(self) -> Iterator[EndedJob]:
        for name, rate, seconds, dying, fingerprint, error in TYPES:
            at = self.now - 7 * DAY
            while at < self.now - MINUTE:
                day = 1 + 0.6 * sin(2 * pi * (at.timestamp() % 86_400) / 86_400)
                at += timedelta(seconds=self._random.expovariate(rate * self.density * day / 3600))
                yield self._job(name, min(at, self.now - MINUTE), seconds, dying, (fingerprint, error))

    def _job(self, name: str, at: datetime, seconds: float, dying: float, death: tuple[str, str]) -> EndedJob:
        chance, spread = self._random.random(), self._random.lognormvariate(0, 0.35)
        fails = name == "flights.load" and at >= self.now - BEGAN
        if fails and chance < 0.31:
            death = (KEY_ERROR, "KeyError")
        is_dead = chance < (0.31 if fails else dying)
        if name == "flights.load" and at >= self.now - DEPLOYED:
            spread *= 1.8
        started = at - timedelta(seconds=seconds * spread)
        return EndedJob(
            job_id=UUID(int=self._random.getrandbits(128)),
            job_type=name,
            state=JobState.DEAD if is_dead else JobState.CANCELLED if chance > 0.998 else JobState.SUCCEEDED,
            source=schedule_source("flights.hourly") if name == "flights.load" else "shop",
            agent_id="loader-1",
            failures=3 if is_dead else 1 if chance > 0.97 else 0,
            losses=1 if 0.5 < chance < 0.501 else 0,
            dispatched_at=started - timedelta(seconds=0.02 * spread + (4 if fails else 0)),
            started_at=started,
            ran_until=at,
            finished_at=at,
            fingerprint=death[0] if is_dead else "",
            error_type=death[1] if is_dead else "",
            message=f"'origin' {HOSTILE}" if is_dead else "",
        )

    def _version_of(self, agent_id: str | None, moment: datetime) -> str:
        del agent_id
        if moment >= self.now - DEPLOYED:
            return "1.4.2"
        return "1.4.1" if moment >= self.now - 3 * DAY else "1.4.0"

    def _deploys(self) -> Iterator[Deploy]:
        since = {"1.4.0": 20 * DAY, "1.4.1": 3 * DAY, "1.4.2": DEPLOYED}
        for name, *_ in TYPES:
            for version, ago in since.items():
                yield Deploy(
                    job_type=name,
                    first_seen_at=self.now - ago,
                    code_version=version,
                    last_seen_at=self.now,
                    schema_hash="new" if version == "1.4.2" and name == "flights.load" else "old",
                )

    async def _bury(self) -> None:
        """Store the first dead letters of the new cause."""
        error = ErrorInfo(kind=ErrorKind.ERROR, type="KeyError", message=f"'origin' {HOSTILE}")
        for number in range(12):
            seconds = (BEGAN - timedelta(seconds=20 + 90 * number)).total_seconds()
            await put_dead(self.store, seconds, fingerprint=KEY_ERROR, error=error)
