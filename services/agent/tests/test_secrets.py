"""Arguments that a signature marks as secrets appear in no error, stack or log line of its attempts."""

import json
import logging
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field, Secret, SecretStr
from services.agent.tests.stage import HandlerRig, Stage
from tests.security.attacks import attack

from warrener_agent.context import JobContext
from warrener_agent.definitions.signature import read_signature
from warrener_agent.secret_values import hide_texts, marked_texts
from warrener_contracts import events
from warrener_contracts.marks import WHOLE, marked_names

PIN = "hunter2-of-ada"


class Login(BaseModel):
    name: str
    key: Annotated[str, Field(json_schema_extra={"writeOnly": True})]


def every_kind(
    *,
    pin: SecretStr,
    code: Secret[int],
    login: Login,
    many: list[SecretStr],
    named: dict[str, SecretStr],
    shown: str,
    maybe: SecretStr | None = None,
) -> SecretStr:
    return pin


def test_marks_are_found_wherever_a_signature_has_them() -> None:
    signature = read_signature(every_kind, "x")
    assert signature.secret_names == {"pin", "code", "key", "many", "named", "maybe"}
    assert marked_names(signature.result_schema) == {WHOLE}


def test_a_schema_of_others_cannot_make_the_search_long() -> None:
    parts: dict[str, dict[str, Any]] = {
        f"d{number}": {"anyOf": [{"$ref": f"#/$defs/d{(number + 1) % 2_000}"}]} for number in range(2_000)
    }
    names = {f"p{number}": {"$ref": "#/$defs/d0"} for number in range(2_000)}
    schema: dict[str, Any] = {"$defs": parts, "properties": names}
    assert marked_names(schema) == frozenset(), "each name leads to each part, four million ways"
    parts["d1999"]["writeOnly"] = True
    assert marked_names(schema) == names.keys()
    assert marked_names({"$ref": "#"}) == frozenset()


@attack(
    "an author of a schema",
    "loses the mark of a secret field behind a reference that is no JSON pointer",
    refused="all of a document is hidden where a reference cannot be followed",
)
@pytest.mark.parametrize(
    ("target", "reference"),
    [
        ({"S": {"$anchor": "s", "writeOnly": True}}, "#s"),
        ({"S": {"$id": "http://x/s", "writeOnly": True}}, "http://x/s"),
        ({"S": {"$id": "http://x/s", "$ref": "#/inner", "inner": {"writeOnly": True}}}, "#/$defs/S"),
        ({}, "#/$defs/S"),
        ({}, "#/$defs/" + "9" * 5000),
    ],
)
def test_a_reference_that_cannot_be_followed_hides_all(target: Any, reference: str) -> None:
    schema = {"$defs": target, "properties": {"pin": {"writeOnly": True}, "a": {"$ref": reference}}}
    assert marked_names(schema) >= {WHOLE, "pin"}


def test_a_reference_may_be_quoted_and_point_into_a_list() -> None:
    properties = {"a": {"$ref": "#/$defs/A%20B"}, "b": {"$ref": "#/$defs/list/1"}}
    schema = {
        "$defs": {"A B": {"writeOnly": True}, "list": [{}, {"writeOnly": True}]},
        "properties": properties,
    }
    assert marked_names(schema) == {"a", "b"}
    assert marked_names({"patternProperties": {"default": {"writeOnly": True}}}) == {WHOLE}


def test_values_are_hidden_as_they_are_quoted_and_line_by_line() -> None:
    texts = marked_texts({"key"}, {"key": "BEGIN it's\nabcdef\nEND", "other": {"key": [12345678, "x"]}})
    assert hide_texts("at abcdef: 12345678", texts) == "at ***: ***"
    for quoted in (repr, json.dumps):
        assert "abcdef" not in hide_texts(quoted({"key": "BEGIN it's\nabcdef\nEND"}), texts)
    assert hide_texts(json.dumps({"key": 'a"bcd'}), ['a"bcd']) == '{"key": "***"}'


@attack(
    "an observer of events, logs and dead letters",
    "reads a secret argument out of an error or a log line of its handler",
    refused="the agent hides the values of fields that the signature marks",
)
@pytest.mark.parametrize("executor", ["coroutine", "thread"])
async def test_errors_and_log_lines_of_a_handler_quote_no_secret(
    stage: Stage, rig: HandlerRig, executor: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    def use(pin: SecretStr, code: Secret[int]) -> None:
        logging.getLogger("shop").warning("signed in with %s", pin.get_secret_value())
        raise ValueError(f"refused {pin.get_secret_value()} and {code.get_secret_value()}")

    async def use_here(pin: SecretStr, code: Secret[int]) -> None:
        use(pin, code)

    handler = use if executor == "thread" else use_here
    rig.agent.job("use", executor=executor)(handler)
    await stage.enter(rig.agent)
    failed = await stage.fail("use", {"pin": PIN, "code": 40961234})
    assert failed.error.message == "refused *** and ***"
    assert "refused" in (failed.error.stack or "")
    assert PIN not in (failed.error.stack or "")
    assert PIN not in capsys.readouterr().err


@attack(
    "an observer of events",
    "reads a secret argument out of a note of progress",
    refused="the agent hides the values of fields that the signature marks",
)
async def test_notes_of_progress_quote_no_secret(stage: Stage, rig: HandlerRig) -> None:
    @rig.agent.job("use", executor="coroutine")
    async def use(job: JobContext, pin: SecretStr) -> None:
        job.progress(0.5, f"signed in with {pin.get_secret_value()}")

    await stage.enter(rig.agent)
    succeeded = await stage.succeed("use", {"pin": PIN})
    (progressed,) = stage.of(events.AttemptProgressed, succeeded.job_id)
    assert progressed.data.note == "signed in with ***"


@attack(
    "an observer of events",
    "reads a wrong argument or result out of the refusal of a handler's signature",
    refused="refusals name the place and the type",
)
async def test_a_refused_argument_is_not_quoted(stage: Stage, rig: HandlerRig) -> None:
    @rig.agent.job("count", executor="coroutine")
    async def count(number: int) -> int:
        raise AssertionError

    await stage.enter(rig.agent)
    failed = await stage.fail("count", {"number": PIN})
    assert failed.error.kind is events.ErrorKind.BAD_ARGUMENTS
    assert PIN not in failed.error.model_dump_json()
