"""A handler sees the earlier attempts of its job, in whichever executor it runs."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from services.agent.tests.stage import HandlerRig, Stage

from warrener_agent import Agent, EarlierAttempt, History, JobContext, JobDefinitionError, Program, RetryRule
from warrener_agent.testing import run
from warrener_contracts.events import AttemptSucceeded

agent = Agent()
DIED = EarlierAttempt(
    attempt=1,
    cause="crash",
    error="OutOfMemory",
    queue="default",
    agent_id="agent-1",
    started_at=datetime(2026, 1, 1, tzinfo=UTC),
    seconds=12.5,
)
HISTORY = History(attempts=(DIED,), failures=1)


def seen(job: JobContext) -> list[Any]:
    return [job.history.count("memory"), *(one.model_dump(mode="json") for one in job.history.attempts)]


@agent.job("coroutine")
async def coroutine(job: JobContext) -> list[Any]:
    return seen(job)


@agent.job("thread", executor="thread")
def thread(job: JobContext) -> list[Any]:
    return seen(job)


@agent.job("process", executor="process")
def process(job: JobContext) -> list[Any]:
    return seen(job)


agent.command("command", Program(["sh", "-c", 'printf %s "${WARRENER_HISTORY:-null}"']), result=dict)


@pytest.mark.parametrize("executor", ["coroutine", "thread", "process"])
async def test_a_handler_reads_what_went_wrong_before(executor: str) -> None:
    first = await run(agent, executor)
    assert first.result == [0]
    later = await run(agent, executor, attempt=2, history=HISTORY)
    assert later.result == [1, DIED.model_dump(mode="json")]


async def test_a_program_reads_it_from_its_environment() -> None:
    assert (await run(agent, "command", attempt=2, history=HISTORY)).result == HISTORY.model_dump(mode="json")


async def test_an_agent_hands_the_history_of_a_dispatch_to_the_handler(stage: Stage, rig: HandlerRig) -> None:
    rig.agent.job("seen")(seen)
    await stage.enter(rig.agent)
    job_id = await stage.dispatch("seen", attempt=2, history=HISTORY)
    assert (await stage.wait_for_event(AttemptSucceeded, job_id)).data.result[0] == 1


def test_a_rule_that_changes_nothing_is_refused_where_it_is_declared() -> None:
    rules = [RetryRule(errors=["memory"], after=2)]
    with pytest.raises(JobDefinitionError, match="expected a queue, a timeout_factor or another_agent"):
        Agent().job("report.send", retry_rules=rules)(process)
    agent.job("report.send", retry_rules=[RetryRule(errors=["timeout"], timeout_factor=2)])(process)
    policy = agent.definitions["report.send"].declaration.policy
    assert json.loads(policy.model_dump_json())["retry_rules"] == [
        {"errors": ["timeout"], "after": 1, "timeout_factor": 2.0}
    ]
