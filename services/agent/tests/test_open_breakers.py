"""What an agent does with attempts that an open breaker holds back."""

from datetime import UTC, datetime, timedelta
from uuid import uuid4

from services.agent.tests.stage import Stage

from warrener_agent import Agent, JobContext
from warrener_agent.decisions.outcomes import FailedOutcome, failure_to_record
from warrener_agent.ledger import Claim, open_ledger
from warrener_contracts import topology
from warrener_contracts.circuit_breaker import BreakerState
from warrener_contracts.events import (
    AttemptFailed,
    AttemptReleased,
    AttemptSucceeded,
    BreakerChanged,
    BreakerChangedData,
    ErrorInfo,
    ErrorKind,
)
from warrener_contracts.messages import build_message

agent = Agent()


@agent.job("bill", depends_on=("billing-api",))
async def bill(job: JobContext) -> int:
    if job.attempt == 1:
        raise RuntimeError("not today")
    return job.attempt


@agent.job("greet")
async def greet() -> str:
    return "hello"


async def turn(stage: Stage, state: BreakerState) -> None:
    """Every agent hears of it before anything that is dispatched from now on is begun."""
    event = BreakerChanged(
        id=f"dependency:billing-api:{state}",
        source="test",
        data=BreakerChangedData(
            name="dependency:billing-api", state=state, since=datetime.now(UTC), reason="by the test"
        ),
    )
    message = build_message(event)._replace(
        exchange=topology.CONTROL, routing_key="all", persistent=False, mandatory=False
    )
    await stage.bus.publish([message])
    await stage.wait_for_event(AttemptSucceeded, await stage.dispatch("greet"))


async def test_what_stands_in_the_queue_is_given_back_and_runs_once_probes_are_let_through(
    stage: Stage,
) -> None:
    await stage.enter(agent)
    await turn(stage, BreakerState.OPEN)
    job_id = await stage.dispatch("bill", attempt=2)
    given_back = await stage.wait_for_event(AttemptReleased, job_id)
    assert given_back.data.reason == "held back: dependency:billing-api is open"
    await turn(stage, BreakerState.HALF_OPEN)
    await stage.dispatch("bill", job_id=job_id, attempt=3)
    assert (await stage.wait_for_event(AttemptSucceeded, job_id)).data.result == 3


async def test_a_delay_goes_on_while_the_breaker_is_open(stage: Stage) -> None:
    """It comes from a rung before its time: given back, it would be due at once when the breaker closes."""
    await stage.enter(agent)
    await turn(stage, BreakerState.OPEN)
    due = datetime.now(UTC) + timedelta(seconds=2.5)
    job_id = await stage.dispatch("bill", attempt=2, not_before=due)
    await stage.wait_for_event(AttemptReleased, job_id)
    assert datetime.now(UTC) >= due - timedelta(seconds=0.2)


async def test_a_failure_that_was_never_reported_is_reported_and_not_given_back(stage: Stage) -> None:
    job_id, now = uuid4(), datetime.now(UTC)
    ledger = open_ledger(stage.ledger_url)
    await ledger.start()
    await ledger.claim([Claim(job_id, 1)], agent_id="dead", lease=timedelta(seconds=30))
    error = ErrorInfo(kind=ErrorKind.ERROR, type="RuntimeError", message="not today")
    failure = failure_to_record(Claim(job_id, 1), FailedOutcome(error), now, now)
    assert await ledger.fail([failure], agent_id="dead") == {job_id}
    await ledger.close()

    await stage.enter(agent)
    await turn(stage, BreakerState.OPEN)
    await stage.dispatch("bill", job_id=job_id)
    assert (await stage.wait_for_event(AttemptFailed, job_id)).data.error.message == "not today"
    assert not stage.of(AttemptReleased, job_id)
