"""Read and check the escalation file as a whole, and read it again when it changes.

Every mistake is named by its key.
"""

import asyncio
import os
import signal
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic import ValidationError

from warrener_contracts.json_safety import is_object
from warrener_contracts.templates import find_mistakes
from warrener_runtime.lifecycle import ManagedComponent
from warrener_runtime.logs import get_logger
from warrener_runtime.secrets import mask
from warrener_runtime.settings import SettingsError
from warrener_supervisor.escalation.alert_sinks import key_of as signing_key
from warrener_supervisor.escalation.facts import ALERT_NAMES, COMPENSATION_NAMES
from warrener_supervisor.escalation.policy import (
    LOG,
    AlertStep,
    CompensateStep,
    DigestStep,
    Escalation,
    EscalationPolicy,
    RetryStep,
    SinkConfig,
)

_log = get_logger("escalation")

_ENVIRONMENT = "env:"


class EscalationFile:
    """The current contents of the file.

    Raises SettingsError at once if it cannot be used; a later mistake is logged, and the contents before
    it stay.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._seen = self._written()
        self._escalation = read(path) if path else Escalation()

    def current(self) -> Escalation:
        """Return the contents, after reading the file again if it has changed."""
        written = self._written()
        if self._path is not None and written != self._seen:
            self._seen = written
            self._reload(self._path)
        return self._escalation

    def force_reload(self) -> None:
        """Read the file again, even if it seems unchanged."""
        if self._path is not None:
            self._seen = self._written()
            self._reload(self._path)

    def _reload(self, path: Path) -> None:
        try:
            self._escalation = read(path)
        except SettingsError as error:
            _log.error(
                "The escalation file cannot be used; the policies read before stay in force.",
                action="escalation.bad_file",
                problems=list(error.problems),
            )
        else:
            _log.info(
                "The escalation file was read again.",
                action="escalation.reloaded",
                policies=[policy.name for policy in self._escalation.policies],
            )

    def _written(self) -> tuple[int, int] | None:
        try:
            found = self._path.stat() if self._path else None
        except OSError:
            return None
        return (found.st_mtime_ns, found.st_size) if found else None


class ReloadOnSignal(ManagedComponent):
    """Calls `then` at each SIGHUP, which no longer ends the process. In the main thread alone."""

    def __init__(self, then: Callable[[], None]) -> None:
        super().__init__("hang-up")
        self._then = then

    async def _on_start(self) -> None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._then)

    async def _on_stop(self) -> None:
        asyncio.get_running_loop().remove_signal_handler(signal.SIGHUP)


def read(path: Path) -> Escalation:
    """Read the file at `path`. Raises SettingsError that names every line or key that is wrong."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(
            [
                f"WARRENER_SUPERVISOR_ESCALATION_FILE: expected a file that can be read, got {str(path)!r} "
                f"({error})"
            ]
        ) from error
    try:
        return parse(text, os.environ)
    except SettingsError as error:
        raise SettingsError([f"{path}: {problem}" for problem in error.problems]) from None


def parse(text: str, environment: Mapping[str, str]) -> Escalation:
    """Check the text of a file. Raises SettingsError."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError([f"expected TOML, got a mistake: {error}"]) from error
    try:
        escalation = Escalation.model_validate(document)
    except ValidationError as error:
        raise SettingsError(_problems(error)) from None
    problems = [*_unknown_names(escalation), *_bad_templates(escalation), *_unset(escalation, environment)]
    if problems:
        raise SettingsError(problems)
    sinks = _filled(escalation, environment)
    if problems := [*_unusable(sinks)]:
        raise SettingsError(problems)
    return escalation.model_copy(update={"sinks": sinks})


def _problems(error: ValidationError) -> list[str]:
    """Describe each mistake in a sentence, except lists that are too short because of other mistakes in
    them."""
    found = error.errors(include_url=False)
    places = [detail["loc"] for detail in found]
    return [
        _problem(dict(detail))
        for detail in found
        if detail["type"] != "too_short"
        or all(place == detail["loc"] or place[: len(detail["loc"])] != detail["loc"] for place in places)
    ]


def _problem(detail: dict[str, Any]) -> str:
    where = key_of(detail["loc"])
    came: object = detail["input"]
    match detail["type"]:
        case "extra_forbidden":
            return f"{where}: expected no such key, got it; see docs/howto/escalate.md for those there are"
        case "missing":
            return f"{where}: expected a value, got none"
        case "union_tag_invalid" | "union_tag_not_found":
            kinds = "retry, park, alert, digest, compensate, close"
            got = came.get("do") if is_object(came) else came
            return f"{where}.do: expected one of {kinds}, got {got!r}"
        case _:
            pass
    complaint = str(detail["msg"]).removeprefix("Value error, ").removeprefix("Input should be ")
    if complaint.startswith("expected "):  # our own validators write whole sentences
        return f"{where}: {complaint}"
    return f"{where}: expected {complaint[0].lower()}{complaint[1:]}, got {mask(repr(came))[:100]}"


def key_of(place: tuple[int | str, ...]) -> str:
    """Return the place in the file: `policy[0].steps[2].to`."""
    written = ""
    kinds = {"retry", "park", "alert", "digest", "compensate", "close"}
    for before, part in zip((None, *place), place, strict=False):
        if isinstance(part, int):
            written += f"[{part}]"
        elif not (isinstance(before, int) and part in kinds):  # the step itself names its kind
            written += f".{part}" if written else part
    return written or "the file"


def _unknown_names(escalation: Escalation) -> Iterator[str]:
    sinks = {LOG, *escalation.sinks}
    names = [policy.name for policy in escalation.policies]
    for number, policy in enumerate(escalation.policies):
        if policy.name in names[:number]:
            yield f"policy[{number}].name: expected a name of its own, got {policy.name!r} again"
        if policy.quiet is not None and policy.quiet not in escalation.quiet:
            yield _unknown(f"policy[{number}].quiet", "quiet hours", escalation.quiet, policy.quiet)
        yield from _unknown_in_steps(number, policy, sinks, escalation)
        yield from _repeated(number, policy)
    for name, digest in escalation.digests.items():
        for sink in sorted({*digest.to} - sinks):
            yield _unknown(f"digest.{name}.to", "sinks", sinks, sink)


def _repeated(number: int, policy: EscalationPolicy) -> Iterator[str]:
    """Find steps that would request the same job a second time, which has no effect."""
    seen: set[str] = set()
    for place, step in enumerate(policy.steps):
        action = f"{step.do} {step.job_type}" if isinstance(step, CompensateStep) else step.do
        if isinstance(step, RetryStep | CompensateStep):
            if action in seen:
                yield f"policy[{number}].steps[{place}]: expected {action} once in a policy, got it again"
            seen.add(action)


def _unknown_in_steps(
    number: int, policy: EscalationPolicy, sinks: set[str], escalation: Escalation
) -> Iterator[str]:
    for place, step in enumerate(policy.steps):
        where = f"policy[{number}].steps[{place}]"
        if isinstance(step, AlertStep):
            for sink in sorted({*step.to} - sinks):
                yield _unknown(f"{where}.to", "sinks", sinks, sink)
        if isinstance(step, DigestStep) and step.into not in {"daily", *escalation.digests}:
            yield _unknown(f"{where}.into", "digests", {"daily", *escalation.digests}, step.into)


def _unknown(where: str, what: str, known: Mapping[str, Any] | set[str], came: str) -> str:
    return (
        f"{where}: expected one of the {what} {', '.join(sorted(known)) or '(there are none)'}, got {came!r}"
    )


def _bad_templates(escalation: Escalation) -> Iterator[str]:
    for number, policy in enumerate(escalation.policies):
        for place, step in enumerate(policy.steps):
            written: dict[str, Any] = {}
            names = ALERT_NAMES
            if isinstance(step, AlertStep):
                written = {"title": step.title, "text": step.text}
            if isinstance(step, CompensateStep):
                written, names = {"arguments": step.arguments}, COMPENSATION_NAMES
            for key, template in written.items():
                for mistake in find_mistakes(template, names):
                    yield f"policy[{number}].steps[{place}].{key}: {mistake}"


def _unset(escalation: Escalation, environment: Mapping[str, str]) -> Iterator[str]:
    for name, sink in escalation.sinks.items():
        for key in ("apprise", "webhook", "secret"):
            value: str | None = getattr(sink, key)
            if value and value.startswith(_ENVIRONMENT) and not environment.get(value[len(_ENVIRONMENT) :]):
                variable = value[len(_ENVIRONMENT) :]
                yield f"sink.{name}.{key}: expected the variable {variable} to be set, got none"


def _filled(escalation: Escalation, environment: Mapping[str, str]) -> dict[str, SinkConfig]:
    def fill(value: str | None) -> str | None:
        named = value is not None and value.startswith(_ENVIRONMENT)
        return environment[value[len(_ENVIRONMENT) :]] if named and value else value

    return {
        name: sink.model_copy(
            update={"apprise": fill(sink.apprise), "webhook": fill(sink.webhook), "secret": fill(sink.secret)}
        )
        for name, sink in escalation.sinks.items()
    }


def _unusable(sinks: Mapping[str, SinkConfig]) -> Iterator[str]:
    for name, sink in sinks.items():
        if sink.webhook is not None and urlsplit(sink.webhook).scheme not in ("http", "https"):
            yield f"sink.{name}.webhook: expected a URL like https://host/path, got {mask(sink.webhook)!r}"
        try:
            signing_key(sink.secret or "")
        except ValueError as error:
            yield f"sink.{name}.secret: {error}"
