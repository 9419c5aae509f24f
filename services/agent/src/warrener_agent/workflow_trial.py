"""For users' tests: a workflow in virtual time, each turn replayed from its journal, without any service.

trial = run_workflow(agent, "orders.fulfil", {"order": 7}, jobs={"cards.charge": {"number": "R1"}})
assert trial.waits == ("signal packed",)
trial.send("packed", {"box": 3})
assert trial.result == "R1"
"""

import asyncio
import inspect
import json
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from contextvars import copy_context
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, TypeVar
from uuid import UUID, uuid5

from pydantic import ValidationError
from pydantic_core import from_json, to_jsonable_python

from warrener_agent.agent import Agent
from warrener_agent.decisions.errors import describe_error
from warrener_agent.definitions.job import JobDefinition
from warrener_agent.workflows import failures, turn
from warrener_agent.workflows.maps import PAUSE
from warrener_agent.workflows.targets import check_read, lines_of
from warrener_contracts.events import (
    MAX_MEMBER_FAILURES,
    MAX_MEMBERS,
    Answer,
    Call,
    CallKind,
    JobSignalRequestedData,
    Journal,
    MemberFailure,
    MembersEnd,
    PageSize,
    StepRetry,
    Suspension,
    Turn,
    UndoRequest,
)
from warrener_contracts.fields import parse_duration
from warrener_contracts.journals import all_calls, next_timer, open_calls, read_pages
from warrener_contracts.json_safety import is_array, is_object
from warrener_contracts.state_machine import JobState

T = TypeVar("T")

_PAUSE = timedelta(seconds=2 * PAUSE)
_BEGAN_AT = datetime(2026, 1, 1, tzinfo=UTC)
_MAX_GENERATIONS = 1_000  # without a wait
_JOB_ID = UUID("6f1b5b1e-8f3c-5d0a-9d5e-2f4c7a1b3c5d")


def run_workflow(
    agent: Agent,
    name: str,
    arguments: Mapping[str, Any] | None = None,
    *,
    jobs: Mapping[str, Any] | None = None,
    steps: Mapping[str, Any] | None = None,
    now: datetime = _BEGAN_AT,
) -> "WorkflowTrial":
    """Begin a workflow, and run it until it waits for something that the test must bring about, or ends.

    `jobs`: the end of each child job, also of a map, by its type: its result, an exception, or a function
    that gets its arguments by name and returns or raises that. The others wait for `end_call`. `steps`: the
    same, by the name of the function; the others really run.
    """
    of_jobs = dict(jobs or {})
    ends = {CallKind.JOB: of_jobs, CallKind.MAP: of_jobs, CallKind.STEP: dict(steps or {})}
    return WorkflowTrial(agent, _definition(agent, name), dict(arguments or {}), ends, now)


def replay(agent: Agent, journal: str | bytes | Mapping[str, Any]) -> tuple[str, ...]:
    """Replay the journal of a job, as `warrener job ID --journal --json` prints it, with the code of `agent`.

    Returns what the job would wait for then; nothing if it would end. Raises CodeChanged if the code does not
    fit the journal.
    """
    read = from_json(journal) if isinstance(journal, str | bytes) else dict(journal)
    definition = _definition(agent, read["job_type"])
    now = datetime.fromisoformat(read["requested_at"])
    journal_fields = {"generation": read.get("generation", 0), "turns": read["turns"]}
    turns = Journal.model_validate_json(json.dumps(journal_fields, default=str))
    end = _run_turn(definition, UUID(str(read["job_id"])), read["arguments"], turns, now)
    if isinstance(end, turn.TurnRaised) and failures.needs_other_code(end.error):
        raise end.error
    if not isinstance(end, turn.TurnSuspended):
        return ()
    return _waits([*turns.turns, Turn(attempt=len(turns.turns) + 1, suspension=end.suspension)])


class WorkflowTrial:
    """A workflow in a test. Its time stands still unless the test advances it."""

    def __init__(
        self,
        agent: Agent,
        definition: JobDefinition,
        arguments: dict[str, Any],
        ends: Mapping[CallKind, Mapping[str, Any]],
        now: datetime,
    ) -> None:
        self.now = self._began_at = now
        self.error: BaseException | None = None
        self.ended = False
        self._agent, self._definition, self._ends = agent, definition, ends
        self._arguments: dict[str, Any] = to_jsonable_python(arguments)
        self._turns: list[Turn] = []
        self._attempt = self._generation = 0
        self.generations = 1
        """How often the body has begun: by its request, and by flow.continue_as."""
        self.sent: list[JobSignalRequestedData] = []
        """The signals that it has sent to other workflows."""
        self.published: Any = None
        """The state that it has published last."""
        self._result: Any = None
        self._results: dict[str, Any] = {}  # JSON, by the id of the call
        self._requested: dict[str, dict[str, Any]] = {}  # arguments of child jobs, by the id of the call
        self._signals: defaultdict[str, deque[Answer]] = defaultdict(deque)
        self._signal_count = 0
        self._run([])

    @property
    def result(self) -> Any:
        """The result, as JSON. Raises the error of the body, and AssertionError if it still waits."""
        if self.error is not None:
            raise self.error
        if not self.ended:
            raise AssertionError(f"expected the workflow to have ended, it waits for {', '.join(self.waits)}")
        return self._result

    @property
    def waits(self) -> tuple[str, ...]:
        """Its waits, such as "job cards.charge", "signal packed", "time 2026-01-04T…"."""
        return () if self.ended else _waits(self._turns)

    @property
    def calls(self) -> tuple[Call, ...]:
        """All calls that are in the journal, in their order, without the markers of changed code."""
        return tuple(all_calls(self._turns))

    @property
    def closed(self) -> tuple[Call, ...]:
        """The calls that the body has cancelled."""
        ids = {closed for one in self._turns if one.suspension for closed in one.suspension.closed}
        return tuple(call for call in self.calls if call.call_id in ids)

    @property
    def undos(self) -> tuple[UndoRequest, ...]:
        """The jobs that would undo its calls if it failed now, in their order."""
        return tuple(call.undo for call in reversed(self.calls) if call.undo is not None)

    @property
    def journal(self) -> Journal:
        return Journal(generation=self._generation, turns=tuple(self._turns))

    def send(self, name: str, data: Any = None) -> None:
        """Send a signal. One that nothing receives yet is stored."""
        self._signal_count += 1
        signal_id = str(self._signal_count)
        self._signals[name].append(Answer(at=self.now, result=to_jsonable_python(data), signal_id=signal_id))
        self._run(self._received())

    def advance(self, duration: timedelta | float | str) -> None:
        """Let time go by. Each timer is due at its time."""
        until = self.now + parse_duration(duration)
        while not self.ended and (timer := next_timer(self._turns)) and timer[0] <= until:
            self.now = max(self.now, timer[0])
            self._run([Answer(at=self.now)])
        self.now = until

    def end_call(self, name: str, result: Any = None, *, state: JobState = JobState.SUCCEEDED) -> None:
        """End a child job, by the id of its call or by its job type (the oldest one that is open), or all
        jobs of a batch of a map.

        `result` is its result, or an exception; for a map also a function, as in `jobs`.
        """
        for call in open_calls(self._turns):
            if call.kind in {CallKind.JOB, CallKind.MAP} and name in {call.call_id, call.name}:
                is_job = call.kind is CallKind.JOB
                self._run([self._ended(call, result, state) if is_job else self._members_ended(call, result)])
                return
        raise AssertionError(f"expected an open call of {name}, it waits for {', '.join(self.waits)}")

    # -- turns ---------------------------------------------------------------------------------------------

    def _run(self, answers: list[Answer]) -> None:
        """Run turns until the workflow waits for the test."""
        is_due, began = bool(answers) or not self._turns, self.generations
        while is_due and not self.ended:
            self._attempt = attempt = self._attempt + 1
            self._turns.append(Turn(attempt=attempt, answers=tuple(answers)))
            end = self._turn()
            if not isinstance(end, turn.TurnRaised):
                self.sent += [one.data for one in end.signals]
                self.published = self.published if end.published is None else from_json(end.published)
            if not isinstance(end, turn.TurnSuspended):
                self._end(end)
                return
            self._requested |= {one.key: one.arguments for one in end.requests if one.key is not None}
            if end.suspension.continued is not None:
                if self.generations - began >= _MAX_GENERATIONS:
                    raise AssertionError(
                        f"expected a generation to wait, got {_MAX_GENERATIONS} that go on at once"
                    )
                self._begin_generation(end.suspension)
                answers = []
                continue
            ends = [self._step(step) for step in end.steps]
            retries = [one for one in ends if isinstance(one, StepRetry)]
            step_answers = [one for one in ends if isinstance(one, Answer)]
            suspension = turn.with_ends(end.suspension, end.steps, step_answers, retries)
            self._turns[-1] = Turn(attempt=attempt, answers=tuple(answers), suspension=suspension)
            answers = [*self._ends_of_jobs(), *self._received(), *self._sizes()]
            if not answers and (timer := next_timer(self._turns)) and timer[0] - self.now <= _PAUSE:
                self.now = timer[0]  # the next batch of a map
                answers = [Answer(at=self.now)]
            is_due = bool(answers or suspension.answers)

    def _begin_generation(self, end: Suspension) -> None:
        """Begin with an empty journal, and with the signals that were not received."""
        names = {call.call_id: call.name for call in self.calls}
        given = [answer for one in self._turns for answer in one.answers if answer.call_id in end.closed]
        for answer in reversed(given):
            self._signals[names[answer.call_id or ""]].appendleft(answer)
        self._arguments, self._generation, self._turns = end.continued or {}, self._attempt, []
        self.generations += 1

    def _turn(self) -> turn.TurnEnd:
        """Run a turn twice: what differs then would be changed code in production."""
        once, again = (
            _run_turn(
                self._definition,
                uuid5(_JOB_ID, self._definition.name),
                self._arguments,
                self.journal,
                self._began_at,
                pages={
                    call.call_id: self._items(call)[: page.size] for call, page in read_pages(self._turns)
                },
            )
            for _ in range(2)
        )
        for end in (once, again):
            if isinstance(end, turn.TurnRaised) and isinstance(end.error, failures.CodeChanged):
                raise end.error
        if difference := _difference(_comparable(once), _comparable(again)):
            raise AssertionError(
                f"expected the body to do the same in each run of a turn, got {difference}: take times, ids "
                "and random numbers from flow, the rest by flow.step"
            )
        self._check_calls(once)
        if isinstance(once, turn.TurnSuspended) and once.last_calls:
            raise AssertionError(
                f"expected no call when a turn ends, got one at {', '.join(once.last_calls)}: `finally` runs "
                "in every turn; undo calls by flow.undo"
            )
        if isinstance(once, turn.TurnReturned) and once.unmade:
            raise AssertionError(
                f"expected the body to await its calls, it returned before those at {', '.join(once.unmade)} "
                "could begin: await them, or detach them"
            )
        return once

    def _check_calls(self, end: turn.TurnEnd) -> None:
        """Refuse arguments that the agent's own job types would refuse."""
        if isinstance(end, turn.TurnRaised):
            return
        calls = end.suspension.calls if isinstance(end, turn.TurnSuspended) else ()
        lines = {call.call_id: call.line for call in calls}
        named = [(one.job_type, one.arguments, lines.get(one.key or "", one.key)) for one in end.requests]
        named += [(call.undo.job_type, call.undo.arguments, call.line) for call in calls if call.undo]
        for job_type, arguments, line in named:
            if job_type in self._agent.definitions:
                _read(self._agent.definitions[job_type], arguments, f", at {line}")

    def _end(self, end: turn.TurnReturned | turn.TurnRaised) -> None:
        self.ended = True
        if isinstance(end, turn.TurnRaised):
            self.error = end.error
        else:
            self._result = from_json(self._definition.signature.write(end.value))

    def _step(self, step: turn.PendingStep) -> Answer | StepRetry:
        """Run a step in a thread, or what stands for it. Each delay before a retry passes by `advance`."""
        call_id, ends, function = step.call.call_id, self._ends[CallKind.STEP], step.function
        if step.takes_transaction and step.call.name not in ends:
            raise AssertionError(f"expected the end of {step.call.name} in `steps`: it writes in the ledger")

        async def wait_for(value: Any) -> Any:
            return await value

        def run() -> Any:
            value = function()
            return asyncio.run(wait_for(value)) if inspect.isawaitable(value) else value

        try:
            if step.call.name in ends:
                end = _end(ends[step.call.name], function.args, function.keywords)
            else:
                end = _in_thread(run)
            return Answer(call_id=call_id, at=self.now, result=step.write(end), tries=step.tries + 1)
        except Exception as error:  # noqa: BLE001 - the step's
            raised, tries = describe_error(error), step.tries + 1
            retry = step.retry(raised.error, raised.retry_after_seconds, tries, 0.5, self.now)
            return retry or Answer(call_id=call_id, at=self.now, error=raised.error, tries=tries)

    def _ends_of_jobs(self) -> list[Answer]:
        ends, answers = self._ends[CallKind.JOB], list[Answer]()
        for call in open_calls(self._turns):
            if call.kind is CallKind.JOB and call.name in ends:
                try:
                    end = _end(ends[call.name], (), self._requested[call.call_id])
                except Exception as error:  # noqa: BLE001 - the child's
                    end = error
                answers.append(self._ended(call, end, JobState.SUCCEEDED))
            elif call.kind is CallKind.MAP and call.name in ends:
                answers.append(self._members_ended(call, ends[call.name]))
        return answers

    def _members_ended(self, call: Call, end: Any) -> Answer:
        failed, results = list[MemberFailure](), list[Any]()
        for number in range(call.size or 0):
            try:
                value = _end(end, (), self._requested[f"{call.call_id}/{number}"])
                results.append(to_jsonable_python(value))
            except Exception as error:  # noqa: BLE001 - the child's
                info = describe_error(error).error
                failed.append(MemberFailure(number=number, state=JobState.DEAD, error=info))
                results.append(None)
        self._results[call.call_id] = results
        members = MembersEnd(
            succeeded=len(results) - len(failed),
            failed=len(failed),
            failures=tuple(failed[:MAX_MEMBER_FAILURES]),
            results=tuple(results),
        )
        return Answer(call_id=call.call_id, at=self.now, members=members)

    def _ended(self, call: Call, end: Any, state: JobState) -> Answer:
        if isinstance(end, BaseException):
            state = JobState.DEAD if state is JobState.SUCCEEDED else state
            return Answer(call_id=call.call_id, at=self.now, state=state, error=describe_error(end).error)
        plain = self._results[call.call_id] = to_jsonable_python(end)
        result = None if call.by_reference else plain
        return Answer(call_id=call.call_id, at=self.now, state=state, result=result)

    def _items(self, call: Call) -> list[Any]:
        """The results of a page and of those behind it."""
        assert call.source is not None
        found: list[Any] = self._results[call.source.call_id]
        return found[call.source.first :]

    def _sizes(self) -> list[Answer]:
        given = list[Answer]()
        for call in open_calls(self._turns):
            if call.source is not None:
                rest = len(self._items(call))
                page = PageSize(size=min(rest, MAX_MEMBERS), total=call.source.first + rest)
                given.append(Answer(call_id=call.call_id, at=self.now, page=page))
        return given

    def _received(self) -> list[Answer]:
        given = list[Answer]()
        for call in open_calls(self._turns):
            if call.kind is CallKind.SIGNAL and self._signals[call.name]:
                signal = self._signals[call.name].popleft()
                given.append(signal.model_copy(update={"call_id": call.call_id, "at": self.now}))
        return given


def _definition(agent: Agent, name: str) -> JobDefinition:
    definition = agent.definitions.get(name)
    if definition is None:
        known = ", ".join(one for one, of in agent.definitions.items() if of.executor == "workflow")
        raise ValueError(f"expected one of the agent's workflows ({known or 'it has none'}), got {name}")
    if definition.executor != "workflow":
        raise ValueError(f"expected a workflow, got the job type {name}; use run")
    return definition


def _read(definition: JobDefinition, arguments: Mapping[str, Any], where: str = "") -> dict[str, Any]:
    try:
        return definition.signature.read(arguments)
    except ValidationError as error:
        raise ValueError(
            f"expected arguments that {definition.name} takes{where}: {lines_of(error)}"
        ) from error


def _run_turn(
    definition: JobDefinition,
    job_id: UUID,
    arguments: Mapping[str, Any],
    journal: Journal,
    now: datetime,
    *,
    pages: Mapping[str, Sequence[Any]] | None = None,
) -> turn.TurnEnd:
    """Run a turn as an agent does: in a thread, with a journal that has been JSON."""
    context_name = definition.signature.context
    assert context_name is not None
    given = turn.TurnInput(
        job_id=job_id,
        job_type=definition.name,
        attempt=len(journal.turns) or 1,
        requested_at=now,
        deadline=None,
        arguments=_read(definition, arguments),
        journal=Journal.model_validate_json(journal.model_dump_json()),
        now=now,
        check=partial(check_read, definition),
        pages=pages,
    )
    return _in_thread(lambda: turn.run_turn(definition.handler, context_name, given))


def _end(end: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """The end of a call that a test has chosen."""
    if isinstance(end, BaseException):
        raise end
    return end(*args, **kwargs) if callable(end) else end


def _in_thread(function: Callable[[], T]) -> T:
    results, errors, context = list[T](), list[BaseException](), copy_context()

    def run() -> None:
        try:
            results.append(context.run(function))
        except BaseException as error:  # noqa: BLE001 - raised again by the test's thread
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]


def _comparable(end: turn.TurnEnd) -> Any:
    if isinstance(end, turn.TurnRaised):
        return {"error": [type(end.error).__qualname__, str(end.error)]}
    what: Any = end.suspension if isinstance(end, turn.TurnSuspended) else end.value
    plain = {"requests": end.requests, "end": what, "cancels": end.cancels, "signals": end.signals}
    return to_jsonable_python(plain, fallback=repr)


def _difference(one: Any, other: Any, path: str = "") -> str | None:
    """The first field that differs, with both of its values."""
    if one == other:
        return None
    if is_array(one) and is_array(other):
        return _difference(
            {str(n): of for n, of in enumerate(one)}, {str(n): of for n, of in enumerate(other)}, path
        )
    if is_object(one) and is_object(other) and one.keys() == other.keys():
        return next(found for key in one if (found := _difference(one[key], other[key], f"{path}.{key}")))
    return f"{path[1:] or 'another end'}: {one!r:.200}, and then {other!r:.200}"


def _waits(turns: Sequence[Turn]) -> tuple[str, ...]:
    waits = [f"{call.kind} {call.name}" for call in open_calls(turns)]
    if (timer := next_timer(turns)) is not None:
        waits.append(f"time {timer[0].isoformat()}")
    return tuple(waits)
