"""CloudEvents 1.0 as every message carries them, and the route that each event class declares.

A class with a route is an event of the wire. Readers, routing keys, AsyncAPI, the reference pages and the
topic permissions are made from what it declares:

    class JobDeduplicated(
        Event[JobDeduplicatedData], frozen=True, route=Route(EVENTS, "{event}", (SCHEDULER,), (ANYONE,))
    ):
        \"\"\"The idempotency key of a request was used before.\"\"\"

        type: Literal["job.deduplicated.v1"] = "job.deduplicated.v1"
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from operator import attrgetter
from typing import Annotated, Any, ClassVar, Generic, Literal, TypeVar, Unpack

from pydantic import BaseModel, ConfigDict, Field

from warrener_contracts import topology
from warrener_contracts.events.data import EventData
from warrener_contracts.fields import Baggage, Timestamp, TraceParent, TraceState

D = TypeVar("D", bound="EventData")

_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_DESTINATIONS = frozenset({"level", "queue", "reply_to"})
"""Placeholders that say where a message goes, not what it is about: operators may move messages."""
_VERSIONED_TYPE = re.compile(r"[a-z]+(\.[a-z_]+)+\.v[1-9][0-9]*")


class Party(StrEnum):
    """A sender or receiver of messages."""

    ANYONE = "anyone"
    SCHEDULER = "scheduler"
    AGENT = "agent"
    SUPERVISOR = "supervisor"


ANYONE, SCHEDULER, AGENT, SUPERVISOR = Party.ANYONE, Party.SCHEDULER, Party.AGENT, Party.SUPERVISOR


@dataclass(frozen=True, slots=True)
class Route:
    """An exchange and a routing key by which events travel.

    `key` may hold fields of the event's data in braces, such as `{job_type}`. In the route that a class
    declares, `{event}` stands for its type without the version, and its docstring is `about`. `name` is the
    AsyncAPI channel of a route that several event classes share; other routes are named after their event.
    """

    exchange: str
    key: str
    senders: tuple[Party, ...]
    receivers: tuple[Party, ...]
    about: str = ""
    persistent: bool = True
    name: str = ""
    placeholders: tuple[str, ...] = field(init=False)
    _template: str = field(init=False, repr=False)
    _values: Callable[["EventData"], object] = field(init=False, repr=False, compare=False)
    _prefix: int = field(init=False, repr=False, compare=False)
    _suffix: int = field(init=False, repr=False, compare=False)
    _content: "Route" = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Parsed once, because a key is made, and compared, for every message.
        names = tuple(_PLACEHOLDER.findall(self.key))
        object.__setattr__(self, "placeholders", names)
        object.__setattr__(self, "_template", _PLACEHOLDER.sub("%s", self.key))
        object.__setattr__(self, "_values", attrgetter(*names) if names else None)
        prefix, content, suffix = _split_destinations(self.key)
        object.__setattr__(self, "_prefix", prefix)
        object.__setattr__(self, "_suffix", suffix)
        object.__setattr__(self, "_content", replace(self, key=content) if prefix or suffix else self)

    def key_for(self, data: "EventData") -> str:
        if not self.placeholders:
            return self.key
        return self._template % self._values(data)

    def accepts(self, key: str, data: "EventData") -> bool:
        """True if an event with this data may travel under `key`; words for a destination may differ."""
        if self._prefix:
            words = key.split(".", self._prefix)
            key = words[-1] if len(words) > self._prefix and all(words) else ""
        if self._suffix:
            words = key.rsplit(".", self._suffix)
            key = words[0] if len(words) > self._suffix and all(words) else ""
        return self._content.key_for(data) == key

    def expected_key(self, data: "EventData") -> str:
        """The routing key of an event with this data, with placeholders for a destination in braces."""
        return _PLACEHOLDER.sub(
            lambda found: found[0] if found[1] in _DESTINATIONS else str(getattr(data, found[1])), self.key
        )

    @property
    def mandatory(self) -> bool:
        """True if the broker returns a message that no queue is bound for."""
        return self.exchange in topology.MANDATORY


def _split_destinations(key: str) -> tuple[int, str, int]:
    """The number of words for a destination before the others, the others, and the number after them."""
    words = key.split(".")
    named = [word[:1] == "{" and word[1:-1] in _DESTINATIONS for word in words]
    prefix = named.index(False)
    suffix = named[::-1].index(False)
    return prefix, ".".join(words[prefix : len(words) - suffix]), suffix


REPLIES = Route(
    topology.EVENTS,
    "reply.{reply_to}",
    (SCHEDULER, SUPERVISOR),
    (ANYONE,),
    "Replies to one requester, who binds an exclusive queue to this key before the request.",
    name="replies",
)
# The routes of several events.
SCHEDULER_COMMAND = Route(topology.COMMANDS, "{event}", (ANYONE,), (SCHEDULER,))
SUPERVISOR_COMMAND = Route(topology.COMMANDS, "{event}", (ANYONE,), (SUPERVISOR,))
AGENT_REPORT = Route(topology.STATUS, "{event}.{job_type}", (AGENT,), (SUPERVISOR,))
WATCHDOG_REPORT = Route(topology.STATUS, "{event}.{job_type}", (SUPERVISOR,), (SUPERVISOR,))
JOB_EVENT = Route(topology.EVENTS, "{event}.{job_type}", (SUPERVISOR,), (ANYONE,))
ONE_AGENT = Route(topology.CONTROL, "agent.{agent_id}", (SUPERVISOR,), (AGENT,), persistent=False)


class Event(BaseModel, Generic[D], frozen=True, defer_build=True):
    """One CloudEvent. `source` and `id` together are unique; a repeat of the event keeps both.

    Warrener's services always set `time`; a request from elsewhere may leave it out.

    The validator of an event is built at its first use, because most commands use a few events or none.
    Services build all of them at their start (`registry.build_models`).
    """

    specversion: Literal["1.0"] = "1.0"
    id: Annotated[
        str, Field(min_length=1, max_length=200, description="The same in every repeat of the event.")
    ]
    source: Annotated[str, Field(min_length=1, max_length=200, description="The sender, as a URI reference.")]
    type: str
    time: Annotated[Timestamp | None, Field(description="When it happened.")] = None
    subject: Annotated[str | None, Field(description="The job or the agent it is about.")] = None
    datacontenttype: Literal["application/json"] = "application/json"
    traceparent: Annotated[
        TraceParent,
        Field(description="W3C trace context, also a header of the message; ignored if malformed."),
    ] = None
    tracestate: Annotated[
        TraceState, Field(description="W3C trace state, also a header of the message; ignored if malformed.")
    ] = None
    baggage: Annotated[
        Baggage,
        Field(
            description="W3C baggage of a requester, which reaches the handler; also a header of the message."
        ),
    ] = None
    data: D

    routes: ClassVar[tuple[Route, ...]] = ()
    """The event's own route, then the others by which services pass it on. Empty: not of the wire."""

    def __init_subclass__(
        cls, *, route: Route | None = None, also: tuple[Route, ...] = (), **config: Unpack[ConfigDict]
    ) -> None:
        """Declare the route of an event class; `also`: further routes by which services pass the event on."""
        super().__init_subclass__(**config)

    @classmethod
    def __pydantic_init_subclass__(
        cls, *, route: Route | None = None, also: tuple[Route, ...] = (), **_: Any
    ) -> None:
        super().__pydantic_init_subclass__()
        if route is not None:
            key = route.key.replace("{event}", type_of(cls).rpartition(".")[0])
            about = " ".join((cls.__doc__ or "").split())
            cls.routes = (replace(route, key=key, about=about), *also)
            _register(cls)

    @property
    def routing_key(self) -> str:
        return self.routes[0].key_for(self.data)


EventClass = type[Event[Any]]

DECLARED: dict[str, EventClass] = {}
"""The events of the wire by their versioned type, in the order of their declaration."""


def type_of(kind: EventClass) -> str:
    """The CloudEvents `type` of an event class: `job.requested.v1`."""
    return str(kind.model_fields["type"].default)


def data_of(kind: EventClass) -> type[EventData]:
    annotation: object = kind.model_fields["data"].annotation
    assert isinstance(annotation, type)
    assert issubclass(annotation, EventData)
    return annotation


def _register(kind: EventClass) -> None:
    """Add an event of the wire. Raises TypeError for an incomplete declaration."""
    own, name = kind.routes[0], type_of(kind)
    known = {exchange.name for exchange in topology.EXCHANGES}
    fields = data_of(kind).model_fields.keys()
    if own.exchange not in known:
        problem = f"expected an exchange of the topology, got {own.exchange!r}"
    elif not own.key or set(own.placeholders) - fields:
        problem = f"expected a key made of words and fields of its data, got {own.key!r}"
    elif not own.senders or not own.receivers:
        problem = "expected a sender and a receiver, got none: name the parties"
    elif not own.about:
        problem = "expected a docstring that says when the event is sent, got none"
    elif not _VERSIONED_TYPE.fullmatch(name):
        problem = f'expected a type such as "job.requested.v1", got {name!r}'
    elif name in DECLARED:
        problem = f"expected a type that is not taken, got {name!r}: {DECLARED[name].__name__} has it"
    else:
        DECLARED[name] = kind
        return
    raise TypeError(f"{kind.__name__}: {problem}")
