"""Find every mistake in an escalation file. Pure.

A mistake in one place hides none in another: the wrong value is replaced by one that is right, and the rest
of the file is checked as usual.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from pydantic import ValidationError

from warrener_contracts.json_safety import is_array, is_object
from warrener_contracts.templates import find_mistakes
from warrener_runtime.secrets import mask, mask_value
from warrener_supervisor.escalation.alert_sinks import key_of as signing_key
from warrener_supervisor.escalation.facts import ALERT_NAMES, COMPENSATION_NAMES
from warrener_supervisor.escalation.policy import (
    DAILY,
    LOG,
    AlertStep,
    CloseStep,
    CompensateStep,
    DigestStep,
    Escalation,
    EscalationPolicy,
    RetryStep,
    SinkConfig,
)
from warrener_supervisor.escalation.toml_lines import DocumentPath, locate_keys, salvage

_ENVIRONMENT = "env:"
_KINDS = ("retry", "park", "alert", "digest", "compensate", "close")
_PAGE = "see docs/howto/escalate.md"
_MAX_ROUNDS = 5
_LONG = 100  # characters of a wrong value
_PLACEHOLDERS: Mapping[str, Any] = {
    "steps": [{"do": "park"}],
    "job_type": "placeholder.job",
    "from": "00:00",
    "to": "00:00",
}
"""Right values in place of wrong or missing ones that a table must have."""


@dataclass(frozen=True, slots=True)
class FileMistake:
    """One mistake: its key, what was expected and what came, and the remedy."""

    key: str
    problem: str
    remedy: str
    line: int | None = None

    def __str__(self) -> str:
        where = f"{self.key}: " if self.key else ""
        line = f" (line {self.line})" if self.line and "(at line" not in self.problem else ""
        return f"{where}{self.problem}{line}; {self.remedy}"


@dataclass(frozen=True, slots=True)
class _Finding:
    """A mistake by its path in the document."""

    path: DocumentPath
    problem: str
    remedy: str


def check_file(text: str, environment: Mapping[str, str]) -> tuple[Escalation | None, list[FileMistake]]:
    """Return the contents of a file and its mistakes. The contents may be used if there are none."""
    document = salvage(text)
    syntax = [
        FileMistake("", f"expected TOML, got a mistake: {one.problem}", "correct the syntax", one.line)
        for one in document.problems
    ]
    findings, escalation = _check_structure(document.contents)
    if escalation is not None and not syntax:  # an emptied table may have declared any name
        findings += _check_contents(escalation, environment)
    lines = locate_keys(document.text)
    others = (
        FileMistake(key_of(one.path), one.problem, one.remedy, _line_of(one.path, lines)) for one in findings
    )
    mistakes = [*syntax, *(one for one in others if one.line not in document.emptied)]
    mistakes.sort(key=lambda one: one.line or 0)
    if escalation is not None and not mistakes:
        escalation = escalation.model_copy(update={"sinks": _filled(escalation, environment)})
    return escalation, mistakes


def _line_of(path: DocumentPath, lines: Mapping[DocumentPath, int]) -> int | None:
    """Return the line of a path, or of the nearest table around it."""
    known = {place[:depth] for place in lines for depth in range(1, len(place) + 1)}
    found: DocumentPath = ()
    line = None
    for part in path:
        if (*found, part) in known:
            found = (*found, part)
            line = lines.get(found, line)
        elif not (isinstance(part, int) or _is_kind(part, found)):
            break
    return line


def _is_kind(part: str | int, before: DocumentPath) -> bool:
    """True if this part of pydantic's path is the kind of a step, which stands in no document."""
    return part in _KINDS and bool(before) and isinstance(before[-1], int)


# -- structure: keys and types ---------------------------------------------------------------------------


def _check_structure(document: dict[str, Any]) -> tuple[list[_Finding], Escalation | None]:
    """Validate the document; return the contents with right values in place of wrong ones."""
    findings: list[_Finding] = []
    replaced: set[DocumentPath] = set()
    for _ in range(_MAX_ROUNDS):
        try:
            return findings, Escalation.model_validate(document)
        except ValidationError as error:
            details = _without_consequences([dict(one) for one in error.errors(include_url=False)])
        for detail in details:
            path = _document_path(document, detail["loc"])
            if not any(one[: len(path)] == path for one in replaced):  # else it follows from another mistake
                findings.append(_finding(detail))
        # From the last to the first: a list keeps the places of the elements before.
        for detail in sorted(details, key=lambda one: [str(part) for part in one["loc"]], reverse=True):
            path = _document_path(document, detail["loc"])
            _replace(document, path)
            replaced.add(path)
    return findings, None


def _without_consequences(details: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Leave out lists that are too short because of mistakes in them."""
    places: list[DocumentPath] = [detail["loc"] for detail in details]
    return [
        detail
        for detail in details
        if detail["type"] != "too_short"
        or all(place == detail["loc"] or place[: len(detail["loc"])] != detail["loc"] for place in places)
    ]


def _document_path(document: object, place: DocumentPath) -> DocumentPath:
    """Return the path in the document: without the kinds of steps, and without places in lists of one."""
    path: DocumentPath = ()
    value: object = document
    for part in place:
        if isinstance(part, int):
            if not is_array(value):
                continue
            value = value[part] if part < len(value) else None
        elif is_object(value) and part in value:
            value = value[part]
        elif _is_kind(part, path):
            continue
        path = (*path, part)
    return path


def _replace(document: dict[str, Any], path: DocumentPath) -> None:
    """Put a right value in this place, or delete what is there."""
    if not path:
        return
    container: Any = document
    for part in path[:-1]:
        container = _inner(container, part)
        if container is None:
            return
    last = path[-1]
    if isinstance(last, int):
        container[last] = _element(path)
    elif last == "name":
        container[last] = f"policy {path}"
    elif last in _PLACEHOLDERS and not (last == "to" and path[0] != "quiet"):
        container[last] = _PLACEHOLDERS[last]
    elif path[0] == "sink" and len(path) == 2:
        container[last] = {"log": "error"}
    else:
        container.pop(last, None)


def _inner(container: object, part: str | int) -> Any:
    """Return the table or list in this place; None if there is none."""
    found: object = None
    if isinstance(part, str):
        found = container.get(part) if is_object(container) else None
    elif is_array(container) and part < len(container):
        found = container[part]
    return found if is_object(found) or is_array(found) else None


def _element(path: DocumentPath) -> Any:
    """Return a right element of the list at this path."""
    match path[-2]:
        case "policy":
            return {"name": f"policy {path}", "steps": [{"do": "park"}]}
        case "steps":
            return {"do": "park"}
        case "days":
            return "mon"
        case "to":
            return LOG
        case "kinds" | "job_types" | "errors":
            return "*"
        case _:
            return {"from": "00:00", "to": "00:00"}


def _finding(detail: dict[str, Any]) -> _Finding:
    path: DocumentPath = detail["loc"]
    came: object = detail["input"]
    match detail["type"]:
        case "extra_forbidden":
            return _Finding(
                path, "expected no such key, got it", f"{_PAGE} for those there are, or delete the key"
            )
        case "missing":
            return _Finding(path, "expected a value, got none", "add the key")
        case "union_tag_invalid" | "union_tag_not_found":
            got = came.get("do") if is_object(came) else came
            return _Finding(
                (*path, "do"), f"expected one of {', '.join(_KINDS)}, got {got!r}", f"{_PAGE} for the steps"
            )
        case "too_short":
            return _Finding(path, "expected at least one element, got none", "add one, or delete the key")
        case "time_parsing":
            return _Finding(path, f"expected a time of day such as 22:00, got {came!r}", "correct the time")
        case _:
            pass
    complaint = str(detail["msg"]).removeprefix("Value error, ").removeprefix("Input should be ")
    if not complaint.startswith("expected "):  # our own validators write whole sentences
        shown = mask(repr(mask_value(str(path[-1]) if path else "", came)))[:_LONG]
        complaint = f"expected {complaint[0].lower()}{complaint[1:]}, got {shown}"
    return _Finding(path, complaint, "correct the value")


def key_of(path: DocumentPath) -> str:
    """Return the place in the file: `policy[0].steps[2].to`."""
    written = ""
    for before, part in zip((None, *path), path, strict=False):
        if isinstance(part, int):
            written += f"[{part}]"
        elif not (isinstance(before, int) and part in _KINDS):  # the step itself names its kind
            written += f".{part}" if written else part
    return written or "the file"


# -- contents: names, templates, variables ---------------------------------------------------------------


def _check_contents(escalation: Escalation, environment: Mapping[str, str]) -> list[_Finding]:
    return [
        *_unknown_names(escalation),
        *_unreachable(escalation),
        *_bad_templates(escalation),
        *_unset(escalation, environment),
        *_unusable(_filled(escalation, environment)),
    ]


def _unknown_names(escalation: Escalation) -> Iterator[_Finding]:
    sinks = {LOG, *escalation.sinks}
    names = [policy.name for policy in escalation.policies]
    for number, policy in enumerate(escalation.policies):
        if policy.name in names[:number]:
            yield _Finding(
                ("policy", number, "name"),
                f"expected a name of its own, got {policy.name!r} again",
                "rename one of them",
            )
        if policy.quiet is not None and policy.quiet not in escalation.quiet:
            yield _unknown(("policy", number, "quiet"), "quiet hours", escalation.quiet, policy.quiet)
        yield from _unknown_in_steps(number, policy, sinks, escalation)
        yield from _repeated(number, policy)
    for name, digest in escalation.digests.items():
        for sink in sorted({*digest.to} - sinks):
            yield _unknown(("digest", name, "to"), "sinks", sinks, sink)


def _repeated(number: int, policy: EscalationPolicy) -> Iterator[_Finding]:
    """Find steps that would request the same job a second time, which has no effect."""
    seen: set[str] = set()
    for place, step in enumerate(policy.steps):
        action = f"{step.do} {step.job_type}" if isinstance(step, CompensateStep) else step.do
        if isinstance(step, RetryStep | CompensateStep):
            if action in seen:
                yield _Finding(
                    ("policy", number, "steps", place),
                    f"expected {action} once in a policy, got it again",
                    "delete one of them",
                )
            seen.add(action)


def _unreachable(escalation: Escalation) -> Iterator[_Finding]:
    """Find steps and policies that can never have an effect."""
    catch_all = ""
    for number, policy in enumerate(escalation.policies):
        if catch_all:
            yield _Finding(
                ("policy", number),
                f"expected a policy that can match, got one behind {catch_all}, which matches every incident",
                f"put it before {catch_all}",
            )
        elif all("*" in patterns for patterns in (policy.kinds, policy.job_types, policy.errors)):
            catch_all = key_of(("policy", number))
        closes = [place for place, step in enumerate(policy.steps) if isinstance(step, CloseStep)]
        if closes and closes[0] + 1 < len(policy.steps):
            behind = closes[0] + 1
            yield _Finding(
                ("policy", number, "steps", behind),
                f"expected no step behind close, got {policy.steps[behind].do}",
                "put it before close, or delete it",
            )


def _unknown_in_steps(
    number: int, policy: EscalationPolicy, sinks: set[str], escalation: Escalation
) -> Iterator[_Finding]:
    for place, step in enumerate(policy.steps):
        where = ("policy", number, "steps", place)
        if isinstance(step, AlertStep):
            for sink in sorted({*step.to} - sinks):
                yield _unknown((*where, "to"), "sinks", sinks, sink)
        if isinstance(step, DigestStep) and step.into not in {DAILY, *escalation.digests}:
            yield _unknown((*where, "into"), "digests", {DAILY, *escalation.digests}, step.into)


def _unknown(path: DocumentPath, what: str, known: Mapping[str, Any] | set[str], came: str) -> _Finding:
    there = ", ".join(sorted(known)) or "(there are none)"
    return _Finding(path, f"expected one of the {what} {there}, got {came!r}", "declare it, or name another")


def _bad_templates(escalation: Escalation) -> Iterator[_Finding]:
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
                    problem, _, remedy = mistake.partition("; ")
                    yield _Finding(
                        ("policy", number, "steps", place, key), problem, remedy or "correct the template"
                    )


def _unset(escalation: Escalation, environment: Mapping[str, str]) -> Iterator[_Finding]:
    for name, sink in escalation.sinks.items():
        for key in ("apprise", "webhook", "secret"):
            value: str | None = getattr(sink, key)
            if value and value.startswith(_ENVIRONMENT) and not environment.get(value[len(_ENVIRONMENT) :]):
                variable = value[len(_ENVIRONMENT) :]
                yield _Finding(
                    ("sink", name, key), f"expected the variable {variable} to be set, got none", "set it"
                )


def _filled(escalation: Escalation, environment: Mapping[str, str]) -> dict[str, SinkConfig]:
    """Return the sinks with the values of the variables that are set."""

    def fill(value: str | None) -> str | None:
        if value is None or not value.startswith(_ENVIRONMENT):
            return value
        return environment.get(value[len(_ENVIRONMENT) :]) or value

    return {
        name: sink.model_copy(
            update={"apprise": fill(sink.apprise), "webhook": fill(sink.webhook), "secret": fill(sink.secret)}
        )
        for name, sink in escalation.sinks.items()
    }


def _unusable(sinks: Mapping[str, SinkConfig]) -> Iterator[_Finding]:
    for name, sink in sinks.items():
        url = sink.webhook
        if url is not None and urlsplit(url).scheme not in ("http", "https", _ENVIRONMENT[:-1]):
            yield _Finding(
                ("sink", name, "webhook"),
                f"expected a URL like https://host/path, got {mask(url)!r}",
                "correct the URL",
            )
        try:
            signing_key(sink.secret or "")
        except ValueError as error:
            yield _Finding(("sink", name, "secret"), str(error), "copy the secret again")
