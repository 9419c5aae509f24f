"""What Warrener writes is read in a shorter way than what others write, and as the same."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp import commands, frame, header
from tests.faults.raw_messages import POISON

from warrener_amqp import properties
from warrener_amqp.properties import UNREADABLE, Properties

short = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
headers = st.dictionaries(st.text("abc-", min_size=1, max_size=8), short, max_size=3)


def _of_others(ours: Properties) -> bytes:
    """The same, by pamqp, beside a priority: that is not among what Warrener writes."""
    named: dict[str, Any] = dict(ours.headers)
    encoded = commands.Basic.Properties(
        content_type=ours.content_type,
        headers=named or None,
        delivery_mode=2 if ours.persistent else 1,
        message_id=ours.message_id,
        message_type=ours.type,
        priority=3,
    )
    return frame.marshal(header.ContentHeader(0, 0, encoded), 1)[7 + 12 : -1]


@given(
    content_type=short.filter(bool),
    named=headers,
    persistent=st.booleans(),
    message_id=short.filter(bool),
    kind=short.filter(bool),
)
def test_both_ways_read_the_same_and_neither_reads_what_is_cut_off(
    *, content_type: str, named: Mapping[str, str], persistent: bool, message_id: str, kind: str
) -> None:
    written = b"".join(
        properties.write_properties(content_type, named, message_id, kind, persistent=persistent)
    )
    expected = Properties(content_type, named, persistent, message_id, kind)
    assert properties.read_properties(written, 0) == expected
    assert properties.read_properties(_of_others(expected), 0) == expected
    for end in range(len(written)):
        assert properties.read_properties(written[:end], 0) is UNREADABLE


@pytest.mark.parametrize("poison", POISON.values(), ids=POISON)
def test_a_header_that_cannot_be_read_hides_no_other(poison: bytes) -> None:
    """The broker's own headers are among them: its count of deliveries, and why a message died."""
    flags, list_at = int.from_bytes(poison[:2], "big"), 2
    ours = b"\x03our" + b"S\0\0\0\1x" + b"\x10x-delivery-count" + b"l" + (7).to_bytes(8, "big")
    if flags & 1 << 13:
        size = int.from_bytes(poison[2:6], "big")
        table, list_at = poison[6 : 6 + size], 6 + size
    else:
        table = b""
    written = (
        (flags | 1 << 13).to_bytes(2, "big")
        + (len(table) + len(ours)).to_bytes(4, "big")
        + table
        + ours
        + poison[list_at:]
    )
    read = properties.read_properties(written, 0)
    assert (read.headers["our"], read.headers["x-delivery-count"]) == ("x", 7)
    assert read.readable is (properties.read_properties(poison, 0).readable)


def test_properties_that_make_client_libraries_fail_are_marked() -> None:
    unreadable = {
        name for name, poison in POISON.items() if not properties.read_properties(poison, 0).readable
    }
    assert unreadable == {
        "a time after the year 9999",
        "a header with such a time",
        "such a time in a table in a list",
        "a list nested 3,000 times",
        "a table nested 3,000 times",
        "a nested name that is no text",
    }
