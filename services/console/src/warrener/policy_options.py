"""What a person chooses about retries and time on the command line, as the policy of one request. Pure."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

from pydantic import ValidationError

from warrener.errors import CommandError, ExitCode
from warrener_contracts.policy import PolicyOverrides, find_unknown_field


def parse_policy_options(
    text: str | None,
    *,
    max_attempts: int | None = None,
    max_age: str | None = None,
    delays: str | None = None,
    retry_on: Sequence[str] = (),
    no_retry: Sequence[str] = (),
) -> PolicyOverrides | None:
    """`text` (JSON) with what the flags say on top; None where nothing is chosen. Raises CommandError that
    names the part, what was expected and what came."""
    chosen: dict[str, Any] = {} if text is None else _object(text)
    if max_attempts is not None:
        chosen["max_attempts"] = max_attempts
    if max_age is not None:
        chosen["max_age"] = max_age
    if delays is not None:
        chosen["backoff"] = {"delays": [delay.strip() for delay in delays.split(",")]}
    if retry_on:
        chosen["retry_on"] = list(retry_on)
    if no_retry:
        chosen["no_retry"] = list(no_retry)
    return _read(chosen) if chosen else None


def _read(chosen: Mapping[str, Any]) -> PolicyOverrides:
    if wrong := find_unknown_field(chosen):
        raise _wrong(wrong)
    try:
        return PolicyOverrides.model_validate(chosen)
    except ValidationError as error:
        raise _wrong("; ".join(_problem(one) for one in error.errors(include_url=False))) from None


def _problem(found: Mapping[str, Any]) -> str:
    where = ".".join(["policy", *(str(part) for part in found["loc"])])
    message = str(found["msg"]).removeprefix("Value error, ")
    return f"{where}: {message}" if ", got " in message else f"{where}: {message}, got {found['input']!r:.60}"


def _object(text: str) -> dict[str, Any]:
    try:
        found: object = json.loads(text)
    except ValueError as error:
        raise _wrong(f"expected --policy as a JSON object, got {text[:60]!r}: {error}") from None
    if not isinstance(found, dict):
        raise _wrong(f"expected --policy as a JSON object, got {text[:60]!r}")
    return cast("dict[str, Any]", found)


def _wrong(sentence: str) -> CommandError:
    example = """write --policy '{"max_attempts": 3, "backoff": {"delays": ["1s", "1m"]}}'"""
    return CommandError(sentence, do=example, code=ExitCode.USAGE)
