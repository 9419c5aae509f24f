"""The routes of the wire with the events that travel on each, collected from the event classes."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from warrener_contracts.events import declared_events
from warrener_contracts.events.envelope import EventClass, Route, data_of, type_of
from warrener_contracts.topology import DELAY_LEVELS

_PARAMETERS: Mapping[str, str] = {
    "agent_id": "The agent.",
    "job_type": "The job type: dotted words, such as flights.load.",
    "level": "The delay level: " + ", ".join(level.name for level in DELAY_LEVELS) + ".",
    "queue": "The queue whose agents may run it.",
    "reply_to": "The reply address in the request.",
}


@dataclass(frozen=True, slots=True)
class EventChannel:
    """A route and the events on it. `name` is unique."""

    name: str
    route: Route
    kinds: tuple[EventClass, ...]

    @property
    def parameters(self) -> dict[str, str]:
        """The placeholders of the routing key with their descriptions."""
        return {name: self._describe(name) for name in self.route.placeholders}

    def _describe(self, name: str) -> str:
        fields = data_of(self.kinds[0]).model_fields
        described = fields[name].description if name in fields else None
        text = described or _PARAMETERS.get(name)
        if text is None:
            raise ValueError(
                f"{self.name}: expected a description of {{{name}}}, got none: describe the field"
            )
        return text


@cache
def channels() -> tuple[EventChannel, ...]:
    """Every channel of the wire, by name. Versions of one event share a channel."""
    found: dict[str, tuple[Route, list[EventClass]]] = {}
    for _, kind in sorted(declared_events().items()):
        for route in kind.routes:
            found.setdefault(_name(kind, route), (route, []))[1].append(kind)
    return tuple(EventChannel(name, route, tuple(kinds)) for name, (route, kinds) in sorted(found.items()))


def channels_of(kind: EventClass) -> list[EventChannel]:
    """The channels of one event, its own first."""
    by_name = {channel.name: channel for channel in channels()}
    return [by_name[_name(kind, route)] for route in kind.routes]


def _name(kind: EventClass, route: Route) -> str:
    """A shared route has a name of its own; other routes are named after the event and their exchange."""
    event = type_of(kind).rpartition(".")[0]
    if route.name:
        return route.name
    return event if route is kind.routes[0] else f"{event}.{route.exchange.removeprefix('warrener.')}"
