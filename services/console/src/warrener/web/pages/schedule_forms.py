"""The form of a schedule, with a preview of the ticks that it would have, and the action that stores it."""

import asyncio
from typing import Any
from urllib.parse import urlencode
from zoneinfo import available_timezones

from pydantic import ConfigDict

from warrener.errors import CommandError
from warrener.operations.masking import restore_hidden
from warrener.operations.noun import ActionBody, Call, Outcome, Verb
from warrener.schedules.calendar import preview_ticks
from warrener.schedules.schedules_file import DefinitionError, make_definition
from warrener.selection import find_schedule
from warrener.web.page import PageRequest, View, page
from warrener.web.schedule_form import CHOICE_OPTIONS, ScheduleForm, fill_form, read_form
from warrener.web.site import Action
from warrener.web.tick_calendar import SHOWN, ticks_around_clock_change
from warrener_client.errors import CommandRefused
from warrener_contracts.events import JsonObject, SchedulePutData
from warrener_store import Store
from warrener_store.schedules.rows import ScheduleRow


async def show_schedule_form(request: PageRequest) -> View:
    """Show the form of a schedule, or of a new one, with a preview of the ticks that it would have."""
    name = request.path.get("name")
    row = None if name is None else await find_schedule(request.console.store, name)
    is_filled = "rule" in request.query
    form = request.read(ScheduleForm)
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
    return View(title, context)


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


async def put_schedule(call: Call[PutBody]) -> Outcome:
    """Create a schedule, or replace its definition, once a scheduler has checked and stored it."""
    body, checked = call.body, not call.body.unchecked
    try:
        definition = await _restored(call.backend.store, _definition(body))
        client = await call.backend.client()
        await client.put_schedules([definition], checked=checked, reply_timeout=call.reply_timeout)
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


async def _restored(store: Store, definition: SchedulePutData) -> SchedulePutData:
    """The definition with the stored values in place of arguments that the form has hidden."""
    stored = (await store.schedules([definition.name])).get(definition.name)
    if stored is None:
        return definition
    arguments = restore_hidden(definition.arguments, stored.definition.arguments)
    return definition.model_copy(update={"arguments": arguments})


def _back_to_form(body: PutBody) -> str | None:
    """The form with what was written into it; None for a program, which sent no form."""
    if body.definition is not None:
        return None
    filled = {name: value for name in ScheduleForm.model_fields if (value := getattr(body, name))}
    return f"/new-schedule?{urlencode(filled)}"


show_schedule_edit = page("/schedules/{name}/edit", name="schedule-edit", refresh=None)(show_schedule_form)
show_schedule_new = page("/new-schedule", name="schedule-new", section="schedules", refresh=None)(
    show_schedule_form
)
PUT = Action("schedule.put", "/schedules", Verb(word="put", body=PutBody, perform=put_schedule))
