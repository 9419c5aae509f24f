"""Attempts that an agent gives back while a breaker is not closed."""

from datetime import UTC, datetime, timedelta
from uuid import uuid4

from services.agent.tests.stage import Stage, dispatched

from warrener_agent import Agent, JobContext
from warrener_agent.decisions.intake import BreakerFilter
from warrener_agent.decisions.outcomes import FailedOutcome, failure_to_record
from warrener_agent.ledger import connected_ledger
from warrener_agent.ledger.port import Claim
from warrener_contracts import events, topology
from warrener_contracts.circuit_breaker import BreakerState
from warrener_contracts.messages import build_message
from warrener_contracts.policy import JobPolicy

# -- the decision -------------------------------------------------------------------------------------------

POLICIES = {"bill": JobPolicy(depends_on=("billing-api",)), "mail": JobPolicy()}
BILLING = "dependency:billing-api"
OPENED = datetime(2026, 1, 1, 12, tzinfo=UTC)
BEFORE, AFTER = OPENED - timedelta(seconds=1), OPENED + timedelta(seconds=30)


def changed(
    name: str, state: BreakerState = BreakerState.OPEN, since: datetime = OPENED
) -> events.BreakerChangedData:
    return events.BreakerChangedData(name=name, state=state, since=since, reason="down")


def sent(job_type: str, at: datetime = BEFORE) -> events.AttemptDispatched:
    return dispatched(job_type, at=at)


def test_what_depends_on_an_open_breaker_is_held() -> None:
    breaker_filter = BreakerFilter(POLICIES, [])
    assert breaker_filter.hold_reason(sent("bill"), 0.0) is None
    assert breaker_filter.update(changed(BILLING), 0.0)
    assert breaker_filter.hold_reason(sent("bill"), 1.0) == "dependency:billing-api is open"
    assert breaker_filter.hold_reason(sent("bill", AFTER), 1.0) == "dependency:billing-api is open"
    assert breaker_filter.hold_reason(sent("mail"), 1.0) is None
    assert not breaker_filter.update(changed(BILLING), 5.0), "a reminder is no news"


def test_11_while_probes_are_out_what_was_sent_before_the_breaker_opened_is_given_back() -> None:
    breaker_filter = BreakerFilter(POLICIES, [])
    breaker_filter.update(changed(BILLING), 0.0)
    assert breaker_filter.update(changed(BILLING, BreakerState.HALF_OPEN, AFTER), 6.0)
    assert breaker_filter.hold_reason(sent("bill", BEFORE), 7.0) == "dependency:billing-api is half_open"
    assert breaker_filter.hold_reason(sent("bill", AFTER), 7.0) is None, "a probe"
    assert breaker_filter.update(changed(BILLING, BreakerState.CLOSED, AFTER), 8.0)
    assert breaker_filter.hold_reason(sent("bill", BEFORE), 9.0) is None


def test_a_breaker_whose_opening_was_missed_or_that_has_expired_or_is_of_others_holds_nothing() -> None:
    breaker_filter = BreakerFilter(POLICIES, [])
    breaker_filter.update(changed(BILLING, BreakerState.HALF_OPEN), 0.0)
    assert breaker_filter.hold_reason(sent("bill"), 1.0) is None, "probes are out"
    breaker_filter.update(changed("job:mail"), 0.0)
    assert breaker_filter.hold_reason(sent("mail"), 29.0) == "job:mail is open"
    assert breaker_filter.hold_reason(sent("mail"), 31.0) is None, "without news it expires"
    assert not breaker_filter.update(changed("dependency:weather"), 0.0)
    assert breaker_filter.hold_reason(sent("bill"), 0.0) is None


def test_attempts_of_a_paused_queue_are_held_whatever_their_type() -> None:
    breaker_filter = BreakerFilter(POLICIES, ["default", "loads"])
    assert not breaker_filter.update(changed("queue:elsewhere"), 0.0)
    assert breaker_filter.update(changed("queue:loads"), 0.0)
    assert breaker_filter.hold_reason(sent("mail"), 1.0) is None, "of another queue"
    assert breaker_filter.update(changed("queue:default"), 1.0)
    assert breaker_filter.hold_reason(sent("mail"), 2.0) == "queue:default is open"
    assert breaker_filter.update(changed("queue:default", BreakerState.CLOSED), 3.0)
    assert breaker_filter.hold_reason(sent("mail"), 4.0) is None


# -- in an agent --------------------------------------------------------------------------------------------

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
    data = changed(BILLING, state, datetime.now(UTC))
    message = build_message(events.BreakerChanged(id=f"{BILLING}:{state}", source="test", data=data))
    await stage.bus.publish([message._replace(exchange=topology.CONTROL, routing_key="all")])
    await stage.succeed("greet")


async def test_what_stands_in_the_queue_is_given_back_and_runs_once_probes_are_let_through(
    stage: Stage,
) -> None:
    await stage.enter(agent)
    await turn(stage, BreakerState.OPEN)
    job_id = await stage.dispatch("bill", attempt=2)
    given_back = await stage.wait_for_event(events.AttemptReleased, job_id)
    assert given_back.data.reason == "held back: dependency:billing-api is open"
    await turn(stage, BreakerState.HALF_OPEN)
    await stage.dispatch("bill", job_id=job_id, attempt=3)
    assert (await stage.wait_for_event(events.AttemptSucceeded, job_id)).data.result == 3


async def test_a_delay_goes_on_while_the_breaker_is_open(stage: Stage) -> None:
    """It comes from a delay queue before its time: given back, it would be due at once when the breaker
    closes."""
    await stage.enter(agent)
    await turn(stage, BreakerState.OPEN)
    due = datetime.now(UTC) + timedelta(seconds=2.5)
    job_id = await stage.dispatch("bill", attempt=2, not_before=due)
    await stage.wait_for_event(events.AttemptReleased, job_id)
    assert datetime.now(UTC) >= due - timedelta(seconds=0.2)


async def test_a_failure_that_was_never_reported_is_reported_and_not_given_back(stage: Stage) -> None:
    job_id, now = uuid4(), datetime.now(UTC)
    error = events.ErrorInfo(kind=events.ErrorKind.ERROR, type="RuntimeError", message="not today")
    failure = failure_to_record(Claim(job_id, 1), FailedOutcome(error), now, now)
    async with connected_ledger(stage.ledger_url) as ledger:
        await ledger.claim([Claim(job_id, 1)], agent_id="dead", lease=timedelta(seconds=30))
        assert await ledger.fail([failure], agent_id="dead") == {job_id}
    await stage.enter(agent)
    await turn(stage, BreakerState.OPEN)
    await stage.dispatch("bill", job_id=job_id)
    assert (await stage.wait_for_event(events.AttemptFailed, job_id)).data.error.message == "not today"
    assert not stage.of(events.AttemptReleased, job_id)
