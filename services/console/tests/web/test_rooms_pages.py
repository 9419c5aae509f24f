"""The pages of agents, queues, incidents, parked messages and breakers."""

import json
from datetime import UTC, datetime, timedelta
from uuid import UUID

import httpx
from tests.store_rows import queued_job, waiting_job

from warrener.operations.incidents import policy_steps
from warrener.web.console import Console
from warrener_store.gates.rows import GateWaiter, SlotClaim
from warrener_store.incidents.rows import IncidentFilter

from .conftest import Browser, page_of, read, read_pages
from .filled_rooms import HOSTILE, STEPS
from .stored_jobs import open_breaker

INCIDENT = "/incidents/3f9a1c77e0b2"
EMPTY = (
    ("/", "Nothing has run yet"),
    ("/agents", "No agent has reported within the last hour"),
    ("/breakers", "No circuit breaker"),
    ("/dead-letters", "No dead letter is open."),
    ("/gates", "No gate"),
    ("/incidents", "No incident is open"),
    ("/job-types", "No job type yet"),
    ("/jobs", "No job yet."),
    ("/jobs", "warrener request TYPE"),
    ("/parked", "No message is parked"),
    ("/queues", "No queue yet"),
    ("/redrives", "No redrive yet."),
    ("/schedules", "No schedule yet"),
    ("/schedules", "warrener schedule put"),
)
NO_MATCH = {
    "/agents?q=nothing": "No agent matches",
    "/queues?q=nothing": "No queue matches",
    "/parked?reason=too_large": "No parked message matches",
}


async def test_an_empty_page_describes_its_contents(browser: Browser) -> None:
    for path, words in EMPTY:
        assert words in await page_of(browser, path), path


async def test_unknown_names_and_filters_without_a_match_are_named(rooms: Browser) -> None:
    for path, words in NO_MATCH.items():
        assert words in await page_of(rooms, path)
    for path in ("/agents/none", "/queues/none", "/incidents/none", "/parked/none"):
        for prefix in ("", "/api/v1"):
            answer = await rooms.get(f"{prefix}{path}")
            assert (answer.status_code, "got none" in answer.text) == (404, True)


# -- agents and queues ---------------------------------------------------------------------------------------


async def test_agents_show_their_state_slots_and_version(rooms: Browser) -> None:
    text = await page_of(rooms, "/agents")
    for words in ("loader-1", "2026.11.3", "draining", "its ledger does not answer", "silent"):
        assert words in text, words
    agents = (await read(rooms, "/agents"))["agents"]
    assert {agent["agent_id"]: agent["state"] for agent in agents} == {
        "loader-1": "alive",
        "loader-2": "alive",
        "mailer-1": "draining",
        "worker-9": "in trouble",
        "old-3": "silent",
    }
    assert len((await read(rooms, "/agents?queue=loading"))["agents"]) == 2
    assert len((await read(rooms, "/agents?state=silent"))["agents"]) == 1


async def test_an_agent_shows_its_running_and_its_lost_attempts(rooms: Browser) -> None:
    text = await page_of(rooms, "/agents/loader-1")
    assert "file 42 of 100" in text
    assert "the agent was silent" in text
    found = await read(rooms, "/agents/loader-1")
    assert [job["job_type"] for job in found["runs"]] == ["flights.load"]
    assert [(lost["job_type"], lost["state"]) for lost in found["lost"]] == [("ledger.close", "retrying")]


async def test_queues_count_jobs_though_the_broker_is_away(rooms: Browser) -> None:
    assert "The broker gave no counts" in await page_of(rooms, "/queues")
    found = {queue["name"]: queue for queue in (await read(rooms, "/queues"))["queues"]}
    assert set(found) == {"default", "loading", "slow"}
    loading = found["loading"]
    assert (loading["jobs"]["queued"], loading["jobs"]["running"], loading["waiting"]) == (37, 1, None)
    assert [name for name in found if found[name]["oldest"] is not None] == ["loading", "slow"]


async def test_every_queue_is_reached_from_page_to_page(browser: Browser, console: Console) -> None:
    names = [f"queue-{number:03}" for number in range(205)]
    await console.store.insert_jobs([queued_job(queue=name) for name in names])
    first = await read(browser, "/queues")
    rest = await read(browser, "/queues", after=first["next"])
    assert [queue["name"] for page in (first, rest) for queue in page["queues"]] == names
    assert (first["next"], rest["next"]) == ("queue-199", None)
    text = await page_of(browser, "/queues")
    assert ("queue-204" in text, "?after=queue-199" in text) == (False, True)
    assert "queue-204" in await page_of(browser, "/queues?after=queue-199")


async def test_a_queue_shows_its_types_its_agents_and_its_oldest_jobs(rooms: Browser) -> None:
    assert "Agents that serve it" in await page_of(rooms, "/queues/loading")
    found = await read(rooms, "/queues/loading")
    assert [each["job_type"] for each in found["job_types"]] == ["flights.load"]
    assert {agent["agent_id"] for agent in found["serving"]} == {"loader-1", "loader-2"}
    moments = [job["dispatched_at"] for job in found["waiting_longest"]]
    assert len(moments) == 10
    assert moments == sorted(moments)


async def test_a_paused_queue_is_marked_explained_and_resumed_from_its_page(
    browser: Browser, console: Console
) -> None:
    await console.store.insert_jobs([waiting_job(queue="loads"), queued_job(queue="mails")])
    assert "Pause…" in await page_of(browser, "/queues/loads")
    await console.store.put_breaker(
        open_breaker("queue:loads", manual=True, until=None, reason="maintenance", job_types=())
    )
    assert {one["name"]: one["paused"] for one in (await read(browser, "/queues"))["queues"]} == {
        "loads": True,
        "mails": False,
    }
    assert {one["name"]: one["paused"] for one in (await read(browser, "/overview"))["queues"]}["loads"]
    assert "paused" in await page_of(browser, "/queues")
    text = await page_of(browser, "/queues/loads")
    assert "Queue loads is paused and holds its jobs back" in text
    assert text.count("Resume") == 1
    assert "/breakers/queue%3Aloads/close" in text
    assert "Pause…" not in text
    assert {one["name"]: one["held"] for one in (await read(browser, "/breakers"))["breakers"]} == {
        "queue:loads": 1
    }
    assert "/jobs?state=waiting,retrying&amp;queue=loads" in await page_of(browser, "/breakers")
    await console.store.put_breaker(open_breaker("queue:mails", manual=True, job_types=()))
    assert "/breakers/queue:mails/close" in await page_of(browser, "/queues/mails"), "sooner than by itself"


# -- incidents ---------------------------------------------------------------------------------------------


async def test_incidents_come_in_pages_the_last_raised_first(rooms: Browser) -> None:
    assert "no answer of the billing API" in await page_of(rooms, "/incidents")
    found = await read_pages(rooms, "/incidents", "incidents", limit=3)
    seen = [incident["fingerprint"] for incident in found]
    assert len(seen) == len(set(seen)) == 4
    assert (await rooms.get("/incidents?after=nonsense")).status_code == 400
    hostile = next(fingerprint for fingerprint in seen if HOSTILE in fingerprint)
    answer = await rooms.get(httpx.URL("http://127.0.0.1:8765").copy_with(path=f"/incidents/{hostile}"))
    assert (answer.status_code, HOSTILE in answer.text) == (200, False)


async def test_an_incident_shows_its_policy_with_times_and_its_dead_jobs(
    rooms: Browser, filled_console: Console
) -> None:
    text = await page_of(rooms, INCIDENT)
    assert "request the dead jobs once more" in text
    assert 'href="/dead-letters/3f9a1c77e0b2"' in text
    found = await read(rooms, INCIDENT)
    assert [step["state"] for step in found["steps"]] == ["done", "done", "next", "planned"]
    assert [step["is_exact"] for step in found["steps"]] == [False, True, True, False]
    assert len(found["occurrences"]) == 7
    incidents = filled_console.store.escalations
    [row] = await incidents.incidents(IncidentFilter(fingerprints=["3f9a1c77e0b2"]))
    steps, due = policy_steps(row, await incidents.policies()), row.due_at
    assert len(steps) == len(STEPS)
    assert due is not None
    assert [step.at for step in steps[1:]] == [due - timedelta(hours=1), due, due + timedelta(days=7)]
    snoozed = await rooms.post(f"/api/v1{INCIDENT}/snooze", json={"snooze_for": "soon"})
    assert (snoozed.status_code, "snooze_for" in snoozed.text) == (422, True)


async def test_gates_show_their_slots_their_holders_and_who_waits(browser: Browser, console: Console) -> None:
    name, since = "pool/crm/a & b", datetime(2026, 11, 20, tzinfo=UTC)
    claims = [SlotClaim(UUID(int=number), 1, since, ((name, 1),)) for number in (1, 2)]
    await console.store.take_slots(claims, since, fresh=True)
    await console.store.add_waiters([GateWaiter(UUID(int=2), name, since)])
    await console.store.set_slots(name, 3, since)
    text = await page_of(browser, "/gates")
    for words in ("pool/crm/a &amp; b", "by hand, announced 1", "/gates/pool/crm/a%20%26%20b/set"):
        assert words in text, words
    [gate] = (await read(browser, "/gates"))["gates"]
    numbers = {"slots": 3, "announced": 1, "manual": True, "held": 1, "waiting": 1}
    assert gate == {"name": name, **numbers}
    found = await read(browser, "/gates/pool/crm/a%20%26%20b")
    assert [one["job_id"] for one in (*found["holders"], *found["line"])] == [
        str(each.job_id) for each in claims
    ]
    await console.store.set_slots("pool/b", 3, since)
    assert [
        len((await read(browser, "/gates", limit=1, after=after))["gates"]) for after in ("", "pool/c")
    ] == [1, 1]
    assert (await read(browser, "/gates", limit=1))["next"] == name


# -- parked messages and breakers ----------------------------------------------------------------------------


async def test_parked_messages_are_listed_by_reason_and_queue_without_secrets(rooms: Browser) -> None:
    assert "hunter2" not in await page_of(rooms, "/parked")
    assert len((await read(rooms, "/parked?reason=not_json"))["messages"]) == 2
    assert len((await read(rooms, "/parked?queue=warrener.status"))["messages"]) == 0
    ids = [message["parked_id"] for message in await read_pages(rooms, "/parked", "messages", limit=5)]
    assert len(ids) == len(set(ids)) == 13
    for dropped, status, sentence in (([], 422, "got none"), (["none"], 409, "")):
        answer = await rooms.post("/api/v1/parked/drop", json={"ids": dropped})
        assert (answer.status_code, sentence in answer.text) == (status, True)


async def test_a_parked_message_shows_its_body_as_what_it_is(rooms: Browser) -> None:
    messages = (await read(rooms, "/parked?limit=4"))["messages"]
    addresses = [f"/parked/{message['parked_id']}" for message in messages]
    json_body, broken, binary, half = [await read(rooms, address) for address in addresses]
    assert json.loads(json_body["body"])["data"]["arguments"]["password"] == "***"
    assert json_body["headers"]["authorization"] == "***"
    assert (broken["body_base64"], binary["body"]) == (None, None)
    assert json.loads(half["body"]) == {"password": "***", "text": "\ud800"}
    pages = [await page_of(rooms, address) for address in addresses]
    assert "00 01 02" in pages[2]
    assert [("hunter2" in text, "Drop for good" in text) for text in pages] == [(False, True)] * 4


async def test_breakers_that_are_open_come_first(rooms: Browser) -> None:
    text = await page_of(rooms, "/breakers")
    assert "12 of 20 attempts within 1 min have failed" in text
    assert "1 job</a>" in text
    found = (await read(rooms, "/breakers"))["breakers"]
    assert [(one["name"], one["state"], one["held"]) for one in found[:2]] == [
        ("dependency:billing-api", "open", 1),
        ("job:fares.fetch", "closed", 0),
    ]
    assert found[2]["since"] is None
    assert datetime.fromisoformat(found[0]["until"]) > datetime(2026, 1, 1, tzinfo=UTC)
