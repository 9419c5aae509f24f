"""Fields that a job type's schema marks as secrets are hidden from every face, and from its searches."""

import json
import subprocess
import sys
from collections.abc import AsyncIterator

import pytest
from services.console.tests.web.conftest import NO_BROKER, Browser, browser_on, open_console, page_of, read
from tests.security.attacks import attack
from tests.store_access import on_store
from tests.store_rows import died, job_type_row, log_chunk, parked_message, queued_job, succeeded

from warrener_contracts.events import ErrorInfo, ErrorKind
from warrener_store import Store
from warrener_store.jobs.rows import JobRow
from warrener_store.logs.rows import LogLimit

PIN = "hunter2-of-ada"
_SECRET = {"type": "string", "writeOnly": True, "format": "password"}
SCHEMA = {
    "type": "object",
    "properties": {"gate": _SECRET, "user": {"$ref": "#/$defs/User"}, "plain": {"type": "string"}},
    "$defs": {"User": {"properties": {"keys": {"type": "array", "items": _SECRET}, "pin": _SECRET}}},
}
ARGUMENTS = {"gate": PIN, "user": {"keys": [PIN], "pin": PIN, "name": "ada"}, "plain": "visible"}
ERROR = ErrorInfo(kind=ErrorKind.ERROR, type="ValueError", message=f"no: gate={PIN}", stack=f"x\n gate={PIN}")


async def _fill(store: Store) -> JobRow:
    types = [
        job_type_row("gates.open", arguments_schema=SCHEMA, result_schema={"properties": {"gate": _SECRET}}),
        job_type_row("gates.read", arguments_schema={"type": "object"}),
    ]
    await store.put_job_types(types)
    dead, done = (queued_job(job_type="gates.open", arguments=ARGUMENTS) for _ in range(2))
    other = queued_job(job_type="gates.read", arguments={"gate": "B42"})
    await store.insert_jobs([dead, done, other])
    await store.save_jobs([died(dead, ERROR), succeeded(done, {"gate": PIN, "count": 3})])
    chunk = log_chunk(dead.job_id, 1, f"gate={PIN}", final=True, attempt=dead.attempt)
    await store.append_logs([chunk], LogLimit(100, 10_000))
    body = json.dumps({"data": {"job_type": "gates.open", "arguments": ARGUMENTS}}).encode()
    await store.park([parked_message("lost", body=body, detail=f"refused gate={PIN}")])
    return dead


@pytest.fixture(params=["sqlite", "postgres"])
def store_url(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(f"{request.param}_store_url"))


@pytest.fixture
def job(store_url: str) -> JobRow:
    """A dead job with secrets, beside one of another type with a field of the same name."""
    return on_store(store_url, _fill)


@pytest.fixture
async def browser(store_url: str, job: JobRow) -> AsyncIterator[Browser]:
    async with open_console(store_url) as console, browser_on(console) as opened:
        yield opened


_FACES = (
    *("/jobs/{job}", "/jobs", "/jobs?type=gates.open", "/dead-letters", "/parked", "/parked/lost", "/agents"),
    *("/jobs/new?from={job}", "/job-types/gates.open", "/", "/search?q=gates"),
    *("/api/v1/jobs/{job}", "/api/v1/jobs", "/api/v1/jobs/{job}/logs", "/api/v1/jobs/{job}/timeline"),
    *("/api/v1/dead-letters", "/api/v1/dead-letters/{job}", "/api/v1/parked", "/api/v1/parked/lost"),
)


@attack(
    "a viewer of the console",
    "looks for secret arguments, results and errors on pages and in the API",
    refused="fields that the schema of the job type marks are hidden",
)
async def test_no_page_and_no_route_shows_a_marked_field(browser: Browser, job: JobRow) -> None:
    for face in _FACES:
        answer = await browser.get(face.format(job=job.job_id))
        assert answer.status_code == 200, (face, answer.text[:300])
        assert PIN not in answer.text, face
    shown = await read(browser, f"/jobs/{job.job_id}")
    hidden = {"gate": "***", "user": {"keys": "***", "pin": "***", "name": "ada"}}
    assert shown["arguments"] == {**hidden, "plain": "visible"}
    others = (await read(browser, "/jobs?type=gates.read"))["jobs"]
    assert [one["brief_arguments"] for one in others] == ["gate=B42"], "expected marks to be those of a type"


@attack(
    "a viewer of the console",
    "finds a secret by searching arguments, errors and parked messages for parts of it",
    refused="searches compare what is shown",
)
@pytest.mark.parametrize(
    "query",
    [
        f"jobs?argument=gate={PIN}",
        f"jobs?argument=user.pin={PIN}",
        "jobs?error=hunter2",
        f"jobs?error=gate={PIN[:3]}",
        "search?q=hunter2",
        f"search?q=gate={PIN[:3]}",
        f"search?q={PIN}",
    ],
)
async def test_no_search_finds_a_marked_field(browser: Browser, query: str) -> None:
    found = await read(browser, f"/{query}")
    assert not [*found.get("jobs", ()), *found.get("hits", ())]
    assert PIN[:3] not in (await page_of(browser, f"/{query}")).replace(query.rpartition("=")[2], "")
    for visible in ("plain=visible", "user.name=ada", "gate=B42"):
        assert (await read(browser, f"/jobs?argument={visible}"))["jobs"]


@attack(
    "an operator of the console",
    "learns a secret by the number of jobs that a cancel with a filter takes",
    refused="a filter compares what is shown",
)
async def test_no_verb_selects_jobs_by_a_marked_field(browser: Browser) -> None:
    body = {"query": f"argument=gate={PIN}", "reason": "x"}
    answer = await browser.post("/api/v1/jobs/cancel", json=body)
    assert (answer.status_code, "got none" in answer.text) == (409, True)


@attack(
    "an onlooker at a terminal",
    "reads secrets in the answers of the command",
    refused="the command hides them without --reveal",
)
@pytest.mark.parametrize(
    "words",
    [
        *("job {job}", "job {job} --json", "job {job} --logs", "jobs", "jobs --json", "find gates"),
        *("trace {job} --json", "dead-letters list --json", "parked list", "parked show lost"),
        *("explain {job}", "explain {job} --json"),
    ],
)
def test_no_command_shows_a_marked_field(store_url: str, job: JobRow, words: str) -> None:
    output = _run(words.format(job=job.job_id), store_url)
    assert PIN not in output
    if words == "job {job} --json":
        assert PIN in _run(f"job {job.job_id} --json --reveal", store_url)


def _run(words: str, store_url: str) -> str:
    command = [sys.executable, "-m", "warrener", *words.split(), "--store", store_url]
    ended = subprocess.run(
        [*command, *(("--broker", NO_BROKER) if words.startswith("explain") else ())],
        capture_output=True,
        text=True,
        check=True,
    )
    return ended.stdout + ended.stderr
