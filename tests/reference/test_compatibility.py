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


def rename(schema: JsonObject) -> None:
    properties = data_of(schema)["properties"]
    properties["failure"] = properties.pop("retry_after_seconds")


def add_required(schema: JsonObject) -> None:
    data_of(schema)["properties"]["host"] = {"type": "string"}
    data_of(schema)["required"].append("host")


def take_null(schema: JsonObject) -> None:
    data_of(schema)["properties"]["started_at"] = {"anyOf": [field(schema, "started_at"), {"type": "null"}]}


def parts(schema: JsonObject) -> JsonObject:
    found: JsonObject = schema["$defs"]
    return found


BREAKING: dict[str, Callable[[JsonObject], object]] = {
    "data.error: removed or renamed": lambda schema: data_of(schema)["properties"].pop("error"),
    "data.retry_after_seconds: removed or renamed": rename,
    "data.retry_after_seconds: required now, narrower": lambda schema: data_of(schema)["required"].append(
        "retry_after_seconds"
    ),
    "data.error: no longer required, wider": lambda schema: data_of(schema)["required"].remove("error"),
    "data.host: a new required field": add_required,
    "data.attempt: its type was integer, is string": lambda s: field(s, "attempt").update(type="string"),
    "data.attempt: minimum was 1, is 2: narrower": lambda s: field(s, "attempt").update(minimum=2),
    "data.attempt: minimum was 1, is None: wider": lambda s: field(s, "attempt").pop("minimum"),
    "data.attempt: maximum was 2147483647, is 10: narrower": lambda s: field(s, "attempt").update(maximum=10),
    "data.attempt: maximum was 2147483647, is 9223372036854775808: wider": lambda s: field(
        s, "attempt"
    ).update(maximum=2**63),
    "data.job_type: maxLength was 120, is 60: narrower": lambda s: field(s, "job_type").update(maxLength=60),
    "data.job_type: maxLength was 120, is 200: wider": lambda s: field(s, "job_type").update(maxLength=200),
    "data.agent_id: pattern was": lambda s: field(s, "agent_id").update(pattern="^[a-z]+$"),
    "data.error.message: pattern was None": lambda s: parts(s)["ErrorInfo"]["properties"]["message"].update(
        pattern="^[a-z]+$"
    ),
    "data.started_at: format was 'date-time', is 'date'": lambda s: field(s, "started_at").update(
        format="date"
    ),
    "data.error.kind: the choice 'crash' is gone, narrower": lambda s: parts(s)["ErrorKind"]["enum"].remove(
        "crash"
    ),
    "data.error.kind: the choice 'out_of_memory' is new, wider": lambda s: parts(s)["ErrorKind"][
        "enum"
    ].append("out_of_memory"),
    "data.error.kind: its choices were": lambda s: parts(s)["ErrorKind"].pop("enum"),
    "data.retry_after_seconds: no longer null, narrower": lambda s: field(s, "retry_after_seconds")[
        "anyOf"
    ].pop(),
    "data.started_at: null too, wider": take_null,
    "data.error.retryable: its default was True, is False": lambda s: parts(s)["ErrorInfo"]["properties"][
        "retryable"
    ].update(default=False),
    "data.retry_after_seconds: minimum was 0, is 1: narrower": lambda s: field(s, "retry_after_seconds")[
        "anyOf"
    ][0].update(minimum=1),
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


def test_a_change_inside_of_an_array_fails() -> None:
    schema = copy.deepcopy(RELEASED[HEARTBEAT])
    schema["$defs"]["HeartbeatAttempt"]["required"].append("since")
    schema["$defs"]["HeartbeatAttempt"]["properties"]["since"] = {"type": "string"}
    assert compare_schemas(RELEASED[HEARTBEAT], schema) == [
        f"data.running[].since: a new required field, {NARROWER}; make it optional"
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
