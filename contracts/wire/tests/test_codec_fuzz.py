"""decode() never raises for any bytes, and a decoded event survives encoding and decoding."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tools.reference.golden import golden_events

from warrener_contracts.codec import DecodeFailure, decode
from warrener_contracts.json_safety import is_object
from warrener_contracts.messages import BATCH_TYPE, EVENT_TYPE, build_message, encode
from warrener_contracts.registry import RELEASED, type_of

CONTENT_TYPES = st.sampled_from([None, EVENT_TYPE, BATCH_TYPE, "text/plain"])
# Half surrogate pairs, NUL and NaN among them: json.dumps writes values that JSON forbids.
TEXT = st.text(st.characters(), max_size=20)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(TEXT, inner, max_size=5),
    max_leaves=20,
)
GOLDEN = {name: json.loads(encode(event)) for name, event in golden_events().items()}


def check(body: bytes, content_type: str | None) -> None:
    for found in decode(body, content_type):
        if isinstance(found, DecodeFailure):
            for text in (
                found.detail,
                found.identity,
                found.request_id,
                found.request_source,
                found.job_type,
            ):
                assert (text or "").encode().count(0) == 0
            assert found.reply_to is None or found.reply_to.isascii()
        else:
            assert decode(encode(found.event)) == decode(found.body) == [found]
            message = build_message(found.event)
            assert len(message.routing_key) <= 255
            assert len(message.message_id.encode()) <= 255


@given(st.binary(max_size=2000), CONTENT_TYPES)
def test_any_bytes(body: bytes, content_type: str | None) -> None:
    check(body, content_type)


@given(ANYTHING, CONTENT_TYPES)
def test_any_json(value: Any, content_type: str | None) -> None:
    check(json.dumps(value).encode(), content_type)


@settings(max_examples=400)
@given(st.data())
def test_an_event_with_anything_in_place_of_one_of_its_fields(data: st.DataObject) -> None:
    event = json.loads(json.dumps(data.draw(st.sampled_from(list(GOLDEN.values())))))
    place = event if data.draw(st.booleans()) else event["data"]
    name = data.draw(st.sampled_from(sorted(place)))
    if is_object(nested := place[name]) and nested:
        place, name = nested, data.draw(st.sampled_from(sorted(nested)))
    place[name] = data.draw(ANYTHING)
    body = json.dumps(event).encode()
    check(body, EVENT_TYPE)
    check(b"[" + body + b"]", BATCH_TYPE)


@given(
    st.sampled_from(RELEASED).map(type_of), st.dictionaries(TEXT, ANYTHING, max_size=5), st.integers(1, 500)
)
def test_an_event_that_is_damaged_on_its_way(name: str, more: dict[str, Any], cut: int) -> None:
    body = json.dumps({**more, **GOLDEN[name]}).encode()
    check(body, EVENT_TYPE)
    assert isinstance(decode(body[:-cut])[0], DecodeFailure)
