"""Verbs over many things show what they would do before; options of policies are read; typos get hints."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from services.console.tests.conftest import Run, put_jobs
from tests.stand_in import stand_in
from tests.store_access import on_store
from tests.store_rows import agent_row, job_type_row, queued_job, running_job, succeeded, waiting_job

from warrener.context import pick_endpoints
from warrener.errors import CommandError
from warrener.operations.jobs import NOT_OVER, CancelBody, select_jobs
from warrener.operations.masking import Masker
from warrener.operations.noun import Backend, ListQuery, VerbCall
from warrener.options import parse_policy_options
from warrener.settings import CommandSettings
from warrener_client.testing import StandIn
from warrener_contracts.events import Event, JobCancelRequested
from warrener_contracts.policy import Backoff, JobPolicy, Limit, PolicyOverrides
from warrener_store import Store
from warrener_store.jobs.rows import JobRow

UNKNOWN = "01936f2e-8a3b-7c4d-9e5f-0123456789ab"


@pytest.fixture
def jobs(sqlite_store_url: str) -> dict[str, JobRow]:
    """Jobs of two types, one of them over, and the announced types."""
    rows = {
        "waiting": waiting_job(),
        "running": running_job(),
        "done": queued_job(),
        "mail": queued_job(job_type="mail.send", idempotency_key=UNKNOWN, arguments={"order": 17}),
    }
    put_jobs(sqlite_store_url, *rows.values(), saves=[succeeded(rows["done"])])
    types = [job_type_row(), job_type_row("mail.send")]
    on_store(sqlite_store_url, lambda store: store.put_job_types(types))
    return rows


def test_a_cancel_by_filters_shows_its_jobs_and_needs_yes(
    run: Run, vhost_url: str, sqlite_store_url: str, jobs: dict[str, JobRow]
) -> None:
    words = ("cancel", "--type", "flights.load", "--broker", vhost_url, "--store", sqlite_store_url)
    groups = [
        {"job_type": "flights.load", "state": "running", "jobs": 1},
        {"job_type": "flights.load", "state": "waiting", "jobs": 1},
    ]
    with stand_in(vhost_url) as services:
        for dry in (("--dry-run",), (), ("--dry-run", "--yes")):
            shown = run(*words, *dry, "--json")
            assert json.loads(shown.stdout) == {"total": 2, "groups": groups, "is_complete": True}
        unanswered = run(*words)
        assert "nothing was done; to cancel these 2: --yes" in unanswered.stderr
        assert "running" in unanswered.stdout
        assert services.commands == []
        done = json.loads(run(*words, "--yes", "--json").stdout)
        wanted = {str(jobs[name].job_id) for name in ("waiting", "running")}
        assert done["sentence"] == "cancelled 2 of 2 jobs"
        assert (set(done["details"]["job_ids"]), done["details"]["cancelled"]) == (wanted, 2)
        assert {
            str(one.data.job_id) for one in services.commands if isinstance(one, JobCancelRequested)
        } == wanted


def test_a_dry_run_leaves_out_jobs_that_are_over_and_takes_the_filters_of_jobs(
    run: Run, sqlite_store_url: str, jobs: dict[str, JobRow]
) -> None:
    ids = [str(jobs[name].job_id)[-12:] for name in ("waiting", "done")]
    shown = run("cancel", *ids, str(uuid4()), "--dry-run", "--json", "--store", sqlite_store_url)
    assert json.loads(shown.stdout)["groups"] == [
        {"job_type": "flights.load", "state": "waiting", "jobs": 1},
        {"job_type": "", "state": "not requested yet", "jobs": 1},
    ]
    for words, total in (
        (("--argument", "order=17"), 1),
        (("--state", "waiting", "--state", "running"), 2),
        (("--state", "dead"), 0),
        (("--until", "1s"), 3),
    ):
        shown = run("cancel", *words, "--dry-run", "--json", "--store", sqlite_store_url)
        assert json.loads(shown.stdout)["total"] == total, words


def test_a_cancel_names_its_jobs_and_counts_none_before_a_reply(run: Run, vhost_url: str) -> None:
    where, other = ("--broker", vhost_url, "--json"), str(uuid4())
    one = json.loads(run("cancel", UNKNOWN, "--no-wait", *where).stdout)
    assert one["accepted"] is None
    assert UNKNOWN in one["sentence"]
    assert one["details"] == {"job_id": UNKNOWN, "refused": {}}
    two = json.loads(run("cancel", UNKNOWN, other, "--no-wait", *where).stdout)
    assert UNKNOWN in two["sentence"]
    assert other in two["sentence"]
    assert two["details"] == {"job_ids": [UNKNOWN, other], "refused": {}}
    with stand_in(vhost_url):
        replied = json.loads(run("cancel", UNKNOWN, *where).stdout)
    assert replied["sentence"].startswith(f"cancelled {UNKNOWN[:8]}")
    assert replied["details"] == {"job_id": UNKNOWN, "cancelled": 1, "refused": {}}


def test_a_cancel_of_several_of_which_some_are_refused_lists_them_and_ends_with_4(
    run: Run, vhost_url: str, sqlite_store_url: str
) -> None:
    over = str(uuid4())
    words = ("cancel", UNKNOWN, over, "--broker", vhost_url, "--store", sqlite_store_url)

    def refuse(event: Event[Any]) -> str | None:
        return "expected a job that has not ended" if event.subject == over else None

    with stand_in(vhost_url, refuse=refuse):
        shown, document = run(*words), run(*words, "--json")
    assert (shown.exit_code, document.exit_code) == (4, 4)
    assert over in shown.stdout
    assert UNKNOWN not in shown.stdout
    assert "cancelled 1 of 2 jobs; 1 refused: expected a job that has not ended" in shown.stderr
    answer = json.loads(document.stdout)
    refused = {over: "expected a job that has not ended"}
    assert (answer["accepted"], answer["details"]["refused"]) == (True, refused)


def test_a_redrive_that_is_not_waited_for_names_its_id_for_scripts(
    run: Run, vhost_url: str, sqlite_store_url: str
) -> None:
    words = ("dead-letters", "redrive", UNKNOWN, "--broker", vhost_url, "--store", sqlite_store_url)
    answer = json.loads(run(*words, "--no-wait", "--json").stdout)
    assert answer["accepted"] is None
    assert str(UUID(answer["details"]["redrive_id"])).endswith(answer["sentence"].split()[-1])


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        ((), 2, "expected ids of jobs, or filters of a list, got neither"),
        ((UNKNOWN, "--type", "a.b", "--yes"), 2, "got both"),
        ((UNKNOWN, str(uuid4()), "--timeout", "0.1s"), 3, "got no reply"),
        ((UNKNOWN, "--timeout", "0.1s"), 3, "got no reply"),
        (("--type", "a.b", "--yes"), 4, "expected jobs that are not over, got none"),
    ],
)
def test_the_exit_code_of_a_cancel_names_the_side_that_failed(
    run: Run, vhost_url: str, sqlite_store_url: str, *, words: tuple[str, ...], code: int, sentence: str
) -> None:
    result = run("cancel", *words, "--broker", vhost_url, "--store", sqlite_store_url)
    assert result.exit_code == code, result.output
    assert sentence in " ".join(result.stderr.split())


async def test_a_whole_id_may_be_a_key_where_the_store_is_open(
    sqlite_store_url: str, jobs: dict[str, JobRow]
) -> None:
    endpoints = pick_endpoints(None, sqlite_store_url, None, CommandSettings())
    backend = Backend(None, endpoints, Masker(None))
    call = VerbCall(backend=backend, key="", by="ann", body=CancelBody(ids=[UNKNOWN]), reply_timeout=1)
    assert await select_jobs(call, NOT_OVER, "jobs") == ([UUID(UNKNOWN)], "")
    await backend.open_store()
    assert await select_jobs(call, NOT_OVER, "jobs") == ([jobs["mail"].job_id], "")
    await backend.close()


def test_spaces_around_a_filter_are_no_part_of_it() -> None:
    assert ListQuery(after=" x ").after == "x"


# -- what a stranger mistypes ------------------------------------------------------------------------------


@pytest.mark.parametrize("words", ["jobs", "dead-letters list", "dead-letters causes", "schedule list"])
def test_an_empty_list_of_an_unknown_type_names_the_one_that_looks_like_it(
    run: Run, sqlite_store_url: str, jobs: dict[str, JobRow], words: str
) -> None:
    assert jobs
    shown = run(*words.split(), "--type", "flight.laod", "--store", sqlite_store_url)
    assert (shown.exit_code, shown.stdout) == (0, "")
    assert "did you mean flights.load?" in shown.stderr
    for name in ("nothing.like.it", "mail.send"):
        shown = run(*words.split(), "--type", name, "--state", "dead", "--store", sqlite_store_url)
        assert "did you mean" not in shown.stderr


def test_a_rejected_request_names_the_type_that_looks_like_it(
    run: Run, vhost_url: str, sqlite_store_url: str, jobs: dict[str, JobRow], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert jobs
    monkeypatch.setenv("WARRENER_STORE_URL", sqlite_store_url)
    with stand_in(vhost_url):
        for more in ((), ("--wait",)):
            assert (
                "did you mean flights.load?"
                in run("request", "flights.laod", *more, "--broker", vhost_url).stderr
            )
        assert "did you mean" not in run("request", "other", "--broker", vhost_url).stderr
        monkeypatch.setenv("WARRENER_STORE_URL", "sqlite:///gone.db")
        assert "rejected (unknown_job_type)" in run("request", "flights.laod", "--broker", vhost_url).stderr


def test_a_schedule_of_a_mistyped_type_is_put_unchecked_with_a_hint(
    run: Run, vhost_url: str, sqlite_store_url: str, jobs: dict[str, JobRow], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert jobs
    monkeypatch.setenv("WARRENER_STORE_URL", sqlite_store_url)
    words = ("schedule", "put", "x", "flights.laod", "--every", "1h", "--broker", vhost_url)
    with stand_in(vhost_url, refuse=lambda _: "expected a job type that an agent has announced, got another"):
        refused = run(*words)
    assert (refused.exit_code, "✓" in refused.stderr) == (4, False)
    assert "did you mean flights.load?" in refused.stderr
    put = run(*words, "--unchecked", "--no-wait")
    assert put.exit_code == 0
    assert "did you mean flights.load?" in put.stderr


def test_job_types_show_their_arguments(run: Run, sqlite_store_url: str) -> None:
    schema = {
        "type": "object",
        "properties": {
            "path": {"type": "string"},
            "rows": {"type": "integer", "default": 100},
            "carrier": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
            "kind": {"enum": ["full", "part"]},
            "days": {"type": "array"},
        },
        "required": ["path"],
    }
    on_store(sqlite_store_url, lambda store: store.put_job_types([job_type_row(arguments_schema=schema)]))
    shown = run("job-types", "--store", sqlite_store_url).stdout
    usage = "path=string [rows=100] [carrier=string] [kind=full|part] [days=json]"
    assert usage in " ".join(shown.split())


def test_job_types_show_their_limits(run: Run, sqlite_store_url: str) -> None:
    policy = JobPolicy(gates=(Limit(5, key="{{ arguments.tenant }}"), Limit(50)))
    on_store(sqlite_store_url, lambda store: store.put_job_types([job_type_row("crm.push", policy=policy)]))
    shown = " ".join(run("job-types", "--store", sqlite_store_url).stdout.split())
    assert "default, 5 at once of each {{ arguments.tenant }}, 50 at once" in shown


def test_agents_show_the_ids_of_their_live_processes(run: Run, sqlite_store_url: str) -> None:
    async def fill(store: Store) -> None:
        now = await store.time()
        await store.put_agents(
            [agent_row("alive", pid=41_271, last_seen_at=now), agent_row("silent", pid=41_272)]
        )

    on_store(sqlite_store_url, fill)
    shown = run("agents", "--all", "--store", sqlite_store_url).stdout
    assert " 41271 " in shown
    assert "41272" not in shown
    assert "41271" in run("agents", "alive", "--store", sqlite_store_url).stdout


@pytest.mark.parametrize("words", ["jobs", "job-types", "cancel --type a.b", "doctor", "console --port 0"])
def test_a_folder_without_data_is_not_to_be_migrated(run: Run, here: Path, words: str) -> None:
    result = run(*words.split())
    shown = " ".join(result.output.split())
    assert "this folder has no data of `warrener up`" in shown
    assert "migrate" not in shown
    assert [*here.iterdir()] == []


def test_flags_lie_over_the_json_and_without_either_there_are_no_overrides() -> None:
    assert parse_policy_options(None, retry_on=[], no_retry_on=()) is None
    text = json.dumps({"max_attempts": 2, "timeout": "30s", "backoff": {"first": "1m", "factor": 3}})
    chosen = parse_policy_options(
        text, max_attempts=8, max_age="2h", delays="5s, 1m,1h", retry_on=["requests.*"], no_retry_on=["Key*"]
    )
    assert chosen == PolicyOverrides(
        max_attempts=8,
        timeout=timedelta(seconds=30),
        max_age=timedelta(hours=2),
        backoff=Backoff(delays=(timedelta(seconds=5), timedelta(minutes=1), timedelta(hours=1))),
        retry_on=("requests.*",),
        no_retry_on=("Key*",),
    )


@pytest.mark.parametrize(
    ("chosen", "problem"),
    [
        ({"text": "soon"}, "expected --policy as a JSON object, got 'soon'"),
        ({"text": "[1]"}, "expected --policy as a JSON object, got '[1]'"),
        ({"text": '{"max_attemps": 3}'}, "policy: expected parts among backoff, max_age, "),
        ({"text": '{"backoff": {"steps": 3}}'}, "policy.backoff: expected parts among delays, factor, "),
        ({"text": '{"backoff": 3}'}, "policy.backoff: Input should be a valid dictionary"),
        ({"max_attempts": 0}, "policy.max_attempts: Input should be greater than or equal to 1, got 0"),
        ({"max_age": "soon"}, "policy.max_age: expected a duration"),
        ({"delays": "1s,,1m"}, "policy.backoff.delays.1: expected a duration"),
        ({"no_retry_on": [""]}, "policy.no_retry_on.0: String should have at least 1 character, got ''"),
    ],
    ids=str,
)
def test_what_no_policy_can_be_is_refused_by_its_part(chosen: dict[str, Any], problem: str) -> None:
    text = chosen.pop("text", None)
    with pytest.raises(CommandError) as refused:
        parse_policy_options(text, **chosen)
    assert problem in refused.value.sentence
    assert refused.value.code == 2


def test_a_request_carries_what_was_chosen(run: Run, vhost_url: str, warren: StandIn) -> None:
    result = run(
        "request", "hello.greet", "name=Ada", "--wait", "--broker", vhost_url,
        "--policy", '{"timeout": "30s"}',
        "--max-attempts", "8", "--delays", "5s,1m", "--no-retry-on", "bank.*", "--no-retry-on", "KeyError",
    )  # fmt: skip
    assert result.exit_code == 0
    policy = warren.requests[0].data.policy
    assert policy is not None
    assert (policy.max_attempts, policy.timeout) == (8, timedelta(seconds=30))
    assert policy.no_retry_on == ("bank.*", "KeyError")
    assert policy.backoff is not None
    assert policy.backoff.delays == (timedelta(seconds=5), timedelta(minutes=1))
