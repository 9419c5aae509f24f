"""Names that come from addresses of pages: a bad one takes the counts of no other queue away."""

from collections.abc import AsyncIterator

import pytest

from warrener.context import ResolvedEndpoints
from warrener.operations.system import SharedInspector


@pytest.fixture
async def inspector(vhost_url: str) -> AsyncIterator[SharedInspector]:
    endpoints = ResolvedEndpoints(vhost_url, "sqlite://", "sqlite://", from_up=False)
    found = SharedInspector(endpoints)
    yield found
    await found.close()


@pytest.mark.parametrize("name", ["\0", "a" * 300, "\udce4", "a b", ""])
async def test_a_bad_name_is_no_fault_of_the_broker(inspector: SharedInspector, name: str) -> None:
    found = await inspector.query([name])
    assert (found.trouble, dict(found.queues)) == (None, {})
    found = await inspector.query(["loading"])
    assert (found.trouble, dict(found.queues)) == (None, {"loading": None})


async def test_counts_are_shared_while_they_are_fresh(inspector: SharedInspector) -> None:
    first = await inspector.query(["loading"])
    assert (await inspector.query(["loading"])).queues["loading"] is first.queues["loading"]
    both = await inspector.query(["loading", "mailing"])
    assert both.queues.keys() == {"loading", "mailing"}
