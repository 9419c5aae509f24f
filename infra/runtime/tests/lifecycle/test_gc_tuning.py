"""A service that works in batches looks for circles of garbage seldom, and still finds them."""

import gc
import weakref
from collections.abc import Iterator

import pytest

from warrener_runtime.lifecycle import gc_tuning


class Link:
    held: object = None


@pytest.fixture(autouse=True)
def put_back() -> Iterator[None]:
    """The other tests go on with Python's own way."""
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)
    gc.unfreeze()


def test_what_a_batch_makes_brings_no_look_and_what_a_long_life_leaves_is_found() -> None:
    gc_tuning.freeze(gc_tuning.RARE)
    collections_before = gc.get_stats()[0]["collections"]
    batch = [[number] for number in range(10_000)]
    assert gc.get_stats()[0]["collections"] == collections_before
    circle = Link()
    circle.held = circle
    left = weakref.ref(circle)
    del circle
    batch += [[number] for number in range(60_000)]
    assert left() is None
