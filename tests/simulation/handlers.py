"""What the agents of a simulation can run, and what was seen of it running."""

from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from random import Random
from uuid import UUID

from warrener_agent import Agent, Backoff, Cancel, Fail, JobContext, Limit, RetryAfter, Snooze
from warrener_runtime.clock import Clock

_current: ContextVar["Workshop"] = ContextVar("workshop")
agent = Agent()
"""Serves every simulation: to read twelve signatures again for each takes a tenth of its time."""
next_release = Agent()
"""Has the job type that `agent` does not know."""


class Workshop:
    """Handlers on virtual time. Each run is noted from its first to its last moment (invariants I3, I13).

    The handlers work in the workshop that was made last by the task that began them, or by its parents.
    """

    def __init__(self, clock: Clock, dice: Random) -> None:
        self._clock, self.dice = clock, dice
        self._running: set[tuple[UUID, int]] = set()
        self._failed: Counter[UUID] = Counter()
        self.runs: Counter[UUID] = Counter()
        self.overlaps: list[tuple[UUID, int]] = []
        self.rivals: list[tuple[UUID, set[int]]] = []
        self.ended_at: Callable[[UUID], datetime | None] = lambda _: None
        self.till: list[str] = []
        """What handlers have done outside of the ledger's transactions."""
        self.late: dict[tuple[UUID, int], float] = {}
        """The seconds after its job's end at which a handler has begun."""
        self.busy: dict[str, Counter[UUID]] = {}
        """The jobs that run, by tenant."""
        self.busiest: Counter[str] = Counter()
        """The most that ever ran at once, by tenant."""
        _current.set(self)

    def fails_again(self, job_id: UUID, failures: int) -> bool:
        """Count a failure of the job, until there are so many."""
        again = self._failed[job_id] < failures
        self._failed[job_id] += again
        return again

    @contextmanager
    def working_for(self, tenant: str, job_id: UUID) -> Generator[None]:
        """Note that a job of a tenant runs."""
        busy = self.busy.setdefault(tenant, Counter())
        busy[job_id] += 1
        self.busiest[tenant] = max(self.busiest[tenant], len(+busy))
        try:
            yield
        finally:
            busy[job_id] -= 1

    async def work(self, job: JobContext, seconds: float, result: int) -> int:
        """Work for so long, and write an effect."""
        me = (job.job_id, job.attempt)
        if me in self._running:
            self.overlaps.append(me)
        if others := {attempt for job_id, attempt in self._running if job_id == job.job_id} - {job.attempt}:
            self.rivals.append((job.job_id, others | {job.attempt}))
        if (ended_at := self.ended_at(job.job_id)) is not None:
            self.late[me] = (self._clock.now() - ended_at).total_seconds()
        self._running.add(me)
        self.runs[job.job_id] += 1
        try:
            transaction = await job.transaction()
            await transaction.execute("effect")
            await self._clock.sleep(seconds)
            return result
        finally:
            self._running.discard(me)


def shop() -> Workshop:
    return _current.get()


@agent.job("quick", start_timeout="60s", dispatch_batch=4)
async def quick(job: JobContext, number: int) -> int:
    return await shop().work(job, 0.0, number)


@agent.job("slow", start_timeout="60s", timeout="120s")
async def slow(job: JobContext, seconds: float) -> int:
    return await shop().work(job, seconds, 1)


@agent.job("flaky", max_attempts=10, start_timeout="60s", dispatch_batch=3)
async def flaky(job: JobContext, failures: int) -> int:
    if shop().fails_again(job.job_id, failures):
        raise RuntimeError("not yet")
    return await shop().work(job, 0.1, failures)


@agent.job("doomed", max_attempts=2, start_timeout="60s")
async def doomed(job: JobContext) -> None:
    await shop().work(job, 0.1, 0)
    raise RuntimeError("never")


@agent.job("fails", start_timeout="60s")
async def fails(job: JobContext, seconds: float) -> None:
    await shop().work(job, seconds, 0)
    raise RuntimeError("never")


@agent.job("hanging", max_attempts=2, timeout="4s", start_timeout="60s")
async def hanging(job: JobContext) -> None:
    await shop().work(job, 100_000.0, 0)


@agent.job("parent", start_timeout="60s")
async def parent(job: JobContext, children: int) -> list[str]:
    await shop().work(job, 0.2, 0)
    return [str(job.request("quick", {"number": n}, key=str(n))) for n in range(children)]


@agent.job(
    "moody",
    max_attempts=3,
    max_snoozes=6,
    start_timeout="60s",
    backoff=Backoff.linear("2s", limit="5s"),
    no_retry_on=(LookupError,),
)
async def moody(job: JobContext) -> int | Fail | RetryAfter | Snooze | Cancel:
    await shop().work(job, shop().dice.choice((0.0, 0.3)), 0)
    match shop().dice.randint(0, 9):
        case 0:
            return Fail("for good")
        case 1:
            return Cancel("no use")
        case 2:
            raise KeyError("no_retry_on names a class that it derives from")
        case 3 | 4:
            return RetryAfter(shop().dice.choice((0, 3, 30)))
        case 5:
            raise RuntimeError("charged, and tried again")
        case 6 | 7 | 8:
            raise Snooze(shop().dice.choice((0, 2, 20, 100)))
        case _:
            return 1


@agent.job("sleepy", max_attempts=2, max_snoozes=3, start_timeout="60s")
async def sleepy(job: JobContext) -> Snooze:
    await shop().work(job, 0.0, 0)
    return Snooze(1)


@agent.job("grower", start_timeout="60s")
async def grower(job: JobContext, left: int) -> int:
    await shop().work(job, 1.5, 0)
    if left:
        job.request("grower", {"left": left - 1}, key="next")
    return left


@agent.job("climber", max_attempts=10, start_timeout="60s", backoff=Backoff.fixed(1, jitter=0))
async def climber(job: JobContext) -> int:
    step: int = job.last_checkpoint or 0
    await shop().work(job, 0.1, 0)
    if step < 2:
        job.checkpoint(step + 1)
        raise RuntimeError("go on from there")
    return step


@agent.job("signals", start_timeout="60s")
async def signals(job: JobContext, how: str) -> int | Fail | Cancel:
    await shop().work(job, 0.0, 0)
    if how == "to come again" and shop().runs[job.job_id] == 1:
        raise Snooze(2)
    if how == "to be cancelled":
        return Cancel("no use")
    return Fail("for good") if how == "to be dead" else 1


@agent.job(
    "limited",
    max_attempts=10,
    start_timeout="60s",
    backoff=Backoff.fixed(1, jitter=0),
    gates=[Limit(2, key="{{ arguments.tenant }}"), Limit(3)],
)
async def limited(job: JobContext, tenant: str, seconds: float, failures: int = 0, snoozes: int = 0) -> int:
    with shop().working_for(tenant, job.job_id), shop().working_for("all", job.job_id):
        if shop().fails_again(job.job_id, failures):
            raise RuntimeError("not yet")
        if shop().runs[job.job_id] < snoozes:
            await shop().work(job, seconds, 0)
            raise Snooze(1)
        return await shop().work(job, seconds, 1)


@agent.job("unkeyed", gates=[Limit(1, key="{{ arguments.account.tenant }}")])
async def unkeyed(number: int, account: dict[str, str]) -> int:
    return number


@next_release.job("novel", start_timeout="60s")
async def novel(job: JobContext, number: int) -> int:
    return await shop().work(job, 0.0, number)
