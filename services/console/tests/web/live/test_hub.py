"""The hub: one rendering for all viewers of a page, and none without a change of its topics."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from warrener.operations.roles import Role
from warrener.web.live.event_consumer import topics_of
from warrener.web.live.hub import Hub, LiveContent, LiveKey, PageGone, TooManyViewers, Viewer

JOBS = LiveKey("/jobs", Role.VIEWER, "UTC")
AGENTS = LiveKey("/agents", Role.VIEWER, "UTC")
JOB_ID = "0190d5a0-0000-7000-8000-000000000001"
OF_EACH_JOB = {"jobs", "queues", "overview"}
DEATH = {"dead-letters", "incidents"}


class Pages:
    def __init__(self) -> None:
        self.html = "one"
        self.refresh: float | None = None
        self.error: Exception | None = None
        self.rendered = list[LiveKey]()
        self.turns = asyncio.Semaphore(0)

    async def render(self, key: LiveKey) -> LiveContent:
        self.rendered.append(key)
        self.turns.release()
        if self.error is not None:
            raise self.error
        return LiveContent(html=self.html, topics=[key.url.strip("/")], refresh=self.refresh)


@pytest.fixture
def pages() -> Pages:
    return Pages()


@pytest.fixture
async def hub(pages: Pages) -> AsyncIterator[Hub]:
    hub = Hub(pages.render, viewer_limit=3, principal_limit=2, interval=0.0)
    await hub.start()
    yield hub
    await hub.stop()


async def opened(hub: Hub, key: LiveKey = JOBS) -> Viewer:
    viewer = hub.join(key, "ada")
    await content(viewer)
    return viewer


async def content(viewer: Viewer) -> str:
    """The next text of the stream with a content."""
    async with asyncio.timeout(60):
        while True:
            text = await viewer.take()
            if text is None or b"event: content" in text:
                return "" if text is None else text.decode()


async def test_viewers_of_one_page_share_a_rendering(hub: Hub, pages: Pages) -> None:
    first = hub.join(JOBS, "ada")
    assert "data: one" in await content(first)
    second = hub.join(JOBS, "grace")
    assert "data: one" in await content(second)
    assert pages.rendered == [JOBS]
    pages.html = "two\nlines"
    hub.publish(["jobs"])
    for viewer in (first, second):
        assert "data: two\ndata: lines\n\n" in await content(viewer)
    assert pages.rendered == [JOBS, JOBS]


async def test_a_change_reaches_the_pages_of_its_topic_alone(hub: Hub, pages: Pages) -> None:
    await opened(hub)
    agents = await opened(hub, AGENTS)
    pages.html = "two"
    hub.publish(["agents", "type:unknown"])
    assert "two" in await content(agents)
    assert pages.rendered.count(JOBS) == 1


async def test_a_rendering_that_differs_in_relative_times_is_not_sent(hub: Hub, pages: Pages) -> None:
    pages.html = '<time datetime="2026-01-01">3 s ago</time>'
    viewer = await opened(hub)
    pages.html = '<time datetime="2026-01-01">4 s ago</time>'
    for _ in range(2):
        await pages.turns.acquire()
        hub.publish(["jobs"])
    pages.html = '<time datetime="2026-01-02">now</time>'
    hub.publish(["jobs"])
    assert "2026-01-02" in await content(viewer)


async def test_a_slow_reader_gets_the_newest_content_alone(hub: Hub, pages: Pages) -> None:
    slow, quick = hub.join(JOBS, "ada"), hub.join(JOBS, "grace")
    await content(quick)
    for number in range(5):
        pages.html = f"number {number}"
        hub.publish(["jobs"])
        await content(quick)
    assert "data: number 4" in (text := await content(slow))
    assert "number 3" not in text


async def test_a_page_is_rendered_after_its_refresh_interval(hub: Hub, pages: Pages) -> None:
    pages.refresh = 0.01
    viewer = await opened(hub)
    pages.html = "two"
    assert "two" in await content(viewer)


async def test_viewers_see_since_when_no_events_arrive(hub: Hub, pages: Pages) -> None:
    viewer = await opened(hub)
    hub.interrupt()
    assert b"event: interrupted\ndata: 20" in (await viewer.take() or b"")
    later = hub.join(AGENTS, "ada")
    assert b"event: interrupted" in (await later.take() or b"")
    pages.html = "missed"
    hub.resume()
    assert b"event: live" in (await viewer.take() or b"")
    assert "missed" in await content(viewer), "expected all pages to be rendered after an interruption"


async def test_viewers_are_bounded(hub: Hub) -> None:
    one, two = hub.join(JOBS, "ada"), hub.join(JOBS, "ada")
    with pytest.raises(TooManyViewers, match="at most 2 open pages of ada"):
        hub.join(JOBS, "ada")
    hub.join(JOBS, "grace")
    with pytest.raises(TooManyViewers, match="at most 3 open pages"):
        hub.join(JOBS, "linus")
    hub.leave(JOBS, one)
    hub.leave(JOBS, one)
    hub.leave(JOBS, two)
    assert hub.viewers == 1
    hub.join(JOBS, "ada")


async def test_a_page_without_viewers_is_not_rendered(hub: Hub, pages: Pages) -> None:
    viewer = await opened(hub)
    hub.leave(JOBS, viewer)
    assert not hub.watched
    assert not hub.has_viewers.is_set()
    hub.publish(["jobs"])
    await opened(hub, AGENTS)
    assert pages.rendered == [JOBS, AGENTS]


async def test_viewers_of_a_page_that_is_gone_load_it_again(hub: Hub, pages: Pages) -> None:
    viewer = await opened(hub)
    pages.error = PageGone()
    hub.publish(["jobs"])
    assert b"event: reload" in (await viewer.take() or b"")


async def test_a_page_that_cannot_be_rendered_is_tried_again(hub: Hub, pages: Pages) -> None:
    viewer = await opened(hub)
    pages.error = OSError("the store is away")
    hub.publish(["jobs"])
    await pages.turns.acquire()
    await pages.turns.acquire()
    pages.error, pages.html = None, "back"
    hub.publish(["jobs"])
    assert "back" in await content(viewer)


async def test_a_drain_ends_all_streams(hub: Hub) -> None:
    viewer = await opened(hub)
    await hub.drain()
    assert await viewer.take() is None
    with pytest.raises(TooManyViewers):
        hub.join(JOBS, "ada")


# -- topics ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("job.finished.succeeded.mail.send", OF_EACH_JOB | {"type:mail.send"}),
        ("job.finished.dead.mail.send", OF_EACH_JOB | DEATH | {"type:mail.send"}),
        ("job.retrying.mail", OF_EACH_JOB | {"type:mail"}),
        ("job.dead.mail", OF_EACH_JOB | DEATH | {"type:mail"}),
        ("job.rejected.unknown", OF_EACH_JOB | {"type:unknown", "parked"}),
        ("schedule.ticked.requested.nightly.report", {"schedules", "overview", "schedule:nightly.report"}),
        ("breaker.changed.open", {"breakers", "incidents", "jobs", "overview", "queues"}),
        ("agent.lost.host-1", {"agents", "jobs", "overview"}),
        ("service.unresponsive.scheduler", {"incidents", "queues", "overview"}),
        ("reply.someone", set[str]()),
        ("", set[str]()),
    ],
)
def test_a_key_names_what_changes(key: str, expected: set[str]) -> None:
    assert topics_of(key, b"", ()) == expected


def test_a_watched_job_is_found_in_the_body() -> None:
    body = f'[{{"subject":"{JOB_ID}"}}]'.encode()
    watched = [f"job:{JOB_ID}", "job:another", "queue:mails", "type:sms"]
    found = topics_of("job.finished.succeeded.mail", body, watched)
    assert found & set(watched) == {f"job:{JOB_ID}", "queue:mails"}
    assert topics_of("breaker.changed.open", b"", watched) & set(watched) == {"queue:mails"}, (
        "it may be paused"
    )
