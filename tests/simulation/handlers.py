"""What the agents of a simulation can run, and what was seen of it running."""

from collections import Counter
from random import Random
from uuid import UUID

from warrener_agent import Agent, Backoff, Cancel, Fail, JobContext, RetryAfter, Snooze
from warrener_runtime.clock import Clock


class Workshop:
    """Handlers on virtual time. Each run is noted from its first to its last moment (invariants I3, I13)."""

    def __init__(self, clock: Clock, dice: Random) -> None:
        self._clock, self._dice = clock, dice
        self._running: set[tuple[UUID, int]] = set()
        self._failed: Counter[UUID] = Counter()
        self.runs: Counter[UUID] = Counter()
        self.overlaps: list[tuple[UUID, int]] = []
        self.rivals: list[tuple[UUID, set[int]]] = []
        self.agent = Agent()
        self._declare()

    def _declare(self) -> None:
        job = self.agent.job

        @job("quick", start_timeout="60s", dispatch_batch=4)
        async def quick(job: JobContext, number: int) -> int:
            return await self._work(job, 0.0, number)

        @job("slow", start_timeout="60s", timeout="120s")
        async def slow(job: JobContext, seconds: float) -> int:
            return await self._work(job, seconds, 1)

        @job("flaky", max_attempts=10, start_timeout="60s", dispatch_batch=3)
        async def flaky(job: JobContext, failures: int) -> int:
            if self._failed[job.job_id] < failures:
                self._failed[job.job_id] += 1
                raise RuntimeError("not yet")
            return await self._work(job, 0.1, failures)

        @job("doomed", max_attempts=2, start_timeout="60s")
        async def doomed(job: JobContext) -> None:
            await self._work(job, 0.1, 0)
            raise RuntimeError("never")

        @job("fails", start_timeout="60s")
        async def fails(job: JobContext, seconds: float) -> None:
            await self._work(job, seconds, 0)
            raise RuntimeError("never")

        @job("hanging", max_attempts=2, timeout="4s", start_timeout="60s")
        async def hanging(job: JobContext) -> None:
            await self._work(job, 100_000.0, 0)

        @job("parent", start_timeout="60s")
        async def parent(job: JobContext, children: int) -> list[str]:
            await self._work(job, 0.2, 0)
            return [str(job.request("quick", {"number": n}, key=str(n))) for n in range(children)]

        @job(
            "moody",
            max_attempts=3,
            max_snoozes=6,
            start_timeout="60s",
            backoff=Backoff.linear("2s", limit="5s"),
            no_retry_on=(LookupError,),
        )
        async def moody(job: JobContext) -> int | Fail | RetryAfter | Snooze | Cancel:
            await self._work(job, self._dice.choice((0.0, 0.3)), 0)
            match self._dice.randint(0, 9):
                case 0:
                    return Fail("for good")
                case 1:
                    return Cancel("no use")
                case 2:
                    raise KeyError("no_retry_on names a class that it derives from")
                case 3 | 4:
                    return RetryAfter(self._dice.choice((0, 3, 30)))
                case 5:
                    raise RuntimeError("charged, and tried again")
                case 6 | 7 | 8:
                    raise Snooze(self._dice.choice((0, 2, 20, 100)))
                case _:
                    return 1

        @job("sleepy", max_attempts=2, max_snoozes=3, start_timeout="60s")
        async def sleepy(job: JobContext) -> Snooze:
            await self._work(job, 0.0, 0)
            return Snooze(1)

        @job("grower", start_timeout="60s")
        async def grower(job: JobContext, left: int) -> int:
            await self._work(job, 1.5, 0)
            if left:
                job.request("grower", {"left": left - 1}, key="next")
            return left

        @job("climber", max_attempts=10, start_timeout="60s", backoff=Backoff.fixed(1, jitter=0))
        async def climber(job: JobContext) -> int:
            step: int = job.last_checkpoint or 0
            await self._work(job, 0.1, 0)
            if step < 2:
                job.checkpoint(step + 1)
                raise RuntimeError("go on from there")
            return step

        @job("signals", start_timeout="60s")
        async def signals(job: JobContext, how: str) -> int | Fail | Cancel:
            await self._work(job, 0.0, 0)
            if how == "to come again" and self.runs[job.job_id] == 1:
                raise Snooze(2)
            if how == "to be cancelled":
                return Cancel("no use")
            return Fail("for good") if how == "to be dead" else 1

        del (
            quick,
            slow,
            flaky,
            doomed,
            fails,
            hanging,
            parent,
            moody,
            sleepy,
            signals,
        )  # served under their names
        del grower, climber

    async def _work(self, job: JobContext, seconds: float, result: int) -> int:
        me = (job.job_id, job.attempt)
        if me in self._running:
            self.overlaps.append(me)
        if others := {attempt for job_id, attempt in self._running if job_id == job.job_id} - {job.attempt}:
            self.rivals.append((job.job_id, others | {job.attempt}))
        self._running.add(me)
        self.runs[job.job_id] += 1
        try:
            transaction = await job.transaction()
            await transaction.execute("effect")
            await self._clock.sleep(seconds)
            return result
        finally:
            self._running.discard(me)
