"""Declarations of job types, and the errors of those that cannot be served."""

import enum
import math
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field

from warrener_agent import Agent, JobContext, JobDefinitionError, Limit, Unique, debounce
from warrener_agent.testing import run
from warrener_contracts.policy import Backoff, Guarantee


class Report(BaseModel):
    rows: int


class Order(BaseModel):
    number: int
    tags: set[str] = set()


@dataclass
class Point:
    x: float


class Colour(enum.Enum):
    RED = "red"


agent = Agent()


@agent.job("flights.load", max_attempts=5, timeout="2m")
async def load(job: JobContext, path: Path, *, limit: Annotated[int, Field(ge=1)] = 10) -> Report:
    """Load one file."""
    assert isinstance(path, Path)
    return Report(rows=limit * job.attempt)


@agent.job("flights.odd")
def odd(
    json: Order, _x: Point, schema: Colour, when: date, model_config: int | None = None
) -> dict[str, Any]:
    return {"order": json, "x": _x.x, "colour": schema, "when": when, "n": model_config}


def test_the_declaration_carries_schemas_policy_and_the_first_words() -> None:
    assert odd(Order(number=1), Point(2.0), Colour.RED, date(2026, 1, 1))["x"] == 2.0, "it stays a function"
    executors = {name: one.executor for name, one in agent.definitions.items()}
    assert executors == {"flights.load": "coroutine", "flights.odd": "thread"}, "by the kind of function"
    declared = agent.definitions["flights.load"].declaration
    assert declared.policy.max_attempts == 5
    assert declared.policy.timeout == timedelta(minutes=2)
    assert declared.guarantee is Guarantee.IDEMPOTENT
    assert declared.queue == "default"
    assert declared.description == "Load one file."
    schema = declared.arguments_schema
    assert schema["additionalProperties"] is False
    assert schema["required"] == ["path"]
    assert set(schema["properties"]) == {"path", "limit"}
    assert schema["properties"]["limit"]["minimum"] == 1
    assert declared.result_schema is not None
    assert declared.result_schema["properties"]["rows"]["type"] == "integer"


async def test_arguments_and_results_go_through_the_signature() -> None:
    assert (await run(agent, "flights.load", {"path": "a.csv", "limit": 3}, attempt=2)).result == {"rows": 6}
    arguments = {
        "json": {"number": "7", "tags": ["a"]},
        "_x": {"x": 1},
        "schema": "red",
        "when": "2026-11-20",
    }
    assert (await run(agent, "flights.odd", arguments)).result == {
        "order": {"number": 7, "tags": ["a"]},
        "x": 1.0,
        "colour": "red",
        "when": "2026-11-20",
        "n": None,
    }


@pytest.mark.parametrize(
    "arguments", [{}, {"path": 3}, {"path": "a", "limit": 0}, {"path": "a", "strange": 1}], ids=str
)
async def test_wrong_arguments_are_refused_and_no_retry_mends_it(arguments: dict[str, Any]) -> None:
    trial = await run(agent, "flights.load", arguments)
    assert trial.error is not None
    assert trial.error.kind == "bad_arguments"
    assert not trial.error.retryable
    assert "flights.load" in trial.error.message


class Measured(BaseModel):
    mean: float


@pytest.mark.parametrize(
    ("declared", "value", "message"),
    [
        (int, "seven", "declare"),
        (str, "x" * 2_000_000, "at most 1048576 bytes"),
        (Any, object(), "JSON"),
        (
            dict[str, list[str]],
            {"lines": ["good", "b\0d"]},
            "at 'lines.1': expected text that every database",
        ),
        (dict[str, int], {"b\0d": 1}, "U+0000"),
        (str, "half a pair: \ud83d", "half a surrogate pair"),
        (Any, {"mean": math.nan}, "at 'mean': expected a finite number, got nan"),
        (Any, [1.0, -math.inf], "expected a finite number, got -inf"),
        (list[Measured], [Measured(mean=math.nan)], "at '0.mean': expected a finite number, got nan"),
    ],
    ids=lambda value: "" if isinstance(value, str) else None,
)
async def test_wrong_results_are_refused(declared: Any, value: Any, message: str) -> None:
    async def give() -> Any:
        return value

    give.__annotations__["return"] = declared
    bad = Agent()
    bad.job("bad")(give)
    error = (await run(bad, "bad")).error
    assert error is not None
    assert (error.kind, error.retryable) == ("bad_result", False)
    assert message in error.message


def positional(path: Path, /) -> None: ...
def several(*paths: Path) -> None: ...
def any_name(**names: str) -> None: ...
def unannotated(path) -> None: ...  # type: ignore[no-untyped-def]  # pyright: ignore[reportUnknownParameterType, reportMissingParameterType]
def no_result(path: Path): ...  # type: ignore[no-untyped-def]  # pyright: ignore[reportUnknownParameterType, reportMissingParameterType]
def two_contexts(one: JobContext, two: JobContext) -> None: ...
def callback(then: Callable[[], None]) -> None: ...
def unknown_class(one: Agent) -> None: ...
def unknown_result() -> Agent:
    return agent


async def generator() -> AsyncIterator[int]:
    yield 1


REFUSED: list[tuple[Callable[..., Any], str]] = [
    (positional, "positional-only"),
    (several, r"list\[...\]"),
    (any_name, r"dict\[str, ...\]"),
    (unannotated, "a type for parameter path"),
    (no_result, "the type of the result"),
    (two_contexts, "one JobContext parameter, got one, two"),
    (callback, "read from JSON"),
    (unknown_class, "read from JSON"),
    (unknown_result, "read from JSON"),
    (generator, "got a generator"),
]


@pytest.mark.parametrize(("handler", "message"), REFUSED, ids=lambda value: getattr(value, "__name__", ""))
def test_what_cannot_be_served_is_refused_where_it_is_declared(
    handler: Callable[..., Any], message: str
) -> None:
    with pytest.raises(JobDefinitionError, match=message) as refused:
        Agent().job("some.job")(handler)
    assert "some.job" in str(refused.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"timeout": "soon"}, "timeout"),
        ({"max_attempts": 0}, "max_attempts"),
        ({"queue": "a.b"}, "queue"),
        ({"guarantee": "perhaps"}, "perhaps"),
        ({"executor": "gpu"}, "gpu"),
        ({"executor": "coroutine"}, "async def"),
        ({"executor": "thread", "dispatch_batch": 2}, "dispatch_batch .* got it with executor thread"),
        ({"gates": [{"slots": 0}]}, "gates.0: expected 1 to 10000 slots.* of a limit, got 0 and ''$"),
        ({"gates": [Limit(2)] * 6}, "expected at most 5 gates, got 6"),
        ({"executor": "process", "dispatch_batch": 2}, "dispatch_batch .* got it with executor process"),
    ],
    ids=str,
)
def test_options_are_checked_where_they_are_given(options: dict[str, Any], message: str) -> None:
    with pytest.raises(JobDefinitionError, match=message):
        Agent().job("some.job", **options)(callback_free)


def test_a_limit_is_declared_on_the_wire() -> None:
    agent = Agent()
    agent.job("some.job", gates=[Limit(5, key="{{ arguments.tenant }}"), Limit(9)])(push)
    policy = agent.definitions["some.job"].declaration.policy
    assert [(each.slots, each.key) for each in policy.gates] == [(5, "{{ arguments.tenant }}"), (9, "")]
    agent.job("one.limit", gates=Limit(3))(push)
    assert agent.definitions["one.limit"].declaration.policy.gates == (Limit(3),)


@pytest.mark.parametrize("name", ["tenant", "arguments.nope", "arguments.region"])
def test_the_key_of_a_limit_names_parameters_that_each_request_gives(name: str) -> None:
    message = (
        r"key of a limit: expected one of arguments\.tenant, .*, got .*; name parameters without a default"
    )
    with pytest.raises(JobDefinitionError, match=message):
        Agent().job("some.job", gates=[Limit(2, key=f"{{{{ {name} }}}}")])(push)


def test_a_name_is_a_routing_key_and_a_process_handler_is_found_by_another_process() -> None:
    def local() -> None: ...

    with pytest.raises(JobDefinitionError, match="top of its module"):
        Agent().job("some.job", executor="process")(local)
    with pytest.raises(JobDefinitionError, match="name"):
        Agent().job("no blanks")(callback_free)
    with pytest.raises(JobDefinitionError, match=r"dispatch_batch: .* 64, got 65"):
        Agent().job("some.job", dispatch_batch=65)(load)


def callback_free() -> None: ...


def push(tenant: str, region: str = "north") -> None: ...


def test_one_name_has_one_handler() -> None:
    one = Agent()
    one.job("some.job")(callback_free)
    one.job("some.job")(callback_free)  # a module that is imported twice
    with pytest.raises(JobDefinitionError, match="expected one handler"):
        one.job("some.job")(load)
    two = Agent()
    two.job("some.job", backoff=Backoff(limit=timedelta(minutes=1)))(load)
    with pytest.raises(JobDefinitionError, match="another name"):
        two.include(one)


def test_a_unique_job_type_names_its_parameters_and_can_be_compared() -> None:
    def reindex(index: str, depth: int = 1) -> None: ...

    agent = Agent()
    unique = Unique("{{ arguments.index }}", repeat=debounce("5s", longest="1m"))
    agent.job("search.reindex", unique=unique)(reindex)
    assert agent.definitions["search.reindex"].declaration.policy.unique == unique
    with pytest.raises(JobDefinitionError, match=r"key of unique: expected one of .*without a default"):
        agent.job("other", unique=Unique("{{ arguments.depth }}"))(reindex)
    with pytest.raises(JobDefinitionError, match="expected no unique with encrypted"):
        agent.job("other", unique=Unique(), encrypted=True)(reindex)
