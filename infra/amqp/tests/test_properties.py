"""What Warrener writes is read in a shorter way than what others write, and as the same."""

from collections.abc import Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from pamqp import commands, frame, header

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
