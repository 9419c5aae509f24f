"""Words of times on a page."""

from datetime import timedelta

import pytest
from tests.store_rows import NOON

from warrener.web.rendering import relative_words


@pytest.mark.parametrize(
    ("gone", "words"),
    [
        (0.4, "now"),
        (3.2, "3 s ago"),
        (59, "59 s ago"),
        (301, "5 min ago"),
        (7800, "2 h 10 min ago"),
        (-90, "in 1 min"),
        (-90000, "in 1 d 1 h"),
    ],
)
def test_moments_are_written_in_few_words(gone: float, words: str) -> None:
    assert relative_words(NOON, NOON + timedelta(seconds=gone)) == words
