"""The gate fails on every kind of breaking change, and lets an optional field pass."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from warrener_contracts.events import JsonObject
from warrener_contracts.reference.compatibility import compare_schemas, find_breaking_changes
from warrener_contracts.reference.schemas import schemas

RELEASED = schemas()
FAILED, REQUESTED, HEARTBEAT = "attempt.failed.v1", "job.requested.v1", "agent.heartbeat.v1"


def data_of(schema: JsonObject) -> JsonObject:
    name = schema["properties"]["data"]["$ref"].rpartition("/")[2]
    part: JsonObject = schema["$defs"][name]
    return part


def field(schema: JsonObject, name: str) -> JsonObject:
    found: JsonObject = data_of(schema)["properties"][name]
    return found


def remove(schema: JsonObject) -> None:
    del data_of(schema)["properties"]["error"]


def rename(schema: JsonObject) -> None:
    properties = data_of(schema)["properties"]
    properties["failure"] = properties.pop("retry_after_seconds")


def require(schema: JsonObject) -> None:
    data_of(schema)["required"].append("retry_after_seconds")


def no_longer_require(schema: JsonObject) -> None:
    data_of(schema)["required"].remove("error")


def add_required(schema: JsonObject) -> None:
    data_of(schema)["properties"]["host"] = {"type": "string"}
    data_of(schema)["required"].append("host")


def another_type(schema: JsonObject) -> None:
    field(schema, "attempt")["type"] = "string"


def raise_minimum(schema: JsonObject) -> None:
    field(schema, "attempt")["minimum"] = 2


def drop_minimum(schema: JsonObject) -> None:
    del field(schema, "attempt")["minimum"]


def lower_maximum(schema: JsonObject) -> None:
    field(schema, "attempt")["maximum"] = 10


def raise_maximum(schema: JsonObject) -> None:
    field(schema, "attempt")["maximum"] = 2**63


def shorten(schema: JsonObject) -> None:
    field(schema, "job_type")["maxLength"] = 60


def lengthen(schema: JsonObject) -> None:
    field(schema, "job_type")["maxLength"] = 200


def another_pattern(schema: JsonObject) -> None:
    field(schema, "agent_id")["pattern"] = "^[a-z]+$"


def new_pattern(schema: JsonObject) -> None:
    schema["$defs"]["ErrorInfo"]["properties"]["message"]["pattern"] = "^[a-z]+$"


def another_format(schema: JsonObject) -> None:
    field(schema, "started_at")["format"] = "date"


def choice_gone(schema: JsonObject) -> None:
    schema["$defs"]["ErrorKind"]["enum"].remove("crash")


def choice_new(schema: JsonObject) -> None:
    schema["$defs"]["ErrorKind"]["enum"].append("out_of_memory")


def choices_lifted(schema: JsonObject) -> None:
    del schema["$defs"]["ErrorKind"]["enum"]


def null_refused(schema: JsonObject) -> None:
    field(schema, "retry_after_seconds")["anyOf"].pop()


def null_taken(schema: JsonObject) -> None:
    data_of(schema)["properties"]["started_at"] = {"anyOf": [field(schema, "started_at"), {"type": "null"}]}


def another_default(schema: JsonObject) -> None:
    schema["$defs"]["ErrorInfo"]["properties"]["retryable"]["default"] = False


def in_an_alternative(schema: JsonObject) -> None:
    field(schema, "retry_after_seconds")["anyOf"][0]["minimum"] = 1


def closed_to_the_unknown(schema: JsonObject) -> None:
    data_of(schema)["additionalProperties"] = False


def an_unknown_keyword(schema: JsonObject) -> None:
    data_of(schema)["unevaluatedProperties"] = False


def another_version_in_place(schema: JsonObject) -> None:
    schema["properties"]["type"]["const"] = "attempt.failed.v2"


BREAKING: list[tuple[Callable[[JsonObject], None], str]] = [
    (remove, "data.error: removed or renamed"),
    (rename, "data.retry_after_seconds: removed or renamed"),
    (require, "data.retry_after_seconds: required now, narrower"),
    (no_longer_require, "data.error: no longer required, wider"),
    (add_required, "data.host: a new required field"),
    (another_type, "data.attempt: its type was integer, is string"),
    (raise_minimum, "data.attempt: minimum was 1, is 2: narrower"),
    (drop_minimum, "data.attempt: minimum was 1, is None: wider"),
    (lower_maximum, "data.attempt: maximum was 2147483647, is 10: narrower"),
    (raise_maximum, "data.attempt: maximum was 2147483647, is 9223372036854775808: wider"),
    (shorten, "data.job_type: maxLength was 120, is 60: narrower"),
    (lengthen, "data.job_type: maxLength was 120, is 200: wider"),
    (another_pattern, "data.agent_id: pattern was"),
    (new_pattern, "data.error.message: pattern was None"),
    (another_format, "data.started_at: format was 'date-time', is 'date'"),
    (choice_gone, "data.error.kind: the choice 'crash' is gone, narrower"),
    (choice_new, "data.error.kind: the choice 'out_of_memory' is new, wider"),
    (choices_lifted, "data.error.kind: its choices were"),
    (null_refused, "data.retry_after_seconds: no longer null, narrower"),
    (null_taken, "data.started_at: null too, wider"),
    (another_default, "data.error.retryable: its default was True, is False"),
    (in_an_alternative, "data.retry_after_seconds: minimum was 0, is 1: narrower"),
    (closed_to_the_unknown, "data: additionalProperties was None, is False"),
    (an_unknown_keyword, "data: unevaluatedProperties was None, is False"),
    (another_version_in_place, "type: const was"),
]


@pytest.mark.parametrize(("change", "complaint"), BREAKING, ids=[change.__name__ for change, _ in BREAKING])
def test_a_breaking_change_fails(change: Callable[[JsonObject], None], complaint: str) -> None:
    schema = copy.deepcopy(RELEASED[FAILED])
    change(schema)
    assert any(found.startswith(complaint) for found in compare_schemas(RELEASED[FAILED], schema)), (
        compare_schemas(RELEASED[FAILED], schema)
    )


def test_a_change_inside_of_an_array_fails() -> None:
    schema = copy.deepcopy(RELEASED[HEARTBEAT])
    schema["$defs"]["HeartbeatAttempt"]["required"].append("since")
    schema["$defs"]["HeartbeatAttempt"]["properties"]["since"] = {"type": "string"}
    assert compare_schemas(RELEASED[HEARTBEAT], schema) == [
        "data.running[].since: a new required field, narrower: a reader of this version refuses events of "
        "a writer of the released version; make it optional"
    ]


def test_a_change_of_the_elements_of_an_array_fails() -> None:
    schema = copy.deepcopy(RELEASED[HEARTBEAT])
    field(schema, "queues")["items"] = {"type": "integer"}
    assert any(
        "data.queues[]: its type was string" in found
        for found in compare_schemas(RELEASED[HEARTBEAT], schema)
    )
    field(schema, "queues")["items"] = False
    assert any(
        "data.queues: its items were" in found for found in compare_schemas(RELEASED[HEARTBEAT], schema)
    )


def test_a_change_behind_a_reference_fails_even_under_a_keyword_that_is_not_known() -> None:
    before: JsonObject = {"oneOf": [{"$ref": "#/$defs/Gate"}], "$defs": {"Gate": {"type": "string"}}}
    after = copy.deepcopy(before)
    after["$defs"]["Gate"]["type"] = "integer"
    (complaint,) = compare_schemas(before, after)
    assert complaint.startswith("the event: oneOf was")


def test_a_change_of_a_policy_that_a_request_may_hold_fails() -> None:
    schema = copy.deepcopy(RELEASED[REQUESTED])
    del schema["$defs"]["PolicyOverrides"]["properties"]["max_attempts"]
    assert compare_schemas(RELEASED[REQUESTED], schema) == [
        "data.policy.max_attempts: removed or renamed; the released version has it"
    ]


@pytest.mark.parametrize("name", sorted(RELEASED))
def test_nothing_breaks_where_nothing_changes(name: str) -> None:
    assert compare_schemas(RELEASED[name], copy.deepcopy(RELEASED[name])) == []


def test_an_optional_field_and_better_words_may_come() -> None:
    schema = copy.deepcopy(RELEASED[FAILED])
    optional: dict[str, Any] = {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None}
    data_of(schema)["properties"]["host"] = optional
    schema["$defs"]["ErrorInfo"]["properties"]["hint"] = optional
    schema["$defs"]["Unused"] = {"type": "object"}
    data_of(schema)["description"] = "What went wrong, in better words."
    field(schema, "attempt")["examples"] = [1]
    assert compare_schemas(RELEASED[FAILED], schema) == []


def test_a_released_event_that_is_gone_fails_and_a_new_one_does_not() -> None:
    now = {name: schema for name, schema in RELEASED.items() if name != FAILED}
    now["attempt.failed.v2"] = RELEASED[FAILED]
    (complaint,) = find_breaking_changes({"1.0.0": RELEASED}, now)
    assert complaint.startswith("attempt.failed.v1 (released in 1.0.0): gone")


def test_every_release_is_compared_not_only_the_last_one() -> None:
    later = copy.deepcopy(RELEASED)
    data_of(later[FAILED])["properties"]["host"] = {"type": "string", "default": ""}
    assert find_breaking_changes({"1.0.0": RELEASED, "1.1.0": later}, later) == []
    (complaint,) = find_breaking_changes({"1.0.0": RELEASED, "1.1.0": later}, RELEASED)
    assert complaint == "attempt.failed.v1 (released in 1.1.0): data.host: removed or renamed; " + (
        "the released version has it"
    )
