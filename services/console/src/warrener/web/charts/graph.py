"""The graph of a workflow: what it has called, from left to right in the order in which it got on. Pure.

A place that is too narrow scrolls it. Shapes, signs and words have the meanings of the colours too.
"""

from collections import Counter
from collections.abc import Iterator
from urllib.parse import quote

from warrener.operations.workflows import CallState
from warrener.render.times import brief, span
from warrener.render.tones import STATE_SIGNS, Tone
from warrener.web.charts.graph_layout import HEIGHT, START, UNDO, WIDTH, fold, has_undo, height_of, place
from warrener.web.charts.picture import Picture, draw, legend, text_width
from warrener.web.charts.svg import Attributes, Markup, element, join, link
from warrener.web.charts.workflow_graph import GraphItem, GraphNode, NodeKind, WorkflowGraph, sign_of

_PAD, _BAR, _MIN_PART = 12, 5, 3.0  # beside texts; height of the bar of states, least width of a part of it
_BOLD = 1.08  # a name is wider than a text
_MOST_STATES = 4  # in words
_OUTSIDE = {NodeKind.SIGNAL, NodeKind.TIMER}


def draw_graph(graph: WorkflowGraph) -> Picture:
    """Draw a workflow: one on a page, which lists its calls too. The drawing takes the nodes of the graph."""
    calls = sum(item.call is not None for node in graph.nodes for item in node.items)
    words = (f"Graph of {graph.title}", f"{calls:,} calls, in the order in which they were made.")
    folded = fold(graph)
    layout = place(folded)
    thin, strong = ("".join(d for d, look in layout.lines.items() if look is each) for each in (False, True))
    behind = [
        element("path", d=thin, class_="chart-edge"),
        element("path", d=strong, class_="chart-edge chart-edge-path"),
        element("circle", cx=START, cy=layout.start, r=4, class_="chart-edge-end"),
    ]
    nodes = [_draw_node(folded, node, *corner) for node, corner in layout.corners.items()]
    parts = [element("g", *behind, aria_hidden="true"), *nodes]
    drawn = draw(parts, layout.size, "graph", words, "chart-graph", linked=True)
    scrolled = element("div", drawn, class_="chart-scroll", tabindex="0", role="group", aria_label=words[0])
    return Picture(join([scrolled, legend(_swatches(folded, drawn))]), Markup(""))


def _draw_node(graph: WorkflowGraph, node: GraphNode, x: int, y: int) -> Markup:
    look = "chart-edge-end" + " chart-edge-path" * (node.is_critical or bool(node.strong))
    arrow = element("path", d=f"M0 {height_of(node) // 2}l-8 -4v8z", class_=look)
    parts = _fold_parts(node) if node.is_folded else _parts(node)
    words = _words(node)
    drawn = element("g", element("title", words), arrow, *parts, aria_hidden="true")
    undo = _undo_parts(node) if has_undo(node) else ()
    return element("g", link(_address(graph, node), words, drawn), *undo, transform=f"translate({x} {y})")


def _address(graph: WorkflowGraph, node: GraphNode) -> str | None:
    """The page of the job, or the list of the jobs."""
    call = node.items[0].call
    if call is None or (call.job_id is None and call.size is None):
        return None
    of_type = "" if node.kind is NodeKind.MORE else f"&type={quote(call.name)}"
    return f"/jobs?parent={graph.job_id}{of_type}" if node.is_folded else f"/jobs/{call.job_id}"


def _parts(node: GraphNode) -> Iterator[Markup]:
    item = node.items[0]
    yield _box(node, HEIGHT, item.sign[1], is_open=item.is_open)
    yield _text(18, node.name, item.sign)
    yield element("text", _state(item), x=_PAD, y=33, class_="chart-axis")


def _fold_parts(node: GraphNode) -> Iterator[Markup]:
    """A pile: a bar of the states of its items, and their counts."""
    signs = Counter[tuple[str, Tone]]()
    for state, count in node.counts.items():
        signs[sign_of(state)] += count
    counts = signs.most_common()
    tone = Tone.ERROR if any(tone is Tone.ERROR for (_, tone), _ in counts) else counts[0][0][1]
    for off in (6, 3, 0):
        yield _box(node, height_of(node) - 6, tone, off)
    yield _text(17, node.name)
    room, x = WIDTH - 2 * _PAD - 6, float(_PAD)
    widths = [max(count / signs.total() * room, _MIN_PART) for _, count in counts]
    counted: list[Markup] = []
    for ((sign, tone), count), width in zip(counts, widths, strict=True):
        part = width * room / sum(widths)
        yield element("rect", x=x, y=25, width=part - 1, height=_BAR, class_=f"chart-bar chart-{tone}")
        look = f"chart-tone-{tone}"
        counted.append(element("tspan", f"{sign} {count:,}", dx=8 if counted else None, class_=look))
        x += part
    yield element("text", *counted[:_MOST_STATES], x=_PAD, y=46, class_="chart-axis")


def _box(node: GraphNode, height: int, tone: Tone, off: int = 0, *, is_open: bool = False) -> Markup:
    look = f"chart-node chart-{tone}" + " chart-node-open" * is_open + " chart-node-path" * node.is_critical
    rx = height / 2 if node.kind in _OUTSIDE else 6
    return element("rect", x=off, y=off, width=WIDTH - 6 * node.is_folded, height=height, rx=rx, class_=look)


def _text(y: int, name: str, sign: tuple[str, Tone] | None = None) -> Markup:
    """A name, of which only the end is shown if it is long: names begin alike."""
    room = (WIDTH - 2 * _PAD - (14 if sign else 6)) / _BOLD
    shown = name[-WIDTH:]
    while shown and text_width(shown if shown == name else f"…{shown}") > room:
        shown = shown[1:]
    shown = shown if shown == name else f"…{shown}"
    drawn = element("tspan", f"{sign[0]} ", class_=f"chart-tone-{sign[1]}") if sign else ""
    return element("text", drawn, shown, x=_PAD, y=y, class_="chart-node-name")


def _undo_parts(node: GraphNode) -> Iterator[Markup]:
    """The job that undoes a call, hanging from it."""
    call = node.items[0].call
    assert call is not None
    assert call.undo_state is not None
    sign, tone = STATE_SIGNS[call.undo_state]
    look = f"chart-node chart-{tone}" + " chart-node-open" * (not call.undo_state.terminal)
    words = f"undo {call.undo}, {call.undo_state.value}"
    mark = element("tspan", f"{sign} undo ", class_=f"chart-tone-{tone}")
    drawn = element(
        "g",
        element("title", words),
        element("path", d=f"M14 {HEIGHT}v18h10", class_="chart-edge chart-edge-undo"),
        element("rect", x=24, y=HEIGHT + 6, width=WIDTH - 24, height=UNDO - 6, rx=6, class_=look),
        element("text", mark, (call.undo or "")[-16:], x=34, y=HEIGHT + 22, class_="chart-axis"),
        aria_hidden="true",
    )
    yield link(f"/jobs/{call.undo_id}", words, drawn)


def _state(item: GraphItem) -> str:
    """`succeeded, 1.2 s`; `signal, awaited 3 min`; `came after 2 h`."""
    length = ""
    if item.length is not None:
        length = brief(item.length) if item.length.total_seconds() < 60 else span(item.length, units=1)
    if item.kind is NodeKind.TIMER:
        return f"due in {length}" if item.state is CallState.AWAITED else f"came after {length}"
    kind = f"{item.kind}, " if item.kind in (NodeKind.PAGE, NodeKind.STEP, NodeKind.SIGNAL) else ""
    return f"{kind}{item.state.value}{' ' if item.is_open else ', '}{length}".rstrip(" ,")


def _words(node: GraphNode) -> str:
    item = node.items[0]
    error = f": {item.call.error}" if item.call and item.call.error else ""
    if not node.is_folded:
        return ", ".join(filter(None, (node.name, item.line, _state(item)))) + error
    counts = ", ".join(f"{count:,} {state.value}" for state, count in node.counts.most_common())
    undone = sum(one.call is not None and one.call.undo_id is not None for one in node.items)
    line = "" if node.kind is NodeKind.MORE else f", {item.line}"
    return f"{node.name}{line}: {counts}" + (f"; {undone:,} with an undo" if undone else "")


def _swatches(graph: WorkflowGraph, drawn: str) -> Iterator[tuple[Markup, str]]:
    box: Attributes = {"x": 1, "y": 0.5, "width": 16, "height": 9}
    if any(node.strong for node in graph.nodes):
        yield element("path", d="M0 5H18", class_="chart-edge chart-edge-path"), "critical path"
    if "chart-node-open" in drawn:
        look = "chart-node chart-node-open chart-live"
        yield element("rect", **box, rx=2, class_=look), "has not ended"
    if any(node.kind in _OUTSIDE for node in graph.nodes):
        yield element("rect", **box, rx=4.5, class_="chart-node chart-soft"), "signal or timer"
