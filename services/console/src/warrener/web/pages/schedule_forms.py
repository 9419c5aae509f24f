"""The form of a schedule, with a preview of the ticks that it would have, and the action that stores it."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode
from zoneinfo import available_timezones

from pydantic import ConfigDict

from warrener.errors import CommandError
from warrener.operations.masked_rows import restore_hidden
from warrener.operations.noun import ActionBody, Outcome
from warrener.operations.roles import Role
from warrener.schedules.schedules_file import DefinitionError, make_definition
from warrener.selection import find_schedule
from warrener.web.action import REPLY_TIMEOUT, Action, ActionRequest
from warrener.web.console import Console
from warrener.web.page import Page, PageRequest, View
from warrener.web.queries import read_query
from warrener.web.schedule_form import CHOICE_OPTIONS, ScheduleForm, fill_form, read_form
from warrener_client.errors import CommandRefused
from warrener_contracts.events import JsonObject, SchedulePutData
from warrener_store.schedules.rows import ScheduleRow


async def show_form(request: PageRequest) -> View:
    """Show the form of a schedule, or of a new one, with a preview of the ticks that it would have."""
    name = request.path.get("name")
    row = None if name is None else await find_schedule(request.console.store, name)
    is_filled = "rule" in request.query
    form = read_query(ScheduleForm, request.query)
    if not is_filled and row is not None:
        arguments = request.console.masker.value(row.definition.arguments)
        form = fill_form(row.definition.model_copy(update={"arguments": arguments}))
    if name is not None:
        form = form.model_copy(update={"name": name})
    context: dict[str, Any] = {
        "name": name,
        "form": form,
        "trouble": "",
        "ticks": [],
        "around": [],
        "change": None,
    }
    if is_filled or row is not None:
        try:
            definition = read_form(form)
            context |= await _preview(request, definition, row)
        except CommandError as error:
            context["trouble"] = str(error)
    context |= {"options": CHOICE_OPTIONS, "zones": sorted(available_timezones()), "is_filled": is_filled}
    context["job_types"] = sorted(await request.console.store.job_types())
    title = "New schedule" if name is None else f"Edit {name}"
    return View(template="pages/schedule_form.html", title=title, context=context)


async def _preview(
    request: PageRequest, definition: SchedulePutData, row: ScheduleRow | None
) -> dict[str, Any]:
    """The next ticks of a definition, and those around the next change of the clock in its zone."""
    calendar, now = request.console.calendar, request.now
    put_at = row.put_at if row is not None and definition == row.definition else None
    ticks = await calendar.preview(definition, put_at, now)
    around, change = await calendar.around_clock_change(definition, put_at, now)
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
    def fields(self) -> dict[str, str]:
        """The fields of the form that are filled in."""
        return {name: value for name in ScheduleForm.model_fields if (value := getattr(self, name))}


async def put(request: ActionRequest) -> Outcome:
    """Create a schedule, or replace its definition, once a scheduler has checked and stored it."""
    body = request.body
    assert isinstance(body, PutBody)
    try:
        definition = await _restored(request.console, _definition(body))
        client = await request.console.client()
        await client.put_schedules([definition], checked=not body.unchecked, reply_timeout=REPLY_TIMEOUT)
    except (CommandError, CommandRefused) as error:
        return Outcome(accepted=False, sentence=f"not stored: {error}", location=_back_to_form(body))
    return Outcome(
        accepted=True,
        sentence=f"a scheduler has stored {definition.name}",
        details={"name": definition.name},
        location=f"/schedules/{definition.name}",
    )


def _definition(body: PutBody) -> SchedulePutData:
    if body.definition is None:
        return read_form(body)
    try:
        return make_definition(body.definition)
    except DefinitionError as error:
        raise CommandError(str(error)) from None


async def _restored(console: Console, definition: SchedulePutData) -> SchedulePutData:
    """The definition with the stored values in place of arguments that the form has hidden."""
    stored = (await console.store.schedules([definition.name])).get(definition.name)
    if stored is None:
        return definition
    arguments = restore_hidden(definition.arguments, stored.definition.arguments)
    return definition.model_copy(update={"arguments": arguments})


def _back_to_form(body: PutBody) -> str | None:
    """The form with what was written into it; None for a program, which sent no form."""
    if body.definition is not None:
        return None
    return f"/new-schedule?{urlencode(body.fields)}"


def _put_name(_: Mapping[str, str], body: ActionBody) -> str:
    assert isinstance(body, PutBody)
    given = body.name if body.definition is None else str(body.definition.get("name", ""))
    return given[:120]


PAGES = (
    Page(
        name="schedule-edit", path="/schedules/{name}/edit", section="schedules", view=show_form, refresh=None
    ),
    Page(name="schedule-new", path="/new-schedule", section="schedules", view=show_form, refresh=None),
)
ACTIONS = (
    Action(
        name="schedule.put",
        path="/schedules",
        role=Role.OPERATOR,
        body=PutBody,
        subject=_put_name,
        perform=put,
    ),
)
