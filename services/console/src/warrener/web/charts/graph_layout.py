"""Places for the nodes of a workflow's graph: a bounded number, in layers from left to right. Pure.

Nodes of a layer stand below each other, in the order of what they are after.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from warrener.render.tones import Tone
from warrener.web.charts.svg import line_path
from warrener.web.charts.workflow_graph import GraphNode, NodeKind, WorkflowGraph

MOST_LAYERS, MOST_ROWS = 12, 8  # that are drawn; the middle layers, and further rows, are one node
WIDTH, HEIGHT, FOLDED, UNDO = 178, 42, 60, 30  # of nodes, of one of many items, of an undo with its gap
_FIRST_LAYERS, _BETWEEN, _BELOW, _EDGE, _MARGIN = 4, 46, 14, 40, 4
START = 8  # where all begins


class Layout(NamedTuple):
    """Upper left corners of nodes, and paths of edges: True for those of the critical path."""

    corners: dict[GraphNode, tuple[int, int]]
    lines: dict[str, bool]
    size: tuple[int, int]
    start: int  # height of the point where all begins


def has_undo(node: GraphNode) -> bool:
    return len(node.items) == 1 and node.items[0].call is not None and node.items[0].call.undo_id is not None


def height_of(node: GraphNode) -> int:
    """The height of a node without its undo: an edge meets the middle of it."""
    return 0 if node.kind is NodeKind.LINE else FOLDED if node.is_folded else HEIGHT


def fold(graph: WorkflowGraph) -> WorkflowGraph:
    """Fold the middle of too many layers into one node, and of too many rows those of the least interest."""
    layers = _by_layer(graph.nodes)
    middle = layers[_FIRST_LAYERS : _FIRST_LAYERS - MOST_LAYERS + 1] if len(layers) > MOST_LAYERS else []
    groups = [[node for layer in middle for node in layer]]
    groups += [
        sorted(layer, key=_rank)[MOST_ROWS - 1 :]
        for layer in layers
        if len(layer) > MOST_ROWS and layer not in middle
    ]
    stand_ins = {node: node for node in graph.nodes}
    for group in filter(None, groups):
        items = [item for node in group for item in node.items]
        more = GraphNode(NodeKind.MORE, f"and {len(items):,} more", group[0].layer, items)
        more.is_critical = any(node.is_critical for node in group)
        stand_ins |= dict.fromkeys(group, more)
    edges = [
        (stand_ins[node], stand_ins[one], one in node.strong) for node in graph.nodes for one in node.after
    ]
    nodes = dict.fromkeys(stand_ins.values())
    for node in nodes:
        node.after, node.strong = {}, set()
        node.layer = max(min(node.layer, _FIRST_LAYERS), node.layer - max(len(middle) - 1, 0))
    for node, one, strong in edges:
        if one.layer < node.layer:
            node.after[one] = None
            node.strong |= {one} if strong else set()
    return WorkflowGraph(graph.job_id, graph.title, list(nodes))


def _rank(node: GraphNode) -> tuple[bool, bool, bool]:
    """Nodes on the critical path come first, then failed ones, then those that have not ended."""
    has_failed = any(one.sign[1] is Tone.ERROR for one in node.items)
    return not node.is_critical, not has_failed, not any(one.is_open for one in node.items)


def _by_layer(nodes: Sequence[GraphNode]) -> list[list[GraphNode]]:
    layers: list[list[GraphNode]] = [[] for _ in range(max((node.layer for node in nodes), default=-1) + 1)]
    for node in nodes:
        layers[node.layer].append(node)
    return layers


def place(graph: WorkflowGraph) -> Layout:
    """Place a folded graph, and lead each edge through the layers that it passes."""
    nodes = [*graph.nodes, *_lead(graph.nodes)]
    layers, heights = _by_layer(nodes), dict[GraphNode, float]()  # where an edge meets a node
    for layer in layers:
        aims = {node: _mean([heights[one] for one in node.after]) for node in layer}
        y = 0.0
        for node in sorted(layer, key=lambda one: aims[one]):
            heights[node] = y + height_of(node) / 2
            y += height_of(node) + UNDO * has_undo(node) + _BELOW
        off = _mean([aims[node] - heights[node] for node in layer if node.kind is not NodeKind.LINE])
        for node in layer:
            heights[node] += off
    top = min((heights[node] - height_of(node) / 2 for node in nodes), default=0.0) - _MARGIN
    heights = {node: round(y - top) for node, y in heights.items()}
    start = round(_mean([heights[node] for node in layers[0]] if layers else []))
    lines: dict[str, bool] = {}
    for line, strong in _lines(nodes, heights, start):
        lines[line] = strong or lines.get(line, False)
    corners = {node: (_x(node.layer), round(heights[node]) - height_of(node) // 2) for node in graph.nodes}
    bottom = max((heights[node] + height_of(node) / 2 + UNDO * has_undo(node) for node in nodes), default=0)
    return Layout(corners, lines, (_x(len(layers)) - _BETWEEN + _MARGIN, round(bottom) + _MARGIN), start)


def _lead(nodes: Sequence[GraphNode]) -> list[GraphNode]:
    """Lead each edge over places in the layers between its ends; those of one node go together."""
    ways: dict[tuple[GraphNode, int], GraphNode] = {}
    for node in nodes:
        after, strong = node.after, node.strong
        node.after, node.strong = {}, set()
        for source in after:
            one = source
            for layer in range(source.layer + 1, node.layer):
                way = ways.setdefault((source, layer), GraphNode(NodeKind.LINE, "", layer))
                way.after = {one: None}
                way.strong |= {one} if source in strong else set()
                one = way
            node.after[one] = None
            node.strong |= {one} if source in strong else set()
    return list(ways.values())


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _x(layer: int) -> int:
    return _EDGE + layer * (WIDTH + _BETWEEN)


def _lines(
    nodes: Sequence[GraphNode], heights: Mapping[GraphNode, float], start: int
) -> Iterator[tuple[str, bool]]:
    """The pieces of all edges. Several nodes that are after the same several ones have a point in common."""
    alike: dict[tuple[int, frozenset[GraphNode]], list[GraphNode]] = {}
    for node in nodes:
        alike.setdefault((node.layer, frozenset(node.after)), []).append(node)
        if node.kind is NodeKind.LINE:
            yield _curve(_x(node.layer), heights[node], WIDTH, heights[node]), bool(node.strong)
    for (layer, before), targets in alike.items():
        begin, half, y = _x(layer) - _BETWEEN, _BETWEEN / 2, round(_mean([heights[one] for one in targets]))
        meet = len(before) > 1 and len(targets) > 1
        for node in targets:
            if not before:
                yield _curve(START, start, _x(0) - START, heights[node]), node.is_critical
            elif meet:
                yield _curve(begin + half, y, half, heights[node]), bool(node.strong)
            for one in node.after:
                end = (half, y) if meet else (_BETWEEN, heights[node])
                yield _curve(begin, heights[one], *end), one in node.strong


def _curve(x: float, y: float, width: float, end_y: float) -> str:
    if y == end_y:
        return line_path([(x, y), (x + width, y)])
    middle, end = x + width / 2, x + width
    return f"M{x:g} {y:g}C{middle:g} {y:g} {middle:g} {end_y:g} {end:g} {end_y:g}"
