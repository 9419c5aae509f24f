"""The view is made from readings alone, and a picture of it fits the terminal."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from rich.console import Console
from tests.store_rows import NOON, agent_row

from warrener.doctor.inspector import QueueInfo
from warrener.gathering import BrokerFacts
from warrener.operations.agents import AgentSummary, agent_of
from warrener.operations.masking import Masker
from warrener.render.screen import THEME
from warrener.top.live import parse_keys
from warrener.top.picture import Choices, frame, plain_picture
from warrener.top.readings import StoreReading
from warrener.top.sections import SECTIONS
from warrener.top.view import SystemView, make_view
from warrener_contracts.state_machine import JobState
from warrener_store.jobs.rows import StateCount
from warrener_store.jobs.views import QueueHead


def agent(name: str, **changes: Any) -> AgentSummary:
    fields = {"queues": ("loading",), "running": 3, "free_slots": {"loading": 7}} | changes
    return agent_of(agent_row(name, **fields), NOON, Masker(None))


def jobs(state: JobState, number: int, *, kind: str = "flights.load", queue: str = "loading") -> StateCount:
    return StateCount(job_type=kind, queue=queue, state=state, jobs=number)


BEFORE = StoreReading(
    at=10.0,
    now=NOON - timedelta(seconds=2),
    counts=(jobs(JobState.QUEUED, 8), jobs(JobState.SUCCEEDED, 100), jobs(JobState.DEAD, 1)),
    duties={},
)
STORE = StoreReading(
    at=12.0,
    now=NOON,
    counts=(
        jobs(JobState.QUEUED, 10),
        jobs(JobState.RUNNING, 3),
        jobs(JobState.SUCCEEDED, 120),
        jobs(JobState.DEAD, 2),
        jobs(JobState.WAITING, 4, kind="mail.send", queue="mail"),
    ),
    heads=(QueueHead("loading", NOON - timedelta(seconds=42), unpublished=False),),
    agents=(agent("one"), agent("two", last_seen_at=NOON - timedelta(minutes=1))),
    duties={"metrics": "supervisor-1"},
)
BROKER = BrokerFacts(
    product="RabbitMQ 4.3",
    requests=QueueInfo(5, 2),
    statuses=QueueInfo(0, 1),
    queues={"loading": QueueInfo(10, 1), "mail": None},
)
VIEW = make_view(STORE, BROKER, 6, BEFORE, NOON)


def drawn(view: SystemView, width: int, height: int, choices: Choices | None = None) -> list[str]:
    screen = Console(width=width, height=height, theme=THEME, highlight=False, force_terminal=False)
    with screen.capture() as captured:
        screen.print(frame(view, choices or Choices(), width, height))
    return captured.get().removesuffix("\n").split("\n")


def test_rates_are_differences_of_two_readings() -> None:
    loading, mail = VIEW.queues
    assert (loading.name, loading.in_rate, loading.out_rate) == ("loading", 13.0, 10.5)
    assert (mail.name, mail.in_rate, mail.out_rate) == ("mail", 2.0, 0.0)
    load, _ = VIEW.job_types
    assert (load.succeeded_rate, load.failed_rate, load.jobs[JobState.DEAD]) == (10.0, 0.5, 2)
    assert (VIEW.totals.requested_rate, VIEW.totals.finished_rate) == (15.0, 10.5)


def test_a_first_reading_has_no_rates_and_a_deletion_makes_none_negative() -> None:
    first = make_view(STORE, BROKER, 6, None, NOON)
    assert {first.totals.requested_rate, first.queues[0].in_rate, first.job_types[0].failed_rate} == {None}
    pruned = make_view(replace(STORE, counts=(jobs(JobState.SUCCEEDED, 3),)), BROKER, 6, BEFORE, NOON)
    assert (pruned.queues[0].in_rate, pruned.queues[0].out_rate) == (0.0, 0.0)


def test_queues_show_store_and_broker_side_by_side() -> None:
    loading, mail = VIEW.queues
    assert (loading.jobs[JobState.QUEUED], loading.waiting, loading.consumers) == (10, 10, 1)
    assert loading.oldest == NOON - timedelta(seconds=42)
    assert (mail.jobs[JobState.WAITING], mail.exists, mail.oldest) == (4, False, None)


def test_silent_agents_have_no_free_slots() -> None:
    services = VIEW.services
    assert (services.schedulers, services.supervisors, services.agents_alive) == (2, 1, 1)
    assert (services.slots_used, services.slots_free) == (3, 7)


def test_nothing_is_known_of_what_does_not_answer() -> None:
    view = make_view("the store is away", BrokerFacts("no broker"), None, BEFORE, NOON)
    assert (view.store_trouble, view.broker_trouble) == ("the store is away", "no broker")
    assert (view.services.schedulers, view.services.agents_alive, view.totals.jobs["queued"]) == (None,) * 3
    lines = drawn(view, 80, 24)
    assert "? schedulers  ? supervisors  ? agents" in lines[1]
    assert lines[3:5] == ["✗ store: the store is away", "✗ broker: no broker"]
    unread = make_view("", BrokerFacts(), None, None, NOON)
    assert (unread.store_trouble, unread.broker_trouble) == (None, None), "nothing is wrong before a reading"


def test_a_broker_that_is_silent_leaves_the_store_in_view() -> None:
    view = make_view(STORE, BrokerFacts("no broker"), None, BEFORE, NOON)
    assert view.queues[0].jobs[JobState.QUEUED] == 10
    assert view.queues[0].waiting is None


@pytest.mark.parametrize("width", [80, 200])
@pytest.mark.parametrize("height", [24, 60])
@pytest.mark.parametrize("section", range(len(SECTIONS)))
def test_a_frame_fills_the_terminal_and_is_no_larger(width: int, height: int, section: int) -> None:
    many = tuple(agent(f"agent-{n:03}-with-a-name-that-is-long" * 3) for n in range(70))
    view = make_view(replace(STORE, agents=many), BROKER, 6, BEFORE, NOON)
    lines = drawn(view, width, height, Choices(section=section))
    assert len(lines) == height
    assert max(map(len, lines)) <= width
    assert lines[0].startswith("warrener top")
    assert lines[-1].startswith("q quit")
    assert any(line.startswith(SECTIONS[section].name) for line in lines[4:])


def test_a_higher_terminal_shows_more_sections() -> None:
    def sections(height: int) -> int:
        lines = drawn(VIEW, 80, height)[4:-1]
        return sum(line.split("  ")[0] in {"queues", "types", "agents"} for line in lines)

    assert (sections(10), sections(24)) == (1, 3)


def test_keys_choose_and_pause() -> None:
    chosen = Choices()
    for key in parse_keys(b"\x1b[C\x1bOC\x1b[D3p"):
        chosen = chosen.press(key)
    assert (chosen.section, chosen.paused) == (2, True)
    assert chosen.press("x") == chosen
    assert Choices().press("left").section == len(SECTIONS) - 1
    assert Choices().press("tab").section == 1


def test_the_plain_picture_has_each_section_with_rows() -> None:
    screen = Console(width=120, theme=THEME, highlight=False)
    with screen.capture() as captured:
        screen.print(plain_picture(VIEW, 120))
    text = captured.get()
    assert [name for name in ("queues", "types", "agents") if f"\n{name}\n" in text] == [
        "queues",
        "types",
        "agents",
    ]
    assert "metrics: supervisor-1" in text
    assert "requests 5" in text
    assert "delayed 6" in text
