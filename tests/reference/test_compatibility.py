"""The gate fails on every kind of breaking change, and lets an optional field pass."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
from tools.reference.compatibility import NARROWER, compare_schemas, find_breaking_changes
from tools.reference.schemas import schemas

from warrener_contracts.events import JsonObject

RELEASED = schemas()
FAILED, REQUESTED, HEARTBEAT = "attempt.failed.v1", "job.requested.v1", "agent.heartbeat.v1"


def data_of(schema: JsonObject) -> JsonObject:
    name = schema["properties"]["data"]["$ref"].rpartition("/")[2]
    part: JsonObject = schema["$defs"][name]
    return part


def field(schema: JsonObject, name: str) -> JsonObject:
    found: JsonObject = data_of(schema)["properties"][name]
    return found


def part(schema: JsonObject, name: str) -> JsonObject:
    found: JsonObject = schema["$defs"][name]
    return found


Change = Callable[[JsonObject], object]


def put(name: str, **keywords: Any) -> Change:
    """Change the schema of a field."""
    return lambda schema: field(schema, name).update(keywords)


def rename(schema: JsonObject) -> None:
    properties = data_of(schema)["properties"]
    properties["failure"] = properties.pop("retry_after_seconds")


def add_required(schema: JsonObject) -> None:
    data_of(schema)["properties"]["host"] = {"type": "string"}
    data_of(schema)["required"].append("host")


def take_null(schema: JsonObject) -> None:
    data_of(schema)["properties"]["started_at"] = {"anyOf": [field(schema, "started_at"), {"type": "null"}]}


RETRY, KIND = "retry_after_seconds", "ErrorKind"
BREAKING: dict[str, Change] = {
    "data.error: removed or renamed": lambda schema: data_of(schema)["properties"].pop("error"),
    "data.retry_after_seconds: removed or renamed": rename,
    "data.retry_after_seconds: required now, narrower": lambda s: data_of(s)["required"].append(RETRY),
    "data.error: no longer required, wider": lambda schema: data_of(schema)["required"].remove("error"),
    "data.host: a new required field": add_required,
    "data.attempt: its type was integer, is string": put("attempt", type="string"),
    "data.attempt: minimum was 1, is 2: narrower": put("attempt", minimum=2),
    "data.attempt: minimum was 1, is None: wider": lambda s: field(s, "attempt").pop("minimum"),
    "data.attempt: maximum was 2147483647, is 10: narrower": put("attempt", maximum=10),
    "data.attempt: maximum was 2147483647, is 9223372036854775808: wider": put("attempt", maximum=2**63),
    "data.job_type: maxLength was 120, is 60: narrower": put("job_type", maxLength=60),
    "data.job_type: maxLength was 120, is 200: wider": put("job_type", maxLength=200),
    "data.agent_id: pattern was": put("agent_id", pattern="^[a-z]+$"),
    "data.error.message: pattern was None": lambda s: part(s, "ErrorInfo")["properties"]["message"].update(
        pattern="^[a-z]+$"
    ),
    "data.started_at: format was 'date-time', is 'date'": put("started_at", format="date"),
    "data.error.kind: the choice 'crash' is gone, narrower": lambda s: part(s, KIND)["enum"].remove("crash"),
    "data.error.kind: the choice 'out_of_memory' is new, wider": lambda s: part(s, KIND)["enum"].append(
        "out_of_memory"
    ),
    "data.error.kind: its choices were": lambda schema: part(schema, KIND).pop("enum"),
    "data.retry_after_seconds: no longer null, narrower": lambda s: field(s, RETRY)["anyOf"].pop(),
    "data.started_at: null too, wider": take_null,
    "data.error.retryable: its default was True, is False": lambda s: part(s, "ErrorInfo")["properties"][
        "retryable"
    ].update(default=False),
    "data.retry_after_seconds: minimum was 0, is 1: narrower": lambda s: field(s, RETRY)["anyOf"][0].update(
        minimum=1
    ),
    "data: additionalProperties was None, is False": lambda s: data_of(s).update(additionalProperties=False),
    "data: unevaluatedProperties was None, is False": lambda s: data_of(s).update(
        unevaluatedProperties=False
    ),
    "type: const was": lambda s: s["properties"]["type"].update(const="attempt.failed.v2"),
}


@pytest.mark.parametrize("complaint", BREAKING)
def test_a_breaking_change_fails(complaint: str) -> None:
    schema = copy.deepcopy(RELEASED[FAILED])
    BREAKING[complaint](schema)
    assert any(found.startswith(complaint) for found in compare_schemas(RELEASED[FAILED], schema)), (
        compare_schemas(RELEASED[FAILED], schema)
    )


def test_a_change_inside_of_an_array_or_of_its_elements_fails() -> None:
    schema = copy.deepcopy(RELEASED[HEARTBEAT])
    schema["$defs"]["HeartbeatAttempt"]["required"].append("since")
    schema["$defs"]["HeartbeatAttempt"]["properties"]["since"] = {"type": "string"}
    assert compare_schemas(RELEASED[HEARTBEAT], schema) == [
        f"data.running[].since: a new required field, {NARROWER}; make it optional"
    ]
    items: dict[str, Any] = {
        "data.queues[]: its type was string": {"type": "integer"},
        "data.queues: its items were": False,
    }
    for complaint, changed in items.items():
        field(schema, "queues")["items"] = changed
        assert any(complaint in found for found in compare_schemas(RELEASED[HEARTBEAT], schema))


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
