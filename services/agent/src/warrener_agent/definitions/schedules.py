"""Schedules declared in the code, beside the handlers whose jobs they request."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, TypedDict

from pydantic import ValidationError

from warrener_agent.definitions.job import JobDefinition
from warrener_agent.failures import JobDefinitionError
from warrener_contracts.events import ScheduleDeclaration, SchedulePutData
from warrener_contracts.policy import PolicyOverrides
from warrener_contracts.schedule_rules import SHORT_RULE_FIELDS, Rule, ScheduleChoices, expand_short_rule
from warrener_contracts.templates import has_placeholders
from warrener_contracts.triggers import TriggerRule


class ScheduleTiming(TypedDict, total=False):
    """One of `rule`, `cron`, `every`, `at` and `after`, with the options of that one."""

    rule: Rule
    cron: str
    every: timedelta | float | str
    anchor: datetime
    offset: timedelta | float | str
    at: datetime
    after: timedelta | float | str
    timezone: str


class ScheduleOptions(ScheduleTiming, total=False):
    """The options of a schedule in the code; omitted ones have their defaults."""

    arguments: Mapping[str, Any]
    queue: str
    policy: PolicyOverrides
    choices: ScheduleChoices


_KNOWN = frozenset((*ScheduleOptions.__annotations__, *ScheduleTiming.__annotations__))


def declare_schedule(
    name: str, definition: JobDefinition, revision: int, options: ScheduleOptions
) -> ScheduleDeclaration:
    """Declare the schedule `name` for jobs of this type. Raises JobDefinitionError that says what is
    wrong."""
    if unknown := sorted(options.keys() - _KNOWN):
        raise JobDefinitionError(
            f"schedule {name}: expected options among {', '.join(sorted(_KNOWN))}, got {', '.join(unknown)}"
        )
    given = dict(options)
    try:
        values = {word: value for word, value in given.items() if word not in SHORT_RULE_FIELDS}
        values |= {"name": name, "job_type": definition.name, "rule": expand_short_rule(given)}
        declaration = ScheduleDeclaration.model_validate({"schedule": values, "revision": revision})
        if not _is_filled_later(declaration.schedule):
            definition.signature.read(declaration.schedule.arguments)
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(map(str, found['loc']))}: {found['msg'].removeprefix('Value error, ')}"
            for found in error.errors(include_url=False)
        )
        raise JobDefinitionError(f"schedule {name}: {problems}") from error
    except ValueError as error:
        raise JobDefinitionError(f"schedule {name}: {error}") from error
    return declaration


def _is_filled_later(schedule: SchedulePutData) -> bool:
    """True if ticks add to its arguments, so that they cannot be checked here. The scheduler checks each
    job."""
    rule = schedule.rule
    has_event = isinstance(rule, TriggerRule) and rule.event_argument is not None
    return has_event or has_placeholders(schedule.arguments)


def resolve_definition(
    name: str, definitions: Iterable[JobDefinition], handler: object, job_type: str | None
) -> JobDefinition:
    """Return the job type of a schedule. Raises JobDefinitionError unless there is exactly one."""
    found = [
        definition
        for definition in definitions
        if (definition.handler is handler if job_type is None else definition.name == job_type)
    ]
    if len(found) == 1:
        return found[0]
    if job_type is not None:
        raise JobDefinitionError(f"schedule {name}: expected a job type of this agent, got {job_type!r}")
    found_names = ", ".join(definition.name for definition in found) or "none: put it above @agent.job(...)"
    raise JobDefinitionError(
        f"schedule {name}: expected the handler of one job type, got that of {found_names}"
        + ("; say job_type" if found else "")
    )
