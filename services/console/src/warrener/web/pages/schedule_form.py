"""The form of a schedule with a preview of its ticks: a definition as texts, texts as a definition."""

import asyncio
import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal
from urllib.parse import urlencode
from zoneinfo import available_timezones

from pydantic import BaseModel, ConfigDict, Field

from warrener.errors import CommandError, UsageError
from warrener.operations.masking import restore_hidden
from warrener.operations.noun import ActionBody, Outcome, Verb, VerbCall
from warrener.schedules.calendar import preview_ticks
from warrener.schedules.rules import expand_rule, upstream
from warrener.schedules.schedules_file import DefinitionError, make_definition
from warrener.selection import find_schedule
from warrener.web.page import PageRequest, View, page
from warrener.web.site import Action
from warrener.web.tick_calendar import SHOWN, ticks_around_clock_change
from warrener_client.errors import CommandRefused
from warrener_contracts.events import JsonObject, SchedulePutData
from warrener_contracts.json_safety import is_object
from warrener_contracts.schedule_rules import CronRule, DstGap, DstOverlap, IntervalRule, OnceRule
from warrener_contracts.schedule_words import MisfirePolicy, OverlapPolicy
from warrener_contracts.triggers import AfterRule, EventRule
from warrener_store.schedules.rows import ScheduleRow

RuleKind = Literal["cron", "every", "at", "on event", "after", "JSON"]
Text = Annotated[str, Field(max_length=100_000)]


CHOICE_OPTIONS: Mapping[str, tuple[str, ...]] = {
    "overlap": tuple(OverlapPolicy),
    "misfire": tuple(MisfirePolicy),
    "dst_gap": tuple(DstGap),
    "dst_overlap": tuple(DstOverlap),
}
"""The words of the choices that the form offers by name."""


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
        return make_definition({**fields, "rule": expand_rule(_rule_fields(form))})
    except ValueError as error:
        raise UsageError(str(error)) from None


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
        raise UsageError(problem) from None
    if not is_object(found):
        raise UsageError(f"{field}: expected a JSON object, got {text!r:.60}")
    return dict(found)


async def show_schedule_form(request: PageRequest) -> View:
    """Show the form of a schedule, or of a new one, with a preview of the ticks that it would have."""
    name = request.path.get("name")
    row = None if name is None else await find_schedule(request.console.store, name)
    is_filled = "rule" in request.query
    form = request.read(ScheduleForm)
    if not is_filled and row is not None:
        masker = (await request.console.learn()).of(row.definition.job_type)
        arguments = masker.value(row.definition.arguments)
        form = fill_form(row.definition.model_copy(update={"arguments": arguments}))
    if name is not None:
        form = form.model_copy(update={"name": name})
    context: dict[str, Any] = {"trouble": "", "ticks": [], "around": [], "change": None}
    if is_filled or row is not None:
        try:
            context |= await _preview(request, read_form(form), row)
        except CommandError as error:
            context["trouble"] = str(error)
    context |= {"name": name, "form": form, "is_filled": is_filled, "options": CHOICE_OPTIONS}
    context["zones"] = sorted(available_timezones())
    context["job_types"] = sorted(await request.console.store.job_types())
    return View("New schedule" if name is None else f"Edit {name}", context)


async def _preview(
    request: PageRequest, definition: SchedulePutData, row: ScheduleRow | None
) -> dict[str, Any]:
    """The next ticks of a definition, and those around the next change of the clock in its zone."""
    put_at = row.put_at if row is not None and definition == row.definition else None
    ticks = await asyncio.to_thread(preview_ticks, definition, SHOWN, put_at, request.now)
    around, change = await ticks_around_clock_change(definition, put_at, request.now)
    is_whole = any(tick.clock_change for tick in ticks)
    return {"ticks": ticks, "around": around, "change": change, "is_whole": is_whole}


class PutBody(ScheduleForm, ActionBody):
    """A schedule: its `definition`, as in `schedule.put`, or the fields of the form.

    `unchecked`: also for a job type that no agent has announced, and without its schema.
    """

    model_config = ConfigDict(extra="forbid")

    definition: JsonObject | None = None
    unchecked: bool = False

    @property
    def subject(self) -> str:
        """The name of the schedule, for the audit log."""
        given = self.name if self.definition is None else str(self.definition.get("name", ""))
        return given[:120]


async def put_schedule(call: VerbCall[PutBody]) -> Outcome:
    """Create a schedule, or replace its definition, once a scheduler has checked and stored it."""
    body, checked = call.body, not call.body.unchecked
    try:
        definition = read_form(body) if body.definition is None else make_definition(body.definition)
        # What the form has hidden is as it was stored.
        stored = (await call.backend.store.schedules([definition.name])).get(definition.name)
        if stored is not None:
            arguments = restore_hidden(definition.arguments, stored.definition.arguments)
            definition = definition.model_copy(update={"arguments": arguments})
        client = await call.backend.client()
        await client.put_schedules([definition], checked=checked, reply_timeout=call.reply_timeout)
    except (CommandError, CommandRefused, DefinitionError) as error:
        filled = {name: value for name in ScheduleForm.model_fields if (value := getattr(body, name))}
        # A program has sent no form to go back to.
        back = f"/new-schedule?{urlencode(filled)}" if body.definition is None else None
        return Outcome(accepted=False, sentence=f"not stored: {error}", location=back)
    return Outcome(
        accepted=True,
        sentence=f"a scheduler has stored {definition.name}",
        details={"name": definition.name},
        location=f"/schedules/{definition.name}",
    )


show_schedule_edit = page("/schedules/{name}/edit", name="schedule-edit", refresh=None)(show_schedule_form)
show_schedule_new = page("/new-schedule", name="schedule-new", section="schedules", refresh=None)(
    show_schedule_form
)
PUT = Action("schedule.put", "/schedules", Verb(word="put", body=PutBody, perform=put_schedule))
