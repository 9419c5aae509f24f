"""Rules that wait for events: put by options and by a file, shown in words."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from services.console.tests.command.test_schedule import put, put_file
from tests.store_access import on_store
from tests.store_rows import schedule_row
from typer.testing import Result

from warrener.schedules.rules import condition
from warrener.schedules.schedules_file import FileError, parse
from warrener_contracts import triggers

Run = Callable[..., Result]

LANDED: dict[str, Any] = {"kind": "event", "exchange": "airport", "key": "landed.*"}


def test_options_name_an_event_or_an_upstream(run: Run, vhost_url: str) -> None:
    assert put(run, vhost_url, "--on-event", "job.dead.#").rule == triggers.EventRule(key="job.dead.#")
    for name, only in {
        "flights.load": triggers.Upstream(job_type="flights.load"),
        "schedule:fares": triggers.Upstream(schedule="fares"),
    }.items():
        assert put(run, vhost_url, "--after-success", name).rule == triggers.AfterRule(upstreams=(only,))


def test_a_file_has_conditions_as_texts(run: Run, here: Path, vhost_url: str) -> None:
    text = """
    [rule]
    kind = "event"
    exchange = "airport"
    key = "landed.*"
    where = ["data.country=DE|FR", "!data.error", { path = "data.rows", check = "more", value = 1 }]
    debounce = "5s"
    max_wait = "1m"
    event_argument = "event"
    """
    where = (
        triggers.Condition(path="data.country", check=triggers.ConditionOperator.ONE_OF, value=["DE", "FR"]),
        triggers.Condition(path="data.error", check=triggers.ConditionOperator.ABSENT),
        triggers.Condition(path="data.rows", check=triggers.ConditionOperator.MORE, value=1),
    )
    more: Any = {"debounce": "5s", "max_wait": "1m", "event_argument": "event"}
    assert put_file(run, here, vhost_url, text).rule == triggers.EventRule(**LANDED, where=where, **more)


def test_a_file_of_schedules_takes_the_same_texts() -> None:
    text = """
    [[schedule]]
    name = "load"
    job_type = "flights.load"
    rule = { kind = "event", key = "landed", exchange = "airport", where = ["data.rows>=100"] }

    [[schedule]]
    name = "index"
    job_type = "flights.index"
    [schedule.rule]
    kind = "after"
    within = "1h"
    upstreams = ["flights.load", "schedule:fares", { job_type = "x.y", end = "failed" }]
    """
    load, index = parse(text, Path("schedules.toml")).schedules
    where = (triggers.Condition(path="data.rows", check=triggers.ConditionOperator.AT_LEAST, value=100),)
    assert load.rule == triggers.EventRule(key="landed", exchange="airport", where=where)
    upstreams = ({"job_type": "flights.load"}, {"schedule": "fares"}, {"job_type": "x.y", "end": "failed"})
    assert index.rule == triggers.AfterRule.model_validate({"upstreams": upstreams, "within": "1h"})
    with pytest.raises(FileError, match=r"schedules.toml:2: .* expected a condition such as data.country=DE"):
        parse(text.replace("data.rows>=100", "!data.x=1"), Path("schedules.toml"))


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
            LANDED | {"where": [{"path": "data.x", "value": [1]}, {"path": "y", "check": "exists"}]},
            "on landed.* by airport, data.x=[1], y",
            "it ticks whenever a message comes by airport under landed.* and passes data.x=[1], y.",
        ),
        (
            {"kind": "event", "key": "job.dead.#", "debounce": 60},
            "on job.dead.#, once quiet for 1 min",
            "it ticks once a message comes by warrener.events under job.dead.#, "
            "and none for 1 min since, or 10 min after the first.",
        ),
        (
            {"kind": "after", "upstreams": [{"schedule": "fares", "end": "failed"}]},
            "after schedule:fares failed",
            "it ticks whenever a job of schedule:fares failed.",
        ),
        (
            {
                "kind": "after",
                "upstreams": [{"job_type": "a"}, {"job_type": "b", "end": "finished"}],
                "within": 3600,
            },
            "after a succeeded and b ended within 1 h",
            "it ticks whenever one of a succeeded and one of b ended, all within 1 h.",
        ),
    ],
)
def test_list_show_and_preview_put_it_in_words(
    run: Run, store_url: str, rule: Any, short: str, sentence: str
) -> None:
    on_store(store_url, lambda store: store.put_schedules([schedule_row("load", rule)]))
    outputs = {
        verb: run("schedule", *verb.split(), "--store", store_url).stdout
        for verb in ("list", "show load", "preview load")
    }
    assert "active" in outputs["list"]
    listed = json.loads(run("schedule", "list", "--store", store_url, "--json").stdout)
    assert listed[0]["definition"]["rule"]["kind"] == rule["kind"]
    squeezed = "".join(outputs["list"].split())
    assert "".join(short.split())[:8] in squeezed
    for verb in ("show load", "preview load"):
        assert sentence in " ".join(outputs[verb].split())
    assert json.loads(run("schedule", "preview", "load", "--store", store_url, "--json").stdout) == []
