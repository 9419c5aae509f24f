"""The requester: publishes a seeded mixture of jobs, waits for some results, cancels some. Only requests that
the broker has confirmed count."""

import asyncio
import random
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from tools.chaos.clients import session
from tools.chaos.effects import stamp
from tools.chaos.history import WORKFLOWS, Expected, Request
from tools.chaos.journal import Journal

from warrener_client import Client, JobSpec
from warrener_client.errors import ClientError, RequestRejected
from warrener_client.job import Job
from warrener_contracts.events import SchedulePutData
from warrener_contracts.schedule_rules import IntervalRule, ScheduleChoices
from warrener_contracts.schedule_words import OverlapPolicy

SCHEDULES: dict[str, tuple[float, ScheduleChoices]] = {
    "chaos.seconds": (2.0, ScheduleChoices()),
    "chaos.skipping": (3.0, ScheduleChoices(overlap=OverlapPolicy.SKIP)),
    "chaos.window": (5.0, ScheduleChoices(grace=timedelta(seconds=2))),
}
"""Name, seconds between two ticks, and choices of each schedule."""

# How many of a hundred requests are of each sort.
_SORTS = {
    "short": 46,
    "shared": 18,
    "book": 14,
    "parent": 3,
    "exclusive": 6,
    "retry": 5,
    "delayed": 3,
    "long": 1,
    "cancelled": 2,
    "hopeless": 1,
    "process": 1,
    "order": 3,
    "import": 1,
}
_WATCHED = 0.1
_REPEATED = 0.3
_SOMETIME = (0.0, 0.3, 1.0, 2.5)  # seconds after the confirm
_LATEST = 5000  # requests that may be repeated
_MOST_AT_ONCE = 40  # batches that wait for their confirms

Confirmed = Callable[[Request], None]
Sample = tuple[JobSpec, Request]


class Signal(NamedTuple):
    """What a workflow is sent."""

    job: UUID
    name: str
    data: int


def sample(dice: random.Random) -> Sample:
    """One request of the mixture, and what is expected of it."""
    (sort,) = dice.choices(list(_SORTS), list(_SORTS.values()))
    seconds = round(dice.choice((0.0, 0.0, 0.01, 0.05, 0.2)), 3)
    given: dict[str, Any] = {"seconds": seconds}
    sorts: dict[str, Callable[[], Sample]] = {
        "parent": lambda: _parent(dice, given),
        "retry": lambda: build(dice, "chaos.short", given | {"fails": dice.randint(1, 2)}, plain=False),
        "delayed": lambda: build(dice, "chaos.short", given, delay=dice.choice((1.0, 3.0)), plain=False),
        "long": lambda: build(dice, "chaos.long", {"seconds": dice.uniform(2, 8)}, plain=False),
        "cancelled": lambda: build(
            dice, "chaos.long", {"seconds": dice.uniform(1, 4)}, expected="any", plain=False
        ),
        "hopeless": lambda: build(dice, "chaos.hopeless", {}, expected="dead", plain=False),
        "process": lambda: build(dice, "chaos.process", given, plain=False),
        "order": lambda: order(dice),
        "import": lambda: import_of(dice),
    }
    return sorts[sort]() if sort in sorts else build(dice, f"chaos.{sort}", given)


def _parent(dice: random.Random, given: dict[str, Any]) -> Sample:
    count = dice.randint(1, 3)
    return build(dice, "chaos.book", given | {"children": count}, children=count)


def order(dice: random.Random, *, seconds: float = 0.0, signals: int | None = None) -> Sample:
    """An order: some wait for signals, some cannot be shipped, some are cancelled."""
    given: dict[str, Any] = {"seconds": seconds} if seconds else {}
    if signals is None:
        signals = dice.choice((0, 0, 1, 3))
    sort: Expected = dice.choice(("succeeded", "succeeded", "dead", "any"))
    given |= {"signals": signals, "ships": sort != "dead"}
    return build(dice, "chaos.order", given, expected=sort, plain=False, signals=signals)


def import_of(dice: random.Random, items: int = 20) -> Sample:
    """A map."""
    given = {"items": items, "in_flight": dice.choice((3, 5, items))}
    return build(dice, "chaos.import", given, children=items, plain=False)


def build(
    dice: random.Random,
    job_type: str,
    given: dict[str, Any],
    *,
    expected: Expected = "succeeded",
    children: int = 0,
    delay: float | None = None,
    plain: bool = True,
    signals: int = 0,
) -> Sample:
    """A request with an id of the seed's choosing."""
    job = UUID(int=dice.getrandbits(128), version=4)
    due = None if delay is None else stamp() + delay
    not_before = None if delay is None else datetime.now(UTC) + timedelta(seconds=delay)
    watched = dice.random() < _WATCHED
    request = Request(str(job), job_type, 0.0, expected, children, due, watched, plain, signals)
    return JobSpec(job_type, given, id=job, not_before=not_before), request


class Workload:
    """Publishes what it is given, and keeps who waits for what."""

    def __init__(self, url: str, dice: random.Random, confirmed: Confirmed, journal: Journal) -> None:
        self._client = Client(url, source="chaos", resend_after=10.0, connect_timeout=None)
        self._dice = dice
        self._confirmed = confirmed
        self._journal = journal
        self._tasks: set[asyncio.Task[None]] = set()
        self._room = asyncio.Semaphore(_MOST_AT_ONCE)
        self._latest: deque[Sample] = deque(maxlen=_LATEST)
        self._signals: deque[Signal] = deque(maxlen=_LATEST)
        self.answers: dict[str, str] = {}
        self.sent = 0
        """Requests given to the client, confirmed or not."""

    async def start(self) -> None:
        """Connect, and put the schedules."""
        await self._client.start()
        await self._client.put_schedules(
            [
                SchedulePutData(
                    name=name,
                    rule=IntervalRule(every=timedelta(seconds=every)),
                    job_type="chaos.tick",
                    choices=choices,
                )
                for name, (every, choices) in SCHEDULES.items()
            ]
        )

    async def publish(self, count: int) -> None:
        """Send a batch of the mixture; returns when there is room for more, not when it is confirmed."""
        await self.send([sample(self._dice) for _ in range(count)])

    async def send(self, samples: Iterable[Sample]) -> None:
        """Send these."""
        batch = list(samples)
        await self._room.acquire()
        self.sent += len(batch)
        self._latest.extend(batch)
        self._spawn(self._send(batch))

    async def repeat_unknown(self, store_url: str) -> None:
        """Request once more, under their ids, the latest requests that no row of the store knows."""
        latest = {str(spec.id): spec for spec, _ in self._latest}
        async with session(store_url) as connection:
            known = await connection.fetch(
                "SELECT job_id FROM warrener_jobs WHERE job_id = ANY($1::uuid[])",
                [UUID(job) for job in latest],
            )
        for row in known:
            del latest[str(row["job_id"])]
        self._spawn(self._client.request_batch([*latest.values()], wait_for_confirm=True))

    async def end_workflows(self, store_url: str) -> None:
        """Cancel the workflows that are not over, whose children's requests were destroyed: nobody has them
        any more. A signal has those that end already request their undos again."""
        async with session(store_url) as connection:
            rows = await connection.fetch(
                "SELECT job_id FROM warrener_jobs WHERE job_type = ANY($1) AND finished_at IS NULL",
                sorted(WORKFLOWS),
            )
        for row in rows:
            self._spawn(self._cancel(row["job_id"]))
            self._spawn(self._signal(Signal(row["job_id"], "look", 0), 2.0))

    def repeat_signals(self) -> None:
        """Send the latest signals once more, under their ids."""
        for signal in self._signals:
            self._spawn(self._signal(signal))

    async def end_schedules(self) -> None:
        """Remove the schedules; what has fired goes on."""
        for name in SCHEDULES:
            await self._client.remove_schedule(name)

    async def quiesce(self, within: float) -> bool:
        """Wait until everything that was sent is confirmed, and each requester has its answer."""
        if not self._tasks:
            return True
        _, pending = await asyncio.wait(self._tasks, timeout=within)
        return not pending

    async def close(self) -> None:
        """Disconnect; who still waits, gives up."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._client.close()

    async def _send(self, batch: list[Sample]) -> None:
        try:
            for answers in (True, False):
                some = [(spec, request) for spec, request in batch if request.watched == answers]
                if not some:
                    continue
                jobs = await self._client.request_batch(
                    [spec for spec, _ in some], want_results=answers, wait_for_confirm=True
                )
                for job, (_, request) in zip(jobs, some, strict=True):
                    self._note(job, request)
        finally:
            self._room.release()

    def _note(self, job: Job, request: Request) -> None:
        confirmed = replace(request, at=stamp())
        self._confirmed(confirmed)
        if request.watched:
            self._spawn(self._wait(job))
        if request.expected == "any" and request.job_type in ("chaos.long", "chaos.order"):
            self._spawn(self._cancel(UUID(request.job), self._dice.choice(_SOMETIME)))
        for number in range(request.signals):
            signal = Signal(UUID(request.job), "approved", number)
            self._signals.append(signal)
            self._spawn(self._signal(signal, self._dice.choice(_SOMETIME)))
            if self._dice.random() < _REPEATED:
                self._spawn(self._signal(signal, self._dice.choice(_SOMETIME)))

    async def _wait(self, job: Job) -> None:
        try:
            ended = await job.outcome()
        except RequestRejected as refused:
            answer = f"rejected: {refused.reason}"
        else:
            answer = ended.state.value
        self.answers[str(job.job_id)] = answer
        self._journal.note("answer", [str(job.job_id), answer])

    async def _cancel(self, job: UUID, after: float = 0.0) -> None:
        await self._until_confirmed(lambda: self._client.cancel(job, "chaos"), after)

    async def _signal(self, signal: Signal, after: float = 0.0) -> None:
        job, name, data = signal
        event_id = f"{job}-{name}-{data}"
        await self._until_confirmed(lambda: self._client.send_signal(job, name, data, id=event_id), after)

    async def _until_confirmed(self, publish: Callable[[], Awaitable[object]], after: float) -> None:
        await asyncio.sleep(after)
        while True:
            try:
                await publish()
            except ClientError:  # not confirmed: a repeat changes nothing
                await asyncio.sleep(1)
            else:
                return

    def _spawn(self, work: Any) -> None:
        task: asyncio.Task[None] = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
