"""The pages of schedules: the list, one schedule, its form with a preview, and backfills."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

import pytest

from warrener.errors import CommandError
from warrener.operations.roles import Role
from warrener.schedules.calendar import preview_ticks
from warrener.web.console import Console
from warrener.web.pages.schedule_form import ScheduleForm, fill_form, read_form
from warrener_contracts.events import SchedulePutData
from warrener_store.schedules.rows import ScheduleFilter

from .conftest import Browser, browser_on, page_of, read, read_pages
from .filled_rooms import RULES, definition
from .test_app import GuardOf

ALL = [rule[0] for rule in RULES]


async def listed(browser: Browser, **query: Any) -> list[str]:
    return [schedule["name"] for schedule in (await read(browser, "/schedules", **query))["schedules"]]


async def test_the_list_has_rules_in_words_last_runs_and_signs(rooms: Browser) -> None:
    text = await page_of(rooms, "/schedules")
    for words in (
        "after flights.load succeeded",
        "every 30 s",
        "the template is being rewritten",
        "overdue",
        "on its event",
        "Last runs of flights.hourly",
    ):
        assert words in text, words
    schedules = (await read(rooms, "/schedules"))["schedules"]
    assert [one["name"] for one in schedules] == ALL
    hourly = schedules[ALL.index("flights.hourly")]
    assert len(hourly["ticks"]) == 24
    assert (hourly["ticks"][0]["state"], hourly["state"]) == ("running", "active")


async def test_each_filter_selects_and_pages_continue(rooms: Browser) -> None:
    for name, value, expected in (
        ("owner", "finance", ["billing.nightly-close", "payroll.run"]),
        ("job_type", "flights.load", ["flights.hourly"]),
        ("q", "PORT", ["reports.after-load", "support.alert"]),
        ("state", "paused", ["mail.digest"]),
        ("state", "overdue", ["sensors.poll"]),
        ("state", "over", ["release.party"]),
    ):
        assert await listed(rooms, **{name: value}) == expected
    assert [one["name"] for one in await read_pages(rooms, "/schedules", "schedules", limit=4)] == ALL
    assert "No schedule matches" in await page_of(rooms, "/schedules?q=nothing")
    history = "/schedules/flights.hourly?before="
    for path in ("/schedules?state=tired", f"{history}yesterday", f"{history}2026"):
        answer = await rooms.get(path)
        assert (answer.status_code, "got &#39;" in answer.text) == (400, True)


async def test_a_schedule_shows_its_next_ticks_its_runs_and_why_ticks_made_no_job(rooms: Browser) -> None:
    text = await page_of(rooms, "/schedules/flights.hourly")
    for words in (
        "Next weeks",
        "Last 30 runs of flights.hourly",
        "Ticks by day and hour",
        "owned by operations",
        "Durations and successes",
        "skipped: the job of the tick before still runs",
    ):
        assert words in text, words
    assert text.count("<tr") > 40
    upcoming = await read(rooms, "/schedules/flights.hourly/preview")
    assert len([tick for tick in upcoming if not tick["clock_change"]]) == 10


async def test_the_history_of_ticks_comes_in_pages(rooms: Browser) -> None:
    seen: list[str] = []
    query: dict[str, Any] = {"limit": 150}
    while query.get("before", "") is not None:
        document = await read(rooms, "/schedules/flights.hourly/ticks", **query)
        seen += [tick["nominal_at"] for tick in document["ticks"]]
        query["before"] = document["next"]
    assert len(seen) == 400
    assert seen == sorted(set(seen), reverse=True)
    older = await page_of(rooms, f"/schedules/flights.hourly?{urlencode({'before': seen[99]})}#ticks")
    assert "Newest" in older


async def test_a_rule_without_times_has_no_calendar_and_one_with_many_its_first_days(rooms: Browser) -> None:
    waiting = await page_of(rooms, "/schedules/support.alert")
    assert "It has no times of its own" in waiting
    assert "Next weeks" not in waiting
    many = await page_of(rooms, "/schedules/sensors.poll")
    assert "Next weeks" in many
    assert "later days are not counted" in many


async def test_an_unknown_schedule_is_no_page(rooms: Browser) -> None:
    of_pages = [f"/schedules/none{part}" for part in ("", "/edit", "/backfill")]
    for path in (*of_pages, "/api/v1/schedules/none", "/api/v1/schedules/none/preview"):
        answer = await rooms.get(path)
        assert answer.status_code == 404
        assert "expected names of schedules that the store knows" in answer.text


# -- the form ----------------------------------------------------------------------------------------------

EDIT = "/schedules/billing.nightly-close/edit"
FIELDS = {"job_type": "ledger.close", "kind": "cron"}


async def test_the_form_previews_an_edited_rule_over_a_clock_change_and_stores_nothing(
    rooms: Browser, filled_console: Console
) -> None:
    before = await filled_console.store.list_schedules(ScheduleFilter())
    fields = {**FIELDS, "rule": "30 2 * * *", "timezone": "Europe/Berlin"}
    text = await page_of(rooms, f"{EDIT}?{urlencode(fields)}")
    assert "Over the next clock change" in text
    assert "the clock changes" in text
    last_sunday_in_october = f"/new-schedule?{urlencode({**fields, 'name': 'x', 'dst_overlap': 'both'})}"
    assert "Next ticks" in await page_of(rooms, last_sunday_in_october)
    assert await filled_console.store.list_schedules(ScheduleFilter()) == before


async def test_a_mistake_in_the_form_is_named_and_the_form_stays_filled(rooms: Browser) -> None:
    text = await page_of(rooms, f"{EDIT}?{urlencode({**FIELDS, 'rule': '61 * * * *', 'arguments': '{}'})}")
    assert "expected a cron expression" in text
    assert "61 * * * *" in text
    text = await page_of(rooms, f"{EDIT}?{urlencode({**FIELDS, 'rule': '0 * * * *', 'arguments': '[1'})}")
    assert "arguments: expected a JSON object" in text


def test_ticks_whose_local_time_comes_twice_are_marked() -> None:
    rule = {"kind": "interval", "every": "30m"}
    fields = {"name": "hourly", "rule": rule, "timezone": "Europe/Berlin", "job_type": "flights.load"}
    night = datetime(2026, 10, 24, 22, tzinfo=UTC)
    ticks = preview_ticks(SchedulePutData.model_validate(fields), 12, None, night)
    assert [tick.at.hour for tick in ticks if tick.repeated] == [0, 0, 1, 1]


def test_a_definition_survives_the_form_which_names_the_field_that_is_wrong() -> None:
    for each in RULES:
        put = definition(*each)
        assert read_form(fill_form(put)) == put
    form = ScheduleForm(name="x", job_type="y", rule="", kind="every")
    with pytest.raises(CommandError, match="rule: expected when it ticks"):
        read_form(form)
    with pytest.raises(CommandError, match="policy: expected a JSON object"):
        read_form(form.model_copy(update={"rule": "1h", "policy": "7"}))


async def test_secrets_in_arguments_are_hidden_and_stay_when_the_form_is_saved(
    rooms: Browser, filled_console: Console
) -> None:
    store = filled_console.store
    row = (await store.schedules(["flights.hourly"]))["flights.hourly"]
    secret = row.definition.model_copy(update={"arguments": {"password": "hunter2"}})
    await store.put_schedules([replace(row, definition=secret, put_at=row.put_at + timedelta(days=1))])
    address = "/schedules/flights.hourly"
    for path in (address, f"{address}/edit", f"/api/v1{address}"):
        text = (await rooms.get(path)).text
        assert ("hunter2" in text, "password" in text) == (False, True)


# -- backfill and actions ------------------------------------------------------------------------------------


async def test_a_backfill_shows_the_ticks_that_have_no_job(rooms: Browser, filled_console: Console) -> None:
    begin = ((await filled_console.now()) - timedelta(days=3)).isoformat()
    address = "/schedules/flights.hourly/backfill"
    text = await page_of(rooms, f"{address}?{urlencode({'begin': begin})}")
    assert "ticks have their job" in text
    assert "without a job" in text
    answer = await rooms.post(f"/api/v1{address}", json={"begin": begin, "dry_run": True})
    assert answer.status_code == 200, answer.text
    details = answer.json()["details"]
    assert details["jobs"] == [tick["status"] for tick in details["ticks"]].count("requested") > 0


async def test_a_backfill_that_cannot_be_is_refused_in_words(rooms: Browser) -> None:
    for path, words in (
        ("flights.hourly/backfill?begin=soon", "expected a time such as"),
        ("sensors.poll/backfill?begin=2026-01-01", "expected a span with at most 5,000 ticks"),
        ("support.alert/backfill?begin=2026-01-01", "which waits for events"),
        ("flights.hourly/backfill?begin=2026-11-01&rate=fast", "--rate"),
    ):
        assert words in await page_of(rooms, f"/schedules/{path}"), path


@pytest.mark.parametrize("role", [Role.VIEWER, Role.OPERATOR])
async def test_a_viewer_sees_no_buttons_and_an_operator_cannot_remove(
    filled_console: Console, role: Role
) -> None:
    async with browser_on(filled_console, guard=GuardOf(role)) as browser:
        text = await page_of(browser, "/schedules/flights.hourly")
        assert ("Trigger now" in text) is (role is Role.OPERATOR)
        assert ">Remove<" not in text
        answer = await browser.post("/api/v1/schedules/flights.hourly/remove", json={})
        assert answer.status_code == 403
