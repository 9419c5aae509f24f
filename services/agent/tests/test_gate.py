"""What an agent gives back while a breaker is open."""

from datetime import UTC, datetime

from warrener_agent.gate import Gate
from warrener_contracts.breaking import BreakerState
from warrener_contracts.events import BreakerChangedData
from warrener_contracts.policy import JobPolicy

GATE = {"bill": JobPolicy(depends_on=("billing-api",)), "mail": JobPolicy()}


def told(name: str, state: BreakerState = BreakerState.OPEN) -> BreakerChangedData:
    return BreakerChangedData(name=name, state=state, since=datetime.now(UTC), reason="down")


def test_what_depends_on_an_open_breaker_is_held_until_it_is_heard_to_let_probes_through() -> None:
    gate = Gate(GATE)
    assert gate.held("bill", 0.0) is None
    assert gate.hear(told("dependency:billing-api"), 0.0)
    assert gate.held("bill", 1.0) == "dependency:billing-api"
    assert gate.held("mail", 1.0) is None
    assert not gate.hear(told("dependency:billing-api"), 5.0), "a reminder is no news"
    assert gate.hear(told("dependency:billing-api", BreakerState.HALF_OPEN), 6.0)
    assert gate.held("bill", 7.0) is None


def test_a_breaker_that_is_not_heard_of_any_more_is_forgotten() -> None:
    gate = Gate(GATE)
    gate.hear(told("job:mail"), 0.0)
    assert gate.held("mail", 29.0) == "job:mail"
    assert gate.held("mail", 31.0) is None


def test_breakers_before_nothing_that_it_runs_are_passed_over() -> None:
    gate = Gate(GATE)
    assert not gate.hear(told("dependency:weather"), 0.0)
    assert gate.held("bill", 0.0) is None
