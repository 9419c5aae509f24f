"""Encode events without validation, for the events that services send most.

The envelope is taken from the event class, so that its bytes are those of `messages.encode`. The caller
writes the data as JSON text from values that were validated before; a test of each caller compares the bytes
with those of the event class.
"""

from datetime import UTC, datetime
from functools import lru_cache

from pydantic_core import to_json

from warrener_contracts.events.envelope import EventClass, data_of, type_of
from warrener_contracts.messages import EVENT_TYPE, Message, encode, message_id, trace_headers

_ID, _SUBJECT = "{the id}", "{the subject}"
_TIME = datetime(1970, 1, 1, tzinfo=UTC)
_SHORT_ID = 64  # characters that fit into a message id in any encoding


class EventWriter:
    """Writes events of one class and one source as messages on the route of the class.

    Ids, subjects and routing keys are written as they are: they must hold no character that JSON escapes.
    """

    def __init__(self, kind: EventClass, source: str) -> None:
        own, no_data = kind.routes[0], data_of(kind).model_construct()
        event = kind.model_construct(
            id=_ID, source=source, type=type_of(kind), time=_TIME, subject=_SUBJECT, data=no_data
        )
        text = encode(event).decode()
        self._start, rest = text[: text.index('"data":')].split(_ID)
        self._after_id, rest = rest.split(moment_json(_TIME))
        self._after_time, self._after_subject = rest.split(_SUBJECT)
        self.type, self._exchange = type_of(kind), own.exchange
        self._persistent, self._mandatory = own.persistent, own.mandatory

    def text(self, event_id: str, time: str, subject: str, data: str, *, trace: str = "") -> str:
        """One event as JSON text. `time` as `moment_json` writes it; `data` is the text of a JSON object;
        `trace` has the members of its trace context, each with a comma behind it."""
        return (
            f"{self._start}{event_id}{self._after_id}{time}{self._after_time}{subject}{self._after_subject}"
            f'{trace}"data":{data}}}'
        )

    def message(
        self,
        event_id: str,
        key: str,
        time: str,
        subject: str,
        data: str,
        *,
        traceparent: str | None = None,
        tracestate: str | None = None,
        baggage: str | None = None,
        dispatch_batch: int = 1,
    ) -> Message:
        """One event as a message, written as `text` does, with its trace context and baggage."""
        headers: dict[str, str] = {}
        trace = ""
        if traceparent or tracestate or baggage:
            headers = trace_headers(traceparent, tracestate, baggage)
            trace = "".join([f'"{name}":{to_json(value).decode()},' for name, value in headers.items()])
        return Message(
            self._exchange,
            key,
            self.text(event_id, time, subject, data, trace=trace).encode(),
            EVENT_TYPE,
            event_id if len(event_id) < _SHORT_ID else message_id(event_id),
            self.type,
            headers,
            self._persistent,
            self._mandatory,
            dispatch_batch,
        )


def moment_json(moment: datetime) -> str:
    """A moment as JSON text, in UTC, as events write it."""
    return to_json(moment if moment.tzinfo is UTC else moment.astimezone(UTC)).decode()


shared_moment_json = lru_cache(maxsize=64)(moment_json)
"""`moment_json` for the moments that the events of a batch share."""
