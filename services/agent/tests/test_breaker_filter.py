"""What an agent gives back while a breaker is not closed."""

from datetime import UTC, datetime, timedelta
from uuid import uuid4

from warrener_agent.decisions.breakers import BreakerFilter
from warrener_contracts.circuit_breaker import BreakerState
from warrener_contracts.events import AttemptDispatched, AttemptDispatchedData, BreakerChangedData
from warrener_contracts.policy import Guarantee, JobPolicy

POLICIES = {"bill": JobPolicy(depends_on=("billing-api",)), "mail": JobPolicy()}
OPENED = datetime(2026, 1, 1, 12, tzinfo=UTC)
BEFORE, AFTER = OPENED - timedelta(seconds=1), OPENED + timedelta(seconds=30)


def changed(
    name: str, state: BreakerState = BreakerState.OPEN, since: datetime = OPENED
) -> BreakerChangedData:
    return BreakerChangedData(name=name, state=state, since=since, reason="down")


def sent(job_type: str, at: datetime = BEFORE) -> AttemptDispatched:
    data = AttemptDispatchedData(
        job_id=uuid4(),
        attempt=1,
        job_type=job_type,
        queue="default",
        arguments={},
        guarantee=Guarantee.IDEMPOTENT,
        timeout=timedelta(hours=1),
        max_attempts=1,
        requested_at=at,
    )
    return AttemptDispatched(id="d", source="test", time=at, data=data)


def test_what_depends_on_an_open_breaker_is_held() -> None:
    breaker_filter = BreakerFilter(POLICIES)
    assert breaker_filter.hold_reason(sent("bill"), 0.0) is None
    assert breaker_filter.update(changed("dependency:billing-api"), 0.0)
    assert breaker_filter.hold_reason(sent("bill"), 1.0) == "dependency:billing-api is open"
    assert breaker_filter.hold_reason(sent("bill", AFTER), 1.0) == "dependency:billing-api is open"
    assert breaker_filter.hold_reason(sent("mail"), 1.0) is None
    assert not breaker_filter.update(changed("dependency:billing-api"), 5.0), "a reminder is no news"


def test_11_while_probes_are_out_what_was_sent_before_the_breaker_opened_is_given_back() -> None:
    breaker_filter = BreakerFilter(POLICIES)
    breaker_filter.update(changed("dependency:billing-api"), 0.0)
    assert breaker_filter.update(changed("dependency:billing-api", BreakerState.HALF_OPEN, AFTER), 6.0)
    assert breaker_filter.hold_reason(sent("bill", BEFORE), 7.0) == "dependency:billing-api is half_open"
    assert breaker_filter.hold_reason(sent("bill", AFTER), 7.0) is None, "a probe"
    assert breaker_filter.update(changed("dependency:billing-api", BreakerState.CLOSED, AFTER), 8.0)
    assert breaker_filter.hold_reason(sent("bill", BEFORE), 9.0) is None


def test_an_agent_that_missed_the_opening_runs_attempts_while_probes_are_out() -> None:
    breaker_filter = BreakerFilter(POLICIES)
    breaker_filter.update(changed("dependency:billing-api", BreakerState.HALF_OPEN), 0.0)
    assert breaker_filter.hold_reason(sent("bill"), 1.0) is None


def test_a_breaker_without_news_expires() -> None:
    breaker_filter = BreakerFilter(POLICIES)
    breaker_filter.update(changed("job:mail"), 0.0)
    assert breaker_filter.hold_reason(sent("mail"), 29.0) == "job:mail is open"
    assert breaker_filter.hold_reason(sent("mail"), 31.0) is None


def test_breakers_before_nothing_that_it_runs_are_passed_over() -> None:
    breaker_filter = BreakerFilter(POLICIES)
    assert not breaker_filter.update(changed("dependency:weather"), 0.0)
    assert breaker_filter.hold_reason(sent("bill"), 0.0) is None
