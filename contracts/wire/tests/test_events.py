"""An event class declares its route, and is refused if it declares them badly."""

from dataclasses import replace
from typing import Any, Literal, cast

import pytest

from warrener_contracts.events import Event, EventData
from warrener_contracts.events.envelope import DECLARED, SCHEDULER, SUPERVISOR, Route
from warrener_contracts.registry import RELEASED
from warrener_contracts.topology import STATUS

ROUTE = Route(STATUS, "{event}.{gate}", (SCHEDULER,), (SUPERVISOR,))


class GateData(EventData, frozen=True):
    """A gate of the airport."""

    gate: str


def declare(*, doc: str = "A gate has closed.", **changed: Any) -> type[Event[GateData]]:
    body = {
        "__doc__": doc,
        "__module__": __name__,
        "__annotations__": {"type": Literal["gate.closed.v1"]},
        "type": "gate.closed.v1",
    }
    metaclass: Any = type(Event)
    made = metaclass("GateClosed", (Event[GateData],), body, frozen=True, route=replace(ROUTE, **changed))
    return cast("type[Event[GateData]]", made)


def test_a_declaration_is_all_that_an_event_needs() -> None:
    kind = declare()
    try:
        (route,) = kind.routes
        assert (route.senders, route.receivers) == ((SCHEDULER,), (SUPERVISOR,))
        assert route.about == "A gate has closed."
        event = kind(id="1", source="airport", type="gate.closed.v1", data=GateData(gate="A4"))
        assert event.routing_key == "gate.closed.A4"
        assert DECLARED["gate.closed.v1"] is kind
        with pytest.raises(TypeError, match=r"expected a type that is not taken, got 'gate\.closed\.v1'"):
            declare()
    finally:
        del DECLARED["gate.closed.v1"]


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"exchange": "airport"}, "expected an exchange of the topology, got 'airport'"),
        ({"key": "gate.closed.{flight}"}, "fields of its data, got 'gate.closed.{flight}'"),
        ({"key": ""}, "expected a key"),
        ({"senders": ()}, "expected a sender and a receiver"),
        ({"receivers": ()}, "expected a sender and a receiver"),
        ({"doc": ""}, "expected a docstring"),
    ],
)
def test_an_incomplete_declaration_is_refused_when_the_class_is_made(changed: Any, problem: str) -> None:
    with pytest.raises(TypeError, match="GateClosed: ") as refused:
        declare(**changed)
    assert problem in str(refused.value)
    assert "gate.closed.v1" not in DECLARED


def test_an_event_without_a_route_is_not_of_the_wire() -> None:
    class Draft(Event[GateData], frozen=True):
        type: Literal["gate.drafted.v1"] = "gate.drafted.v1"

    assert Draft.routes == ()
    assert Draft not in RELEASED
    assert "gate.drafted.v1" not in DECLARED
