"""A workflow of which a test chooses every answer."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from warrener_agent.workflows import turn
from warrener_contracts.events import Answer, Call, CallKind, Journal, Turn
from warrener_contracts.state_machine import JobState

BEGAN_AT = datetime(2026, 3, 1, tzinfo=UTC)
JOB_ID = UUID("0192f0c1-2345-7000-8000-000000000001")


def succeeded(call: Call | str, result: Any = None, *, at: float = 0) -> Answer:
    """The answer of a child that has succeeded, some seconds after the beginning."""
    call_id = call if isinstance(call, str) else call.call_id
    return Answer(call_id=call_id, at=after(at), state=JobState.SUCCEEDED, result=result)


def after(seconds: float) -> datetime:
    return BEGAN_AT + timedelta(seconds=seconds)


class Turns:
    """The journal of one workflow, as a store has it."""

    def __init__(self, body: Callable[..., Any], *, now: datetime = BEGAN_AT, generation: int = 0) -> None:
        self.body, self.now, self.generation = body, now, generation
        self.turns: list[Turn] = []
        self.pages: dict[str, list[Any]] = {}  # of the next turn, by the call
        self.end: turn.TurnEnd = self.go()

    def go(self, *answers: Answer) -> turn.TurnEnd:
        """Run the next turn with these answers, and record it if it is suspended."""
        self.turns.append(Turn(attempt=len(self.turns) + 1, answers=answers))
        self.end = self.replay(self.turns)
        if isinstance(self.end, turn.TurnSuspended):
            self.turns[-1] = self.turns[-1].model_copy(update={"suspension": self.end.suspension})
        return self.end

    def replay(self, turns: Sequence[Turn]) -> turn.TurnEnd:
        """Run the last of `turns`, from their journal as JSON."""
        given = turn.TurnInput(
            job_id=JOB_ID,
            job_type="tests.body",
            attempt=len(turns),
            requested_at=BEGAN_AT,
            deadline=None,
            arguments={},
            journal=Journal.model_validate_json(
                Journal(generation=self.generation, turns=tuple(turns)).model_dump_json()
            ),
            now=self.now,
            pages=self.pages,
        )
        return turn.run_turn(self.body, "flow", given)

    @property
    def suspended(self) -> turn.TurnSuspended:
        assert isinstance(self.end, turn.TurnSuspended), self.end
        return self.end

    @property
    def calls(self) -> list[Call]:
        return [call for one in self.turns if one.suspension for call in one.suspension.calls]

    @property
    def open_calls(self) -> list[Call]:
        known = [one.suspension for one in self.turns if one.suspension]
        ended = {answer.call_id for one in self.turns for answer in one.answers}
        ended |= {closed for one in known for closed in one.closed}
        ended |= {call.call_id for call in self.calls if call.kind is CallKind.MARKER}
        return [call for call in self.calls if call.call_id not in ended]

    @property
    def value(self) -> Any:
        assert isinstance(self.end, turn.TurnReturned), self.end
        return self.end.value

    @property
    def error(self) -> BaseException:
        assert isinstance(self.end, turn.TurnRaised), self.end
        return self.end.error
