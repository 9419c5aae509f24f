"""The overview and the pages of job types."""

from collections import Counter
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
from tests.store_rows import agent_row, job_type_row, queued_job

from warrener.top.live import System
from warrener.web.console import Console
from warrener_contracts.policy import JobPolicy, Limit, RetryRule
from warrener_contracts.state_machine import JobState
from warrener_contracts.unique import Unique
from warrener_store.jobs.views import Success
from warrener_store.statistics.rows import BucketSpan

from .conftest import Browser, browser_on, fill_copy, open_copy, page_of, read
from .filled_rooms import KEY_ERROR, StatisticsFiller

PATHS = ("/", "/?window=day", "/?window=week", "/job-types", "/job-types/flights.load?window=hour")


@pytest.fixture(scope="module")
def week_template(filled_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fill_copy(
        filled_template,
        tmp_path_factory.mktemp("week"),
        lambda store, now: StatisticsFiller(store, now).fill(),
    )


@pytest.fixture
async def browser_of_a_week(week_template: Path, tmp_path: Path) -> AsyncIterator[Browser]:
    async with open_copy(week_template, tmp_path) as console, browser_on(console) as client:
        yield client


async def test_every_page_is_shown(browser_of_a_week: Browser, subtests: pytest.Subtests) -> None:
    for path in PATHS:
        with subtests.test(path):
            text = await page_of(browser_of_a_week, path)
            assert ("flights.load" in text, "<svg" in text) == (True, True)


async def test_an_unknown_job_type_and_window_are_refused(browser_of_a_week: Browser) -> None:
    answer = await browser_of_a_week.get("/job-types/nothing")
    assert (answer.status_code, "got none" in answer.text) == (404, True)
    for path in ("/?window=year", "/job-types/flights.load?window=year"):
        assert (await browser_of_a_week.get(path)).status_code == 400
    assert (await browser_of_a_week.get("/api/v1/overview?window=year")).status_code == 422
    assert "No job type matches" in await page_of(browser_of_a_week, "/job-types?q=nothing")
    found = (await read(browser_of_a_week, "/job-types?q=FLIGHT"))["job_types"]
    assert [one["name"] for one in found] == ["flights.load"]


async def test_the_overview_counts_the_window(browser_of_a_week: Browser) -> None:
    ends = [state.value for state in JobState if state.terminal]
    for window, number in (("hour", 60), ("day", 144), ("week", 168)):
        found = await read(browser_of_a_week, f"/overview?window={window}")
        points, total = found["points"], found["summary"]
        assert len(points) == number
        assert total["jobs"] == sum(point[end] for point in points for end in ends)
        assert total["succeeded"] > 10 * total["failed"] > 0
        assert total["queue_p95"] < total["p95"]
    names = {one["name"] for one in found["job_types"]}
    assert {"flights.load", "mail.send", "reports.make", "fares.fetch"} <= names


async def test_the_overview_names_causes_deploys_and_the_rooms(browser_of_a_week: Browser) -> None:
    found = await read(browser_of_a_week, "/overview?window=hour")
    cause = found["causes"][0]
    named = (cause["job_type"], cause["error_type"], cause["fingerprint"])
    assert named == ("flights.load", "KeyError", KEY_ERROR)
    assert sum(cause["counts"]) == cause["jobs"]
    assert {one["code_version"] for one in found["deploys"]} == {"1.4.2"}
    assert found["agents"]["alive"] == 2
    assert found["schedules"][0]["next_at"] <= found["schedules"][-1]["next_at"]
    assert max(one["jobs"].get("queued", 0) for one in found["queues"]) == 37


async def test_the_overview_begins_with_what_needs_somebody(browser_of_a_week: Browser) -> None:
    found = (await read(browser_of_a_week, "/overview"))["needs"]
    counts = {one["kind"]: one["count"] for one in found}
    assert counts.pop("dead_letters") == found[-1]["count"]
    assert counts == {"breakers": 1, "incidents": 4, "queues": 1, "agents": 1, "schedules": 1}
    assert all(one["since"] and one["is_counted"] for one in found)
    subjects = {one["kind"]: one["subjects"][0]["key"] for one in found}
    assert subjects.items() >= {"queues": "slow", "agents": "old-3", "schedules": "sensors.poll"}.items()
    text = await page_of(browser_of_a_week, "/")
    assert text.index("What needs you") < text.index("Throughput")
    for address in ("/breakers", "/incidents", "/queues/slow", "/agents/old-3", "/schedules/sensors.poll"):
        assert f'class="button" href="{address}"' in text, address
        assert (await browser_of_a_week.get(address)).status_code == 200


async def test_nothing_needs_somebody_while_all_is_well(browser: Browser, console: Console) -> None:
    now = await console.now()
    drained = agent_row("gone", draining=True, last_seen_at=now - timedelta(minutes=5))
    await console.store.put_agents([agent_row(last_seen_at=now), drained])
    await console.store.insert_jobs([queued_job(dispatched_at=now)])
    assert (await read(browser, "/overview"))["needs"] == []
    assert "What needs you" not in await page_of(browser, "/")


async def test_all_agents_are_counted(browser: Browser, console: Console) -> None:
    now = await console.now()
    await console.store.put_agents([agent_row(f"a{number}", last_seen_at=now) for number in range(510)])
    assert (await read(browser, "/overview"))["agents"]["alive"] == 510
    top = System(console.endpoints)
    await top.read_store()
    await top.close()
    assert top.view.services.agents_alive == 510
    assert "The first 500 agents; filter to see others." in await page_of(browser, "/agents")
    assert "filter to see others" not in await page_of(browser, "/agents?q=a1")


async def test_the_overview_reads_no_rows_twice(
    browser: Browser, console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    statements: Counter[str] = Counter()
    method = "_query"
    query = getattr(console.store, method)

    async def counted(name: str, *parameters: object) -> object:
        statements[name] += 1
        return await query(name, *parameters)

    monkeypatch.setattr(console.store, method, counted)
    await page_of(browser, "/")
    assert {"agents", "job_types", "queue_heads"} <= statements.keys()
    repeated = {name for name, times in statements.items() if times > 1}
    # Of all and of single types; those that are overdue and those that come next; also for the marks of
    # secrets, which are read once a second.
    assert repeated <= {"series", "late_schedules", "job_types"}


async def test_a_job_type_shows_its_limits_and_rules_in_words(browser: Browser, console: Console) -> None:
    rules = (RetryRule(errors=("memory",), queue="high-memory"),)
    unique = Unique("{{ arguments.tenant }}", repeat="replace", window="1m")
    policy = JobPolicy(gates=(Limit(5, key="{{ arguments.tenant }}"),), retry_rules=rules, unique=unique)
    await console.store.put_job_types([job_type_row("crm.push", policy=policy)])
    text = await page_of(browser, "/job-types/crm.push")
    assert "5 at once of each {{ arguments.tenant }}" in text
    assert "queue high-memory" in text
    assert "one of each {{ arguments.tenant }} until dispatched, for at least 1 min; a further one" in text
    assert "slots&#39;" not in text


async def test_a_job_type_has_its_versions_and_deploys(browser_of_a_week: Browser) -> None:
    details = await read(browser_of_a_week, "/job-types/flights.load?window=week")
    versions = ["1.4.2", "1.4.1", "1.4.0"]
    for of in ("versions", "deploys"):
        assert [one["code_version"] for one in details[of]] == versions
    new, old, _ = details["versions"]
    assert new["summary"]["success"] < 0.9 < old["summary"]["success"]
    assert details["schedules"] == ["flights.hourly"]
    assert len(details["points"]) == 168
    assert details["agents"]
    deploys = (await read(browser_of_a_week, "/deploys?job_type=flights.load"))["deploys"]
    found = [(one["code_version"], one["previous"], one["schema_changed"]) for one in deploys]
    assert found == [("1.4.2", "1.4.1", True), ("1.4.1", "1.4.0", False), ("1.4.0", None, False)]


async def test_jobs_that_are_not_in_buckets_yet_are_counted(console: Console, browser: Browser) -> None:
    now = await console.now()
    row = queued_job(accepted_at=now, requested_at=now, dispatched_at=now)
    await console.store.insert_jobs([row])
    await console.store.succeed_jobs([Success(row.job_id, 1, "a1", None, now, now)], now)
    found = await read(browser, "/overview")
    assert found["summary"]["succeeded"] == 1
    assert found["complete_until"] is None
    points = (await read(browser, "/job-types/flights.load?window=day"))["points"]
    assert points[-1]["starts_at"] == BucketSpan.TEN_MINUTES.floor(now).isoformat().replace("+00:00", "Z")
    assert points[-1]["succeeded"] + points[-2]["succeeded"] == 1
