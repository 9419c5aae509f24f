"""The graph of a workflow, read from its calls and turns: nodes, what each is after, and the critical path.

"After" means: that had ended, and then this call was made. Pure; `graph_layout` places it, `graph` draws it.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from uuid import UUID

from warrener.operations.workflows import CALL_TONES, CallState, JobCall
from warrener.render.tones import STATE_SIGNS, TONE_SIGNS, Tone
from warrener_contracts.journals import is_retry, replayed_answers
from warrener_contracts.state_machine import JobState
from warrener_store.jobs.rows import JobRow
from warrener_store.workflows.rows import TurnRow

MOST_ALIKE = 8  # calls of one name in one place with a node each; more are one node
_MOST_BEFORE = 30  # nodes that one call is after: the last that ended
_TASK = re.compile(r"(?:^|/)(\d+(?:\.\d+)*)/(?:map#|(?:job|step|signal)/)")  # in the id of a call


class NodeKind(StrEnum):
    """The subject of a node."""

    JOB = "job"
    MAP = "map"  # all batches of it that stand in one line
    PAGE = "page"  # all that are read in one line
    STEP = "step"
    SIGNAL = "signal"
    TIMER = "timer"
    MORE = "more"  # several that are not alike
    WORKFLOW = "workflow"  # the turn that is on its way, or the end
    LINE = "line"  # no node: the way of an edge through a layer


@dataclass(slots=True, eq=False)
class GraphItem:
    """One call, one timer, or the workflow itself. `reason`: the last one of those that it is after."""

    kind: NodeKind
    name: str
    line: str
    state: JobState | CallState
    length: timedelta | None = None
    call: JobCall | None = None
    reason: "GraphItem | None" = None

    @property
    def alike(self) -> tuple[NodeKind, str, str]:
        return self.kind, self.name, self.line

    @property
    def sign(self) -> tuple[str, Tone]:
        return sign_of(self.state)

    @property
    def counts(self) -> dict[JobState | CallState, int]:
        """Its state; the numbers of a batch of a map, by whether they succeeded."""
        size = (self.call and self.call.size) or 1
        if self.kind is not NodeKind.MAP or self.state not in {CallState.ANSWERED, CallState.FAILED}:
            return {self.state: size}
        failed = self.call.failed if self.call else 0
        ends: dict[JobState | CallState, int] = {JobState.SUCCEEDED: size - failed, CallState.FAILED: failed}
        return {state: count for state, count in ends.items() if count}

    @property
    def is_open(self) -> bool:
        return (
            not self.state.terminal if isinstance(self.state, JobState) else self.state is CallState.AWAITED
        )


@dataclass(slots=True, eq=False)
class GraphNode:
    """One item, or many that are alike. `after`: nodes of earlier layers; `strong`: those of them from which
    the critical path comes."""

    kind: NodeKind
    name: str
    layer: int = 0
    items: list[GraphItem] = field(default_factory=list[GraphItem])
    after: "dict[GraphNode, None]" = field(default_factory=dict["GraphNode", None])
    strong: "set[GraphNode]" = field(default_factory=set["GraphNode"])
    is_critical: bool = False

    @property
    def is_folded(self) -> bool:
        return len(self.items) > 1 or self.kind is NodeKind.MAP

    @property
    def counts(self) -> "Counter[JobState | CallState]":
        """The numbers of calls, and of jobs of a map, by state."""
        found = Counter[JobState | CallState]()
        for one in self.items:
            found.update(one.counts)
        return found


@dataclass(frozen=True, slots=True)
class WorkflowGraph:
    """The nodes of a workflow in the order in which they were made."""

    job_id: UUID
    title: str
    nodes: list[GraphNode]

    @property
    def failed(self) -> list[JobCall]:
        """The calls that did not succeed, of the nodes that stand for several."""
        items = (one for node in self.nodes if node.is_folded for one in node.items)
        return [one.call for one in items if one.call and (one.call.error or one.sign[1] is Tone.ERROR)]


_Entry = tuple[int, GraphItem]  # the last answer within a node, and its place in the order of answers


@dataclass(slots=True)
class _Task:
    """A task of the body: the answers in it that no call has followed yet, and the tasks that it created."""

    answers: dict[GraphNode, _Entry] = field(default_factory=dict[GraphNode, _Entry])
    tasks: "dict[str, _Task]" = field(default_factory=dict[str, "_Task"])

    def walk(self) -> Iterator[tuple[GraphNode, _Entry]]:
        yield from self.answers.items()
        for task in self.tasks.values():
            yield from task.walk()


def read_graph(
    row: JobRow, calls: Sequence[JobCall], turns: Sequence[TurnRow], now: datetime
) -> WorkflowGraph:
    """Read the graph of a workflow. `calls`: all of them, in their order."""
    nodes = _Reader(row, calls, now).read(turns)
    for node in nodes:
        node.after = {one: None for one in node.after if one.layer < node.layer}
        node.name = (
            f"{node.counts.total():,} \N{MULTIPLICATION SIGN} {node.name}" if node.is_folded else node.name
        )
    for node in nodes:  # what another one is after already is left out
        known = {each for one in node.after for each in one.after} - node.strong
        node.after = {one: None for one in node.after if one not in known}
    return WorkflowGraph(row.job_id, f"{row.job_type} {str(row.job_id)[-8:]}", nodes)


class _Reader:
    """Goes through the turns. Each begins with answers; a call is after those within its task, within tasks
    around it and below it that no call has followed before, or else after those that began the turn."""

    def __init__(self, row: JobRow, calls: Sequence[JobCall], now: datetime) -> None:
        self._row, self._now = row, now
        self._items = {call.call_id: _item_of(call, now) for call in calls}
        self._nodes: dict[object, GraphNode] = {}
        self._node_of: dict[GraphItem, GraphNode] = {}
        self._root, self._answered = _Task(), 0
        self._begun: dict[GraphNode, _Entry] = {}  # the answers with which the turn began

    def read(self, turns: Sequence[TurnRow]) -> list[GraphNode]:
        timers, last = self._timers(turns), None
        alike = Counter(one.alike for one in (*self._items.values(), *(one for one, *_ in timers)))
        made: defaultdict[int, list[GraphItem]] = defaultdict(list)
        ended: defaultdict[int, list[GraphItem]] = defaultdict(list)
        for number, (turn, answers) in enumerate(zip(turns, replayed_answers(turns), strict=True)):
            end = None if is_retry(turn) else turn.suspension
            made[number] = self._known(call.call_id for call in (end.calls if end else ()))
            ended[number] += self._known(answer.call_id for answer in answers)
            ended[number + 1] += self._known(answer.call_id for answer in (end.answers if end else ()))
        for timer, at, began in timers:
            made[at].append(timer)
            ended[began].append(timer)
        for number in range(len(turns) + 1):  # the last one may be on its way
            begun = {self._node_of[one]: self._answer(one) for one in ended[number] if one in self._node_of}
            self._begun, last = begun or self._begun, max(begun.values(), key=_order)[1] if begun else last
            self._make(made[number], alike)
        if self._row.state is not JobState.SUSPENDED:
            last = self._add_workflow(last)
        self._mark_path(last)
        return list(self._nodes.values())

    def _known(self, call_ids: Iterable[str | None]) -> list[GraphItem]:
        return [self._items[one] for one in call_ids if one in self._items]

    def _timers(self, turns: Sequence[TurnRow]) -> list[tuple[GraphItem, int, int]]:
        """The timers that came, or that are awaited: the turn that made each, and the one that it began. Of
        each turn the next timer alone is known; one that a call has overtaken is none of them."""
        first: dict[tuple[datetime, str], int] = {}
        found: list[tuple[GraphItem, int, int]] = []
        for number, turn in enumerate(turns):
            end, later = turn.suspension, turns[number + 1 : number + 2]
            if end is None or end.wake_at is None:
                continue
            made = first.setdefault((end.wake_at, end.timer_line or ""), number)
            came = any(one.call_id is None or one.at >= end.wake_at for each in later for one in each.answers)
            if came or (not later and self._row.state is JobState.SUSPENDED and self._row.ending is None):
                state = CallState.ANSWERED if came else CallState.AWAITED
                since = (turns[made].suspended_at or self._now) if came else self._now
                item = GraphItem(NodeKind.TIMER, "timer", end.timer_line or "", state, end.wake_at - since)
                found.append((item, made, number + 1 if came else -1))
        return found

    def _answer(self, item: GraphItem) -> _Entry:
        self._answered += 1
        entry = self._tasks_of(item)[-1].answers[self._node_of[item]] = self._answered, item
        return entry

    def _tasks_of(self, item: GraphItem) -> list[_Task]:
        """The task in which a call was made, behind those around it. The root stands for an unknown one."""
        found = _TASK.search(item.call.call_id) if item.call else None
        tasks = [self._root]
        for part in found[1].split(".") if found else ():
            tasks.append(tasks[-1].tasks.setdefault(part, _Task()))
        return tasks

    def _make(self, items: Sequence[GraphItem], alike: Counter[tuple[NodeKind, str, str]]) -> None:
        followed: dict[int, tuple[list[_Task], dict[GraphNode, _Entry]]] = {}
        for item in items:
            after = self._begun
            if item.call is not None:
                tasks = self._tasks_of(item)
                if id(tasks[-1]) not in followed:
                    around = (entry for task in tasks[:-1] for entry in task.answers.items())
                    in_order = sorted((*tasks[-1].walk(), *around), key=lambda one: _order(one[1]))
                    followed[id(tasks[-1])] = tasks, dict(in_order[-_MOST_BEFORE:])
                after = followed[id(tasks[-1])][1] or after
            is_folded = item.kind in {NodeKind.MAP, NodeKind.PAGE} or alike[item.alike] > MOST_ALIKE
            self._add(item, item.alike if is_folded else item, after)
        for tasks, _ in followed.values():
            tasks[-1].tasks.clear()
            for task in tasks:
                task.answers.clear()

    def _add(self, item: GraphItem, key: object, after: dict[GraphNode, _Entry]) -> GraphNode:
        if key not in self._nodes:
            layer = max((one.layer + 1 for one in after), default=0)
            self._nodes[key] = GraphNode(item.kind, item.name, layer)
        node = self._node_of[item] = self._nodes[key]
        node.items.append(item)
        node.after |= dict.fromkeys(after)
        item.reason = max(after.values(), key=_order)[1] if after else None
        return node

    def _add_workflow(self, last: GraphItem | None) -> GraphItem:
        """Add the workflow itself: after all that no call has followed."""
        row, layers = self._row, [node.layer for node in self._nodes.values()]
        length = row.finished_at - row.requested_at if row.finished_at else None
        name = row.job_type if row.state.terminal else f"turn {row.attempt}"
        item = GraphItem(NodeKind.WORKFLOW, name, "", row.state, length)
        self._add(item, item, dict(self._root.walk()) or self._begun).layer = max(layers, default=-1) + 1
        item.reason = last
        return item

    def _mark_path(self, last: GraphItem | None) -> None:
        """Mark the chain of answers that led to the last one, and the calls that were made then."""
        for item, node in self._node_of.items():
            if last is not None and item.is_open and item.reason is last:
                node.strong.add(self._node_of[last])
        while last is not None:
            node = self._node_of[last]
            node.is_critical = True
            node.strong |= {self._node_of[last.reason]} if last.reason else set()
            last = last.reason


def _order(entry: _Entry) -> int:
    return entry[0]


def sign_of(state: JobState | CallState) -> tuple[str, Tone]:
    """The sign of a state, and its tone."""
    if isinstance(state, JobState):
        return STATE_SIGNS[state]
    return TONE_SIGNS[CALL_TONES[state]], CALL_TONES[state]


def _item_of(call: JobCall, now: datetime) -> GraphItem:
    end = call.answered_at or (now if call.state is CallState.AWAITED else None)
    length = max(end - call.called_at, timedelta(0)) if end and call.called_at else None
    return GraphItem(
        NodeKind(call.kind.value), call.name, call.line, call.job_state or call.state, length, call
    )
