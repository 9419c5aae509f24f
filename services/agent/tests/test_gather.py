"""Gathered jobs: one run of a handler for several attempts, each with an end of its own."""

import asyncio
import gc
import threading
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from pydantic import BaseModel, SecretStr
from services.agent.tests.stage import LONG, WAIT, HastenedClock, Stage
from typing_extensions import TypedDict

from warrener_agent import Agent, Fail, Gather, JobContext, JobDefinitionError, Limit, RetryAfter
from warrener_agent.attempt import Attempt
from warrener_agent.executors.gathered import GatheredMember, GatheredRun
from warrener_agent.testing import run, run_gathered
from warrener_agent.workflows.targets import find_definition
from warrener_contracts import events
from warrener_contracts.policy import Guarantee
from warrener_runtime.bus import OutgoingMessage, PublishResult
from warrener_runtime.bus.memory import MemoryBroker, MemoryBus


class Mail(BaseModel):
    to: str
    subject: str = "hello"


class Point(TypedDict):
    x: float


class Post:
    """An agent that sends mails, at most four in a run, and a test that steers it."""

    def __init__(self, up_to: int = 4, **options: Any) -> None:
        self.agent, self.runs = Agent(), list[list[str]]()
        self.begun, self.go_on = asyncio.Event(), asyncio.Event()

        @self.agent.job("mail.send", gather=Gather(up_to, within="5s"), **options)
        async def send(mails: list[Mail], jobs: list[JobContext]) -> list[str | Exception]:
            self.runs.append([mail.to for mail in mails])
            self.begun.set()
            await self.go_on.wait()
            return [
                ValueError(f"no {mail.to}") if mail.to == "nobody" else f"{mail.to} {job.job_id}"
                for mail, job in zip(mails, jobs, strict=True)
            ]

    async def send(self, stage: Stage, *names: str, **fields: Any) -> list[UUID]:
        return [await stage.dispatch("mail.send", {"to": name}, **fields) for name in names]


# -- a run -------------------------------------------------------------------------------------------------


async def test_a_full_run_begins_at_once_and_each_job_gets_its_own_end(stage: Stage) -> None:
    post = Post()
    post.go_on.set()
    one = await stage.enter(post.agent, agent_slots=1)
    ada, nobody, bob, eve = await post.send(stage, "ada", "nobody", "bob", "eve")
    for name, job in (("ada", ada), ("bob", bob), ("eve", eve)):
        reported = (await stage.wait_for_event(events.AttemptSucceeded, job)).data
        assert reported.result == f"{name} {job}"
    failed = (await stage.wait_for_event(events.AttemptFailed, nobody)).data
    assert (failed.error.type, failed.error.message, failed.error.retryable) == (
        "ValueError",
        "no nobody",
        True,
    )
    assert post.runs == [["ada", "nobody", "bob", "eve"]]
    await stage.drain(one)


async def test_what_is_there_after_the_time_runs_and_the_one_that_failed_runs_again_alone(
    stage: Stage,
) -> None:
    post, clock = Post(), HastenedClock()
    post.go_on.set()
    await stage.enter(post.agent, clock=clock, agent_claim_ttl=3600.0)
    ada, nobody = await post.send(stage, "ada", "nobody", timeout=LONG)
    await stage.wait_for_event(events.AttemptStarted, nobody)
    assert post.runs == [], "it waits for more"
    clock.skip(timedelta(seconds=5))
    await stage.wait_for_event(events.AttemptSucceeded, ada)
    await stage.wait_for_event(events.AttemptFailed, nobody)
    await stage.dispatch("mail.send", {"to": "eve"}, job_id=nobody, attempt=2, timeout=LONG)
    await stage.wait_for_event(events.AttemptStarted, nobody, times=2)
    clock.skip(timedelta(seconds=5))
    again = await stage.wait_for_event(events.AttemptSucceeded, nobody)
    assert (again.data.result, again.data.attempt) == (f"eve {nobody}", 2)
    assert post.runs == [["ada", "nobody"], ["eve"]]


async def test_a_run_holds_one_slot_and_others_wait_outside_the_agent(stage: Stage) -> None:
    post = Post()
    await stage.enter(post.agent, agent_slots=2)
    jobs = await post.send(stage, *"abcdefgh")
    await stage.until(lambda: len(post.runs) == 2, "two runs of four")

    def free() -> bool:
        heartbeat = stage.of(events.AgentHeartbeat)[-1].data
        listed = {one.job_id for one in heartbeat.running}
        return heartbeat.free_slots == {"default": 0} and listed == set(jobs)

    await stage.until(free, "a heartbeat that lists all of them, on two slots")
    late = await post.send(stage, *"ijkl")
    post.go_on.set()
    for job in (*jobs, *late):
        await stage.wait_for_event(events.AttemptSucceeded, job)
    assert [*map(len, post.runs)] == [4, 4, 4]


async def test_a_thread_runs_them_too_and_an_error_that_is_raised_is_that_of_all(stage: Stage) -> None:
    agent = Agent()

    @agent.job("count", gather=Gather(2), no_retry_on=(KeyError,))
    def count(word: list[str], jobs: list[JobContext]) -> list[int]:
        for job in jobs:
            job.request("told", {"by": str(job.job_id)})
        if "bad" in word:
            raise KeyError("bad")
        return [len(one) for one in word]

    await stage.enter(agent)
    good = [await stage.dispatch("count", {"word": word}) for word in ("four", "three")]
    ends = [(await stage.wait_for_event(events.AttemptSucceeded, job)).data for job in good]
    assert [one.result for one in ends] == [4, 5]
    await stage.until(lambda: len(stage.of(events.JobRequested)) == 2, "a child job of each")
    assert {one.data.parent_id for one in stage.of(events.JobRequested)} == set(good)
    bad = [await stage.dispatch("count", {"word": word}) for word in ("fine", "bad")]
    for job in bad:
        failed = (await stage.wait_for_event(events.AttemptFailed, job)).data
        assert (failed.error.type, failed.error.retryable) == ("KeyError", False)
    assert len(stage.of(events.JobRequested)) == 2, "none of a job that failed"


async def test_what_is_over_is_freed_at_once_and_not_left_to_the_collector(stage: Stage) -> None:
    def alive() -> list[object]:
        kinds = (Attempt, GatheredMember, GatheredRun)
        return [found for found in gc.get_objects() if isinstance(found, kinds)]

    post = Post()
    post.go_on.set()
    one = await stage.enter(post.agent)
    gc.disable()
    try:
        of_other_tests = set(map(id, earlier := alive()))
        for job in await post.send(stage, *"abcdefgh"):
            await stage.wait_for_event(events.AttemptSucceeded, job)
        await one.drain()
        left = [found for found in alive() if id(found) not in of_other_tests]
    finally:
        gc.enable()
    assert (len(left), len(of_other_tests)) == (0, len(earlier))


# -- members that are stopped ------------------------------------------------------------------------------


async def test_a_job_cancelled_before_the_run_is_left_out_and_another_takes_its_place(stage: Stage) -> None:
    post = Post()
    post.go_on.set()
    await stage.enter(post.agent, agent_slots=1)
    first, second = await post.send(stage, "first", "second")
    await stage.wait_for_event(events.AttemptStarted, second)
    await stage.cancel(first)
    await stage.wait_for_event(events.AttemptCancelled, first)
    others = await post.send(stage, "c", "d", "e")
    for job in (second, *others):
        await stage.wait_for_event(events.AttemptSucceeded, job)
    assert post.runs == [["second", "c", "d", "e"]]


async def test_a_job_cancelled_in_the_run_ends_alone_and_the_last_one_stops_the_run(stage: Stage) -> None:
    post = Post()
    one = await stage.enter(post.agent, agent_slots=1)
    jobs = await post.send(stage, *"abcd")
    await post.begun.wait()
    await stage.cancel(jobs[0])
    await stage.wait_for_event(events.AttemptCancelled, jobs[0])
    assert not stage.of(events.AttemptSucceeded)
    for job in jobs[1:]:
        await stage.cancel(job)
    for job in jobs[1:]:
        await stage.wait_for_event(events.AttemptCancelled, job)
    post.go_on.set()
    again = await post.send(stage, *"efgh")
    for job in again:
        await stage.wait_for_event(events.AttemptSucceeded, job)
    await stage.drain(one)
    assert not {job for job in jobs if stage.of(events.AttemptSucceeded, job)}


async def test_a_thread_that_goes_on_without_its_jobs_keeps_its_one_slot_until_it_ends(stage: Stage) -> None:
    agent, go_on = Agent(), threading.Event()

    @agent.job("block", gather=Gather(2))
    def block(number: list[int]) -> list[int]:
        go_on.wait(WAIT)
        return number

    def free(slots: int) -> bool:
        heartbeat = stage.of(events.AgentHeartbeat)[-1].data
        return heartbeat.free_slots == {"default": slots} and not heartbeat.running

    await stage.enter(agent, agent_slots=2)
    jobs = [await stage.dispatch("block", {"number": number}) for number in range(2)]
    for job in jobs:
        await stage.wait_for_event(events.AttemptStarted, job)
    for job in jobs:
        await stage.cancel(job)
    for job in jobs:
        await stage.wait_for_event(events.AttemptCancelled, job)
    await stage.until(lambda: free(1), "one slot to be taken, and nothing to run")
    go_on.set()
    await stage.until(lambda: free(2), "both slots to be free")
    assert not stage.of(events.AttemptSucceeded)


async def test_the_timeout_counts_from_the_run_and_ends_all_of_them(stage: Stage) -> None:
    post, clock = Post(), HastenedClock()
    await stage.enter(post.agent, clock=clock, agent_claim_ttl=3600.0)
    jobs = await post.send(stage, "a", "b", timeout=LONG)
    await stage.wait_for_event(events.AttemptStarted, jobs[1])
    clock.skip(timedelta(seconds=5))
    await post.begun.wait()
    clock.skip(LONG - timedelta(seconds=3))
    extra = await post.send(stage, "c", "d", "e", "f", timeout=LONG)
    await stage.wait_for_event(events.AttemptStarted, extra[-1])
    assert not stage.of(events.AttemptFailed), "the time in which they were gathered does not count"
    clock.skip(timedelta(seconds=3))
    for job in jobs:
        error = (await stage.wait_for_event(events.AttemptFailed, job)).data.error
        assert error.kind == "timeout"
        assert error.flight_record is not None
    assert not stage.of(events.AttemptFailed, extra[0])


async def test_at_a_drain_what_was_gathered_is_given_back_and_what_runs_ends(stage: Stage) -> None:
    post = Post(up_to=2)
    one = await stage.enter(post.agent, shutdown_timeout=60.0)
    running = await post.send(stage, "a", "b")
    await post.begun.wait()
    [waiting] = await post.send(stage, "c")
    await stage.wait_for_event(events.AttemptStarted, waiting)
    draining = asyncio.create_task(one.drain())
    await stage.wait_for_event(events.AttemptReleased, waiting)
    assert not draining.done()
    post.go_on.set()
    await draining
    for job in running:
        await stage.wait_for_event(events.AttemptSucceeded, job)
    assert post.runs == [["a", "b"]]


async def test_a_job_that_another_agent_may_begin_stops_the_run_and_gives_the_others_back(
    stage: Stage,
) -> None:
    post = Post(up_to=2)
    await stage.enter(post.agent)
    taken, other = await post.send(stage, "a", "b")
    await post.begun.wait()
    await stage.dispatch("mail.send", {"to": "a"}, job_id=taken, attempt=2)
    await stage.wait_for_event(events.AttemptReleased, other)
    post.go_on.set()
    [more] = await post.send(stage, "c")
    assert (await stage.wait_for_event(events.AttemptSucceeded, taken)).data.attempt == 2
    await stage.wait_for_event(events.AttemptSucceeded, more)


async def test_a_thread_goes_on_for_the_others_of_a_job_that_another_agent_may_begin(stage: Stage) -> None:
    agent, begun, go_on = Agent(), threading.Event(), threading.Event()

    @agent.job("block", gather=Gather(2))
    def block(number: list[int]) -> list[int]:
        begun.set()
        go_on.wait(WAIT)
        return number

    await stage.enter(agent)
    taken, other = [await stage.dispatch("block", {"number": number}) for number in range(2)]
    await stage.until(begun.is_set, "the run to begin")
    await stage.dispatch("block", {"number": 0}, job_id=taken, attempt=2)
    go_on.set()
    await stage.wait_for_event(events.AttemptSucceeded, other)
    assert not stage.of(events.AttemptReleased, other), "it would run twice at once"


async def test_a_job_that_was_lost_before_runs_alone(stage: Stage) -> None:
    post = Post(up_to=3)
    await stage.enter(post.agent)
    lost = events.History(losses=1)
    [first] = await post.send(stage, "a")
    [suspect] = await post.send(stage, "b", history=lost)
    await stage.until(lambda: post.runs == [["b"]], "it to run at once, by itself")
    post.go_on.set()
    rest = await post.send(stage, "c", "d")
    for job in (first, suspect, *rest):
        await stage.wait_for_event(events.AttemptSucceeded, job)
    assert post.runs == [["b"], ["a", "c", "d"]]


class FrozenBus(MemoryBus):
    """A connection that freezes before the first report, as that of a process about to be killed."""

    def __init__(self, broker: MemoryBroker) -> None:
        super().__init__(broker)
        self.frozen = asyncio.Event()

    async def publish(
        self, messages: Sequence[OutgoingMessage], *, timeout: float = 10.0
    ) -> list[PublishResult]:
        if any(one.type in ("attempt.succeeded.v1", "attempt.failed.v1") for one in messages):
            self.frozen.set()
            await asyncio.Event().wait()
        return await super().publish(messages, timeout=timeout)


async def test_what_the_ledger_has_of_a_killed_agent_is_reported_and_not_done_again(stage: Stage) -> None:
    post, again, bus = Post(up_to=3), Post(up_to=3), FrozenBus(stage.broker)
    post.go_on.set()
    first = await stage.enter(post.agent, bus=bus)
    jobs = await post.send(stage, "a", "nobody", "c")
    async with asyncio.timeout(WAIT):
        await bus.frozen.wait()
    await stage.leave(first)
    second = await stage.enter(again.agent)
    for job in (jobs[0], jobs[2]):
        await stage.wait_for_event(events.AttemptSucceeded, job)
    await stage.wait_for_event(events.AttemptFailed, jobs[1])
    assert (post.runs, again.runs) == ([["a", "nobody", "c"]], []), "each was done once"
    await stage.drain(second)


# -- what they return --------------------------------------------------------------------------------------


def returning(found: Any) -> Agent:
    agent = Agent()

    @agent.job("some", gather=Gather(10))
    async def some(number: list[int]) -> list[int]:
        values: list[int] = found
        return values

    return agent


@pytest.mark.parametrize(("found", "got"), [([1, 2], "got 2"), (None, "got none"), ("abc", "got none")])
async def test_other_than_one_result_for_each_is_the_failure_of_all(found: Any, got: str) -> None:
    trials = await run_gathered(returning(found), "some", [{"number": 1}, {"number": 2}, {"number": 3}])
    for trial in trials:
        assert trial.error is not None
        assert (trial.error.kind, trial.error.retryable) == ("bad_result", False)
        assert trial.error.message.endswith(got)


async def test_each_result_and_each_error_is_judged_by_itself() -> None:
    ends: list[Any] = [7, "seven", Fail("never"), RetryAfter("5m"), OSError("away")]
    trials = await run_gathered(returning(ends), "some", [*({"number": 1} for _ in ends), {"number": "x"}])
    assert trials[0].result == 7
    kinds = [None if one.error is None else (one.error.type, one.error.retryable) for one in trials]
    assert kinds == [
        None,
        ("bad_result", False),
        ("warrener_agent.failures.Fail", False),
        ("warrener_agent.failures.RetryAfter", True),
        ("OSError", True),
        ("bad_arguments", False),
    ]
    assert trials[3].retry_after_seconds == 300


async def test_an_error_hides_the_secrets_of_all_jobs_of_its_run() -> None:
    agent = Agent()

    @agent.job("log.in", gather=Gather(10))
    async def log_in(pin: list[SecretStr]) -> None:
        raise ValueError(" and ".join(one.get_secret_value() for one in pin))

    for trial in await run_gathered(agent, "log.in", [{"pin": "hunter2-ada"}, {"pin": "hunter2-bob"}]):
        assert trial.error is not None
        assert "hunter2" not in trial.error.message + (trial.error.stack or "")


async def test_a_run_has_no_transaction(stage: Stage) -> None:
    agent = Agent()

    @agent.job("write", gather=Gather(1))
    async def write(number: list[int], jobs: list[JobContext]) -> None:
        transaction = await jobs[0].transaction()
        await transaction.execute("SELECT 1")

    await stage.enter(agent)
    assert "no transaction to share" in (await stage.fail("write", {"number": 1})).error.message


# -- declarations ------------------------------------------------------------------------------------------


async def test_an_item_is_all_arguments_of_its_job_or_the_one_of_the_parameter() -> None:
    agent = Agent()

    @agent.job("models", gather=Gather(10), gates=Limit(1, key="{{ arguments.to }}"))
    async def models(mails: list[Mail]) -> list[Mail | Fail]:
        return [*mails]

    @agent.job("mappings", gather=Gather(10))
    async def mappings(points: list[Point], jobs: list[JobContext]) -> list[float]:
        return [point["x"] for point in points]

    @agent.job("any", gather=Gather(10))
    def anything(given: list[dict[str, Any]]) -> list[int]:
        return [len(one) for one in given]

    @agent.job("values", gather=Gather(10))
    async def values(number: list[int]) -> None:
        assert number == [1, 2]

    schemas = {name: one.declaration.arguments_schema for name, one in agent.definitions.items()}
    assert schemas["models"]["required"] == ["to"]
    assert {*schemas["models"]["properties"]} == {"to", "subject"}
    assert schemas["models"]["additionalProperties"] is False
    assert schemas["mappings"]["properties"]["x"]["type"] == "number"
    assert {*schemas["values"]["properties"]} == {"number"}
    sent: Mapping[str, list[Mapping[str, Any]]] = {
        "models": [{"to": "a"}, {"to": "b", "subject": "c"}],
        "mappings": [{"x": 1}, {"x": 2}],
        "any": [{}, {"a": 1}],
        "values": [{"number": 1}, {"number": "2"}],
    }
    results = {
        name: [trial.result for trial in await run_gathered(agent, name, given)]
        for name, given in sent.items()
    }
    assert results == {
        "models": [{"to": "a", "subject": "hello"}, {"to": "b", "subject": "c"}],
        "mappings": [1.0, 2.0],
        "any": [0, 1],
        "values": [None, None],
    }
    with pytest.raises(ValueError, match="use run_gathered"):
        await run(agent, "models", {"to": "a"})
    with pytest.raises(TypeError, match="expected the name of models or its JobType"):
        find_definition(models)


async def good(mails: list[Mail]) -> list[str]:
    return [mail.to for mail in mails]


def test_what_cannot_be_gathered_is_refused_where_it_is_declared() -> None:
    async def one(mail: Mail) -> list[str]:
        return [mail.to]

    async def two(mails: list[Mail], more: list[str]) -> list[str]:
        return [mail.to for mail in mails] + more

    async def alone(mails: list[Mail]) -> str:
        return mails[0].to

    gather = Gather(10)
    declared: list[tuple[Any, dict[str, Any], str]] = [
        (one, {"gather": gather}, "expected a handler of gathered jobs as"),
        (two, {"gather": gather}, "expected a handler of gathered jobs as"),
        (alone, {"gather": gather}, "expected a handler of gathered jobs as"),
        (good, {"gather": 10}, "expected gather=Gather"),
        (good, {"gather": Gather(0)}, "from 1 to 1000, got 0"),
        (good, {"gather": Gather(1, within="6s")}, "at most 5 s, got 6 s"),
        (good, {"gather": Gather(1, within="soon")}, "as a time"),
        (good, {"gather": gather, "executor": "process"}, "coroutine or thread"),
        (good, {"gather": gather, "guarantee": Guarantee.TRANSACTIONAL}, "got transactional"),
        (good, {"gather": gather, "dispatch_batch": 5}, "no dispatch_batch"),
        (good, {"gather": gather, "heartbeat_timeout": "5s"}, "no heartbeat_timeout"),
    ]
    for handler, options, why in declared:
        with pytest.raises(JobDefinitionError, match=why):
            Agent().job("x", **options)(handler)
    agent = Agent()
    agent.job("x", gather=gather)(good)
    with pytest.raises(JobDefinitionError, match="expected gathered jobs in a queue of their own"):
        agent.job("y")(one)
    agent.job("y", queue="other")(one)
