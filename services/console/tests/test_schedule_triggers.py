"""`warrener schedule` for rules that wait for events: put with flags, shown in words."""

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from services.console.tests.test_schedule import published_events
from typer.testing import Result

from warrener.trigger_options import condition
from warrener_contracts.events import SchedulePut, SchedulePutData
from warrener_contracts.schedule_rules import Rule
from warrener_contracts.triggers import (
    AfterRule,
    Condition,
    ConditionOperator,
    EventRule,
    Upstream,
    UpstreamEnd,
)
from warrener_store import open_store
from warrener_store.schedules.rows import ScheduleRow

Run = Callable[..., Result]

LANDED: dict[str, Any] = {"kind": "event", "exchange": "airport", "key": "landed.*"}
ON_EVENT = ("--on-event", "landed.*", "--exchange", "airport")


def put(run: Run, url: str, *words: str) -> SchedulePut:
    result = run("schedule", "put", "load", "flights.load", *words, "--broker", url)
    assert result.exit_code == 0, result.output
    assert "It has no times of its own" in " ".join(result.stderr.split())
    (event,) = published_events(url)
    assert isinstance(event, SchedulePut)
    return event


def test_put_on_an_event(run: Run, vhost_url: str) -> None:
    words = (
        "--where",
        "data.country=DE|FR",
        "--where",
        "!data.error",
        "--debounce",
        "5s",
        "--longest-wait",
        "1m",
    )
    rule = put(run, vhost_url, *ON_EVENT, *words, "--event-as", "event").data.rule
    where = (
        Condition(path="data.country", check=ConditionOperator.ONE_OF, value=["DE", "FR"]),
        Condition(path="data.error", check=ConditionOperator.ABSENT),
    )
    more: Any = {"debounce": "5s", "longest_wait": "1m", "event_as": "event"}
    assert rule == EventRule(**LANDED, where=where, **more)


def test_put_after_others(run: Run, vhost_url: str) -> None:
    words = ("--after-success", "flights.load", "--after-success", "schedule:fares", "--after-failure", "x.y")
    rule = put(run, vhost_url, *words, "--within", "1h").data.rule
    upstreams = (
        Upstream(job_type="flights.load"),
        Upstream(schedule="fares"),
        Upstream(job_type="x.y", end=UpstreamEnd.FAILED),
    )
    within: Any = "1h"
    assert rule == AfterRule(upstreams=upstreams, within=within)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--on-event", "a", "--after-end", "b"), "got 2 of them"),
        (("--every", "1s", "--where", "data.x=1"), "expected --on-event with --where, got none"),
        (("--every", "1s", "--event-as", "e"), "expected --on-event or --after-success with --event-as"),
        (
            ("--on-event", "a", "--within", "1h"),
            "expected --after-success, --after-failure or --after-end with",
        ),
        (("--on-event", "a", "--where", "!data.x=1"), "expected a condition such as data.country=DE"),
        (("--on-event", "a", "--longest-wait", "5s"), "expected a debounce with longest_wait"),
        (("--on-event", "a", "--exchange", "warrener.status"), "expected warrener.events or an exchange"),
        (("--on-event", "a", "--jitter", "5s"), "expected no jitter"),
        (("--after-end", "a", "--after-success", "b"), "expected within, the window for several"),
        (("--after-end", "a", "--after-success", "a", "--within", "1h"), "got one of them twice"),
    ],
)
def test_an_invalid_schedule_shows_what_was_expected(run: Run, words: tuple[str, ...], expected: str) -> None:
    result = run("schedule", "put", "load", "flights.load", *words)
    assert result.exit_code == 2, result.output
    assert expected in " ".join(result.stderr.split())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("data.country=DE", {"path": "data.country", "check": "equals", "value": "DE"}),
        ("data.rows>=100", {"path": "data.rows", "check": "at_least", "value": 100}),
        ("data.rows<1.5", {"path": "data.rows", "check": "less", "value": 1.5}),
        ("data.ok!=true", {"path": "data.ok", "check": "differs", "value": True}),
        ('data.code="007"', {"path": "data.code", "check": "equals", "value": "007"}),
        ('data.pipe="a|b"', {"path": "data.pipe", "check": "equals", "value": "a|b"}),
        ("data.n=1|two", {"path": "data.n", "check": "one_of", "value": [1, "two"]}),
        ("data.text=", {"path": "data.text", "check": "equals", "value": ""}),
        ("data.text=a=b", {"path": "data.text", "check": "equals", "value": "a=b"}),
        ("data.error", {"path": "data.error", "check": "exists"}),
        ("!data.error", {"path": "data.error", "check": "absent"}),
    ],
)
def test_conditions_as_people_write_them(text: str, expected: dict[str, object]) -> None:
    assert condition(text) == expected


@pytest.mark.parametrize(
    ("rule", "short", "sentence"),
    [
        (
            EventRule(
                **LANDED,
                where=(
                    Condition(path="data.x", value=[1]),
                    Condition(path="y", check=ConditionOperator.EXISTS),
                ),
            ),
            "on landed.* by airport, data.x=[1], y",
            "it ticks whenever a message comes by airport under landed.* and passes data.x=[1], y.",
        ),
        (
            EventRule.model_validate({"kind": "event", "key": "job.dead.#", "debounce": 60}),
            "on job.dead.#, once quiet for 1 min",
            "it ticks once a message comes by warrener.events under job.dead.#, "
            "and none for 1 min since, or 10 min after the first.",
        ),
        (
            AfterRule(upstreams=(Upstream(schedule="fares", end=UpstreamEnd.FAILED),)),
            "after schedule:fares failed",
            "it ticks whenever a job of schedule:fares failed.",
        ),
        (
            AfterRule.model_validate(
                {"upstreams": [{"job_type": "a"}, {"job_type": "b", "end": "finished"}], "within": 3600}
            ),
            "after a succeeded and b ended within 1 h",
            "it ticks whenever one of a succeeded and one of b ended, all within 1 h.",
        ),
    ],
)
def test_list_show_and_preview_put_it_in_words(
    run: Run, store_url: str, rule: Rule, short: str, sentence: str
) -> None:
    async def fill() -> None:
        store = open_store(store_url)
        await store.start()
        definition = SchedulePutData(name="load", rule=rule, job_type="flights.load")
        await store.put_schedules([ScheduleRow(asked=definition, put_at=datetime.now(UTC), zone_version="x")])
        await store.close()

    asyncio.run(fill())
    outputs = {
        verb: run("schedule", *verb.split(), "--store", store_url).stdout
        for verb in ("list", "show load", "preview load")
    }
    assert "active" in outputs["list"]
    listed = json.loads(run("schedule", "list", "--store", store_url, "--json").stdout)
    assert listed[0]["asked"]["rule"]["kind"] == rule.kind
    squeezed = "".join(outputs["list"].split())
    assert "".join(short.split())[:8] in squeezed
    for verb in ("show load", "preview load"):
        assert sentence in " ".join(outputs[verb].split())
    assert json.loads(run("schedule", "preview", "load", "--store", store_url, "--json").stdout) == []
