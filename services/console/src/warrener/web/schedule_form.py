"""The form of a schedule: a definition as texts, and texts as a definition. Pure."""

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from warrener.errors import CommandError, ExitCode
from warrener.schedules.rules import expand_rule, upstream
from warrener.schedules.schedules_file import DefinitionError, make_definition
from warrener_contracts.events import SchedulePutData
from warrener_contracts.json_safety import is_object
from warrener_contracts.schedule_rules import CronRule, DstGap, DstOverlap, IntervalRule, OnceRule
from warrener_contracts.schedule_words import MisfirePolicy, OverlapPolicy
from warrener_contracts.triggers import AfterRule, EventRule

RuleKind = Literal["cron", "every", "at", "on event", "after", "JSON"]
Text = Annotated[str, Field(max_length=100_000)]


class ScheduleForm(BaseModel):
    """The fields of the form, all as texts. `kind` says how `rule` is read."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    name: Text = ""
    job_type: Text = ""
    kind: RuleKind = "cron"
    rule: Text = ""
    timezone: Text = "UTC"
    queue: Text = ""
    overlap: Text = ""
    misfire: Text = ""
    dst_gap: Text = ""
    dst_overlap: Text = ""
    arguments: Text = ""
    choices: Text = ""
    policy: Text = ""
    owner: Text = ""


def fill_form(definition: SchedulePutData) -> ScheduleForm:
    """The form of a definition. Fields with their defaults are left empty."""
    kind, rule = _rule_text(definition)
    choices = definition.choices.model_dump(mode="json", exclude_defaults=True)
    policy = definition.policy and definition.policy.model_dump(mode="json", exclude_none=True)
    return ScheduleForm(
        name=definition.name,
        job_type=definition.job_type,
        kind=kind,
        rule=rule,
        timezone=definition.timezone,
        queue=definition.queue or "",
        arguments=_json_text(definition.arguments),
        policy=_json_text(policy),
        owner=definition.owner or "",
        choices=_json_text({key: value for key, value in choices.items() if key not in CHOICE_OPTIONS}),
        **{key: str(choices[key]) for key in CHOICE_OPTIONS if key in choices},
    )


def _rule_text(definition: SchedulePutData) -> tuple[RuleKind, str]:
    match definition.rule:
        case CronRule(expression=expression):
            return "cron", expression
        case IntervalRule(anchor=None, offset=None) as rule:
            return "every", str(rule.model_dump(mode="json")["every"])
        case OnceRule(at=at) if at is not None:
            return "at", at.isoformat()
        case EventRule(key=key) as rule if rule == EventRule(key=key):
            return "on event", key
        case AfterRule(upstreams=(only,)) as rule if rule == AfterRule.model_validate(
            {"upstreams": [upstream(only.name)]}
        ):
            return "after", only.name
        case rule:
            document = rule.model_dump(mode="json", exclude_defaults=True) | {"kind": rule.kind}
            return "JSON", json.dumps(document, indent=2)


def _json_text(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) if value else ""


def read_form(form: ScheduleForm) -> SchedulePutData:
    """Make the definition of these texts. Raises CommandError that names the field."""
    choices = {**_read_json(form.choices, "choices")}
    choices |= {key: getattr(form, key) for key in CHOICE_OPTIONS if getattr(form, key)}
    fields: dict[str, Any] = {
        "name": form.name,
        "job_type": form.job_type,
        "timezone": form.timezone or "UTC",
        "arguments": _read_json(form.arguments, "arguments"),
        "choices": choices,
        **{key: value for key in ("queue", "owner") if (value := getattr(form, key))},
    }
    if form.policy.strip():
        fields["policy"] = _read_json(form.policy, "policy")
    try:
        rule = expand_rule(_rule_fields(form))
        return make_definition({**fields, "rule": rule})
    except (DefinitionError, ValueError) as error:
        raise CommandError(str(error), code=ExitCode.USAGE) from None


def _rule_fields(form: ScheduleForm) -> Mapping[str, Any]:
    text = form.rule.strip()
    if not text:
        raise ValueError("rule: expected when it ticks, got nothing")
    match form.kind:
        case "cron" | "every" | "at":
            return {form.kind: text}
        case "on event":
            return {"rule": {"kind": "event", "key": text}}
        case "after":
            return {"rule": {"kind": "after", "upstreams": [upstream(text)]}}
        case "JSON":
            return {"rule": _read_json(text, "rule")}


def _read_json(text: str, field: str) -> dict[str, Any]:
    if not text.strip():
        return {}
    try:
        found: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        problem = f"{field}: expected a JSON object, got {text!r:.60} ({error})"
        raise CommandError(problem, code=ExitCode.USAGE) from None
    if not is_object(found):
        raise CommandError(f"{field}: expected a JSON object, got {text!r:.60}", code=ExitCode.USAGE)
    return dict(found)


CHOICE_OPTIONS: Mapping[str, tuple[str, ...]] = {
    "overlap": tuple(OverlapPolicy),
    "misfire": tuple(MisfirePolicy),
    "dst_gap": tuple(DstGap),
    "dst_overlap": tuple(DstOverlap),
}
"""The words of the choices that the form offers by name."""
