"""The graph of a workflow: the order of its calls, its critical path, and a drawing that stays small."""

import time
from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from warrener.web.charts.graph import draw_graph
from warrener.web.charts.graph_layout import (
    HEIGHT,
    MOST_LAYERS,
    MOST_ROWS,
    UNDO,
    fold,
    has_undo,
    height_of,
    place,
)
from warrener.web.charts.workflow_graph import MOST_ALIKE, WorkflowGraph
from warrener_contracts.identity import child_job_id
from warrener_contracts.state_machine import JobState

from .test_drawings import HOSTILE, check_picture
from .workflow_courses import WORKFLOW_ID, Course, batches, branches, child_id, map_of, order_that_was_undone

MAX_BYTES = 64_000
TIMES = "\N{MULTIPLICATION SIGN}"


def test_a_map_is_one_node_with_the_counts_of_its_jobs_and_its_failures_are_named() -> None:
    graph = batches().graph()
    (node,) = graph.nodes
    assert node.name == f"1,200 {TIMES} files.load"
    assert {state.value: count for state, count in node.counts.items()} == {
        "succeeded": 498,
        "failed": 2,
        "awaited": 700,
    }
    (call,) = graph.failed
    assert call.error == "2 failed"
    failed = child_job_id(WORKFLOW_ID, "map/files.load/0/map#1/0/7")
    assert [(one.index, one.job_id, one.error) for one in call.failures] == [
        (7, failed, "NoRoom: all vans are full")
    ]
    picture = draw_graph(graph).__html__()
    assert "498 succeeded" in picture
    assert f"/jobs?parent={WORKFLOW_ID}&amp;type=files.load" in picture


def order_of(graph: WorkflowGraph) -> dict[str, list[str]]:
    """The nodes by name, each with those that it is after."""
    return {node.name: sorted(one.name for one in node.after) for node in graph.nodes}


def critical(graph: WorkflowGraph) -> list[str]:
    return [node.name for node in graph.nodes if node.is_critical]


def names_by_layer(graph: WorkflowGraph) -> list[list[str]]:
    layers = sorted({node.layer for node in graph.nodes})
    return [[node.name for node in graph.nodes if node.layer == layer] for layer in layers]


def test_a_call_is_after_those_that_had_ended_and_the_last_of_them_was_critical() -> None:
    graph = order_that_was_undone().graph(ending=JobState.DEAD)
    both = ["cards.charge", "stock.reserve"]
    assert order_of(graph) == {
        "price": [],
        "stock.reserve": ["price"],
        "cards.charge": ["price"],
        "packed": both,
        "mail.receipt": both,
        "vans.book": ["mail.receipt", "packed"],
    }
    assert critical(graph) == ["price", "cards.charge", "packed", "vans.book"]
    assert names_by_layer(graph) == [["price"], both[::-1], ["packed", "mail.receipt"], ["vans.book"]]


def test_tasks_go_on_by_themselves_until_something_follows_them_all() -> None:
    graph = branches(of=4, long=3).graph()
    assert [len(layer) for layer in names_by_layer(graph)] == [1, 4, 4, 4, 1]
    for node in graph.nodes:
        task = node.items[0].call.call_id.partition("/")[0] if node.items[0].call else ""
        if node.name in {"second.part", "third.part"}:
            assert [
                one.items[0].call.call_id.partition("/")[0] for one in node.after if one.items[0].call
            ] == [task]
    assert order_of(graph)["branches.join"] == ["third.part"] * 4


def test_a_call_that_only_a_lock_of_another_task_has_delayed_is_after_the_end_that_released_it() -> None:
    course = Course().turn(1, "0.1/job/first#1").turn(3, "0.2/job/second#1", ended={"0.1/job/first#1": 2})
    graph = course.turn(9, "0/job/third#1", ended={"0.2/job/second#1": 8}).graph()
    assert order_of(graph) == {"first": [], "second": ["first"], "third": ["second"]}


def test_a_map_is_one_node_that_counts_its_states_and_names_its_failures() -> None:
    graph = map_of(500, failures=3).graph()
    assert [node.name for node in graph.nodes] == ["files.list", f"500 {TIMES} files.load", "files.report"]
    calls = [f"job/files.load/0/map#1/{number}" for number in (497, 498, 499)]
    assert [call.call_id for call in graph.failed] == calls
    drawn = draw_graph(graph).__html__()
    assert f"500 {TIMES} files.load, orders.py:40: 497 succeeded, 3 dead" in drawn
    assert f'href="/jobs?parent={WORKFLOW_ID}&amp;type=files.load"' in drawn
    few = map_of(MOST_ALIKE, failures=1).graph()
    assert len(few.nodes) == MOST_ALIKE + 2
    assert few.failed == [], "each has a node, which shows it"


def test_a_loop_over_two_calls_leads_forward_only() -> None:
    course, before = Course(), ""
    for number in range(30):
        course.turn(10 * number + 1, f"0/job/fetch#{number}", ended={before: 10 * number} if before else {})
        course.turn(
            10 * number + 6, f"0/job/store#{number}", ended={f"0/job/fetch#{number}": 10 * number + 5}
        )
        before = f"0/job/store#{number}"
    assert order_of(course.graph()) == {f"30 {TIMES} fetch": [], f"30 {TIMES} store": [f"30 {TIMES} fetch"]}


def test_timers_stand_where_the_body_waited_for_them() -> None:
    course = Course().turn(1, "0/job/ask#1")
    course.turn(5, ended={"0/job/ask#1": 4}, wake=600)  # asyncio.sleep
    course.turn(601, "0/signal/answer#1", ended={"": 600}, wake=4200)  # a timeout around the signal
    waiting = course.graph(now=1200)
    timers = [node.items[0] for node in waiting.nodes if node.name == "timer"]
    assert [one.is_open for one in timers] == [False, True]
    assert [one.length.total_seconds() for one in timers if one.length] == [595, 3000]
    signal = next(node for node in waiting.nodes if node.name == "answer")
    assert [(one.name, one.items[0].is_open) for one in signal.after] == [("timer", False)]
    assert "due in 50 min" in draw_graph(waiting).__html__()
    came_in_time = course.turn(700, "0/job/thank#1", ended={"0/signal/answer#1": 650}).graph()
    assert [node.name for node in came_in_time.nodes] == ["ask", "timer", "answer", "thank"]
    assert critical(came_in_time) == ["ask", "timer", "answer"]
    assert order_of(came_in_time)["thank"] == ["answer"]


def test_what_nothing_has_followed_leads_to_the_end() -> None:
    course = Course().turn(1, "0/job/left#1 0/job/right#1").turn(3, ended={"0/job/left#1": 2})
    running = course.graph(state=JobState.RUNNING)
    assert order_of(running)["turn 2"] == ["left"]
    over = course.last_turn({"0/job/right#1": 9}).graph(state=JobState.SUCCEEDED)
    assert order_of(over)["orders.fulfil"] == ["left", "right"]
    assert critical(over) == ["right", "orders.fulfil"]


def test_each_node_leads_to_its_job_and_an_undo_hangs_from_its_call() -> None:
    graph = order_that_was_undone().graph(ending=JobState.DEAD)
    drawn = draw_graph(graph).__html__()
    assert f'href="/jobs/{child_id("0/job/vans.book#1")}"' in drawn
    assert "vans.book, orders.py:39, dead, 15 s: NoRoom: all vans are full" in drawn
    for words in ("undo stock.release, running", "undo cards.refund, succeeded", "undo vans.cancel, dead"):
        assert drawn.count(words) == 2, "for eyes, and for screen readers"
    assert drawn.count(" chart-node-open") == 2, "the undo that runs, and its meaning in the legend"


def test_of_too_many_rows_those_without_interest_are_one_node() -> None:
    calls = [f"0/job/country{number}#1" for number in range(30)]
    course = Course().turn(1, calls)
    good = {call: number + 2.0 for number, call in enumerate(calls) if number not in {20, 25}}
    graph = fold(course.turn(99, "0/job/join#1", ended=good, died={calls[20]: 8}).graph())
    first, [join] = names_by_layer(graph)
    assert (len(first), join) == (MOST_ROWS, "join")
    assert {"country29", "country20", "country25", "and 23 more"} <= set(first), "critical, dead, awaited"


def test_of_too_many_layers_the_middle_ones_are_one_node() -> None:
    course = Course()
    for number in range(40):
        course.turn(
            number + 0.5,
            f"0/job/part{number}#1",
            ended={f"0/job/part{number - 1}#1": number} if number else {},
        )
    graph = fold(course.graph())
    layers = names_by_layer(graph)
    assert len(layers) == MOST_LAYERS
    assert layers[3:6] == [["part3"], ["and 29 more"], ["part33"]]
    assert order_of(graph)["part33"] == ["and 29 more"]
    assert len(critical(graph)) == MOST_LAYERS - 1


tasks = st.sampled_from(["0/", "0.1/", "0.2/", "0.2.1/", ""])
names = st.sampled_from(
    ["job/files.load", "job/mail.send", "step/price", "signal/packed", "job/" + "W" * 120]
)


@st.composite
def courses(draw: st.DrawFn) -> Course:
    """Any calls in any order, of which some end."""
    course, waiting = Course(undo={"mail.send": "mail.sorry"}), list[str]()
    for number in range(draw(st.integers(1, 25))):
        ended = draw(st.lists(st.sampled_from(waiting), unique=True, max_size=6)) if waiting else []
        made = [
            f"{draw(tasks)}{draw(names)}{draw(st.sampled_from(['', number]))}#{number}.{place}"
            for place in range(draw(st.integers(0, 12)))
        ]
        waiting = [one for one in waiting if one not in ended] + made
        wake = draw(st.sampled_from([None, number + 1.5, 900.0]))
        good, bad = ended[::2], ended[1::2]
        course.turn(
            number + 0.5, made, ended=dict.fromkeys(good, number), died=dict.fromkeys(bad, number), wake=wake
        )
        for one in made:
            if "mail.send" in one and draw(st.booleans()):
                course.undone(one, draw(st.sampled_from([JobState.DEAD, JobState.RUNNING])))
    return course


@given(courses(), st.sampled_from([JobState.SUSPENDED, JobState.RUNNING, JobState.DEAD]))
@settings(deadline=None, max_examples=80)
def test_a_graph_of_any_course_is_small_and_nothing_lies_over_another(
    course: Course, state: JobState
) -> None:
    graph = fold(course.graph(state=state))
    assert all(one.layer < node.layer for node in graph.nodes for one in node.after)
    layout = place(graph)
    for (one, (x, y)), (two, (other_x, other_y)) in combinations(layout.corners.items(), 2):
        upper, y_of_lower = (one, other_y) if y < other_y else (two, y)
        assert x != other_x or min(y, other_y) + height_of(upper) + UNDO * has_undo(upper) < y_of_lower
    for x, y in layout.corners.values():
        assert 0 <= x <= layout.size[0]
        assert 0 <= y <= layout.size[1] - HEIGHT
    picture = draw_graph(course.graph(state=state))
    check_picture(picture)
    assert len(picture.__html__()) < MAX_BYTES


def test_hostile_names_are_texts() -> None:
    for name in HOSTILE:
        course = Course().turn(1, "0/job/x#1")
        graph = course.graph()
        graph.nodes[0].name = name
        check_picture(draw_graph(graph))


def test_2000_calls_that_all_depend_on_each_other_are_drawn_in_little_time() -> None:
    first = [f"0/job/a{number}#1" for number in range(1000)]
    second = [f"0.{number}/job/b{number}#1" for number in range(1000)]
    course = Course().turn(1, first)
    course.turn(5, second, ended={call: 2 + place / 1000 for place, call in enumerate(first)})
    row = course.row()
    calls = course.calls(row)
    began = time.process_time()
    assert len(calls) == 2000
    assert len(draw_graph(course.graph()).__html__()) < MAX_BYTES
    assert time.process_time() - began < 2, "tenths of a second, on a slow machine too"
