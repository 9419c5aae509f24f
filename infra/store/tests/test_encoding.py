"""Every text and document comes back as it was stored."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from warrener_store.encoding import decode, encode, escape, unescape

ANY_TEXT = st.text(st.characters(exclude_categories=()))
DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(ANY_TEXT, inner, max_size=4),
    max_leaves=20,
)


@given(ANY_TEXT)
def test_an_escaped_text_can_be_stored_and_comes_back(text: str) -> None:
    stored = escape(text)
    assert "\x00" not in stored.encode().decode()
    assert unescape(stored) == text


@given(ANY_TEXT, ANY_TEXT)
def test_different_texts_stay_different(one: str, other: str) -> None:
    assert (escape(one) == escape(other)) == (one == other)


@given(DOCUMENTS)
def test_a_document_can_be_stored_and_comes_back(document: Any) -> None:
    stored = encode(document)
    assert "\x00" not in stored.encode().decode()
    assert decode(stored) == document


def test_what_nests_too_deeply_for_the_fast_path_comes_back() -> None:
    document: Any = []
    for _ in range(400):
        document = [document]
    assert decode(encode(document)) == document
