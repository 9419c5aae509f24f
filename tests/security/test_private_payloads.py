"""Payloads that are encrypted end to end: nobody without a key reads one, moves one, or changes one.

What the codec does with each kind of value stands in `contracts/wire/tests/test_private_payloads.py`.
"""

import json
import re
from base64 import b64encode
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from html import unescape
from os import urandom
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from tests.acceptance.command_line import call_command, run_command, run_json
from tests.acceptance.otlp_receiver import receiver
from tests.acceptance.store_queries import look, rows_of, state_of
from tests.acceptance.test_console_actions import ConsoleBrowser
from tests.acceptance.warren import Warren, until
from tests.broker_access import publish
from tests.security.attacks import attack
from tests.security.eavesdropper import Eavesdropper

from warrener_client import JobDied, JobSpec, RequestRejected, SyncClient
from warrener_client.errors import ResultUnreadable
from warrener_contracts.events import JobRequested, JobRequestedData, SchedulePutData
from warrener_contracts.identity import job_id_of, redrive_job_id
from warrener_contracts.messages import EVENT_TYPE, encode
from warrener_contracts.private_payloads import MARK, encrypt_arguments, shown
from warrener_contracts.schedule_rules import IntervalRule
from warrener_contracts.state_machine import JobState
from warrener_contracts.topology import REQUESTS
from warrener_runtime.keys import load_key_ring
from warrener_store.jobs.rows import JobRow

MODULE = "tests.security.private_handlers"
WORD = "Quittenbaum"
GUIDE = Path(__file__).parents[2] / "docs" / "howto" / "encrypt-payloads.md"
NewClient = Callable[..., SyncClient]


def key_line(name: str) -> str:
    return f'{name} = "{b64encode(urandom(32)).decode()}"\n'


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    """The file of keys that client and agent share."""
    file = tmp_path / "keys.toml"
    file.write_text(key_line("2026-05") + key_line("2026-11"))
    file.chmod(0o600)
    return file


@pytest.fixture
def private_warren(warren: Warren, keys: Path) -> Warren:
    """Services of which the agent alone has the keys."""
    warren.start("scheduler")
    warren.start("supervisor")
    warren.start("agent", MODULE, WARRENER_ENCRYPTION_KEYS_FILE=str(keys))
    warren.wait_ready()
    return warren


@pytest.fixture
def client(private_warren: Warren, keys: Path) -> Iterator[SyncClient]:
    """A client with the keys."""
    with SyncClient(private_warren.broker_url, encryption_keys=keys) as one:
        yield one


def row_of(warren: Warren, job_id: UUID) -> JobRow:
    return rows_of(warren, [job_id])[job_id]


def until_succeeded(warren: Warren, job_id: UUID) -> JobRow:
    until(lambda: state_of(warren, job_id) is JobState.SUCCEEDED, f"job {job_id} to succeed")
    return row_of(warren, job_id)


def error_of(warren: Warren, job_id: UUID) -> str:
    """The error with which a job has died."""

    def died() -> str | None:
        row = rows_of(warren, [job_id]).get(job_id)
        return row.error.message if row and row.state is JobState.DEAD and row.error else None

    return until(died, "the job to be dead")


def request_raw(warren: Warren, job_type: str, arguments: dict[str, Any], job_id: UUID) -> None:
    """Publish a request as any program may."""
    data = JobRequestedData(job_type=job_type, arguments=arguments)
    event = JobRequested(id=str(job_id), source="somebody", data=data)
    publish(warren.broker_url, REQUESTS, job_type, encode(event), content_type=EVENT_TYPE)


@attack(
    "observer", "reads messages, databases, logs, traces and pages for a private value", refused="encryption"
)
@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_plain_text_of_private_payloads_is_nowhere_but_in_client_and_agent(
    warren: Warren, keys: Path, store: str, request: pytest.FixtureRequest
) -> None:
    if store == "postgres":
        warren.store_url = request.getfixturevalue("postgres_store_url")
    with receiver() as traces:
        otlp = {
            "WARRENER_OTLP_ENDPOINT": f"http://127.0.0.1:{traces.server_port}",
            "WARRENER_OTLP_PROTOCOL": "http/protobuf",
        }
        warren.start("scheduler", **otlp)
        warren.start("supervisor", **otlp)
        warren.start("agent", MODULE, WARRENER_ENCRYPTION_KEYS_FILE=str(keys), **otlp)
        warren.wait_ready()
        spy = Eavesdropper(warren)
        with SyncClient(warren.broker_url, encryption_keys=keys) as client:
            sent = client.request("mail.send", {"to": WORD})
            failed = client.request("mail.fail", {"to": WORD})
            campaign = client.request("mail.campaign", {"to": WORD})
            undone = client.request("mail.campaign", {"to": WORD, "fails": True})
            for one in (campaign, undone):
                client.send_signal(one.job_id, "approved", f"signal-{WORD}")
            assert sent.result(timeout=60) == f"result-{WORD}"
            with pytest.raises(JobDied, match=f"error-{WORD}"):
                failed.result(timeout=60)
            assert campaign.result(timeout=60) == [
                f"noted-part-{WORD}",
                f"stamped-{WORD}",
                f"noted-item-0-{WORD}",
                f"noted-item-1-{WORD}",
                f"signal-{WORD}",
            ]
            with pytest.raises(JobDied, match=f"failure-{WORD}"):
                undone.result(timeout=60)
        pages = ConsoleBrowser(warren)
        try:
            for job in (sent, failed, campaign, undone):
                shown = pages.page(f"/jobs/{job.job_id}") + pages.page(f"/api/v1/jobs/{job.job_id}")
                assert WORD not in shown
                assert "encrypted (key 2026-11)" in shown
                row = row_of(warren, job.job_id)
                assert row.arguments[MARK]["key"] == "2026-11"
        finally:
            pages.close()
        for service in reversed(warren.services):
            service.end()
        for place, found in spy.read():
            assert WORD.encode() not in found, place
            assert b64encode(WORD.encode())[:12] not in found, place
        assert traces.spans()
        assert WORD not in repr(traces.spans())
    assert len(spy.messages) > 30


def test_captured_arguments_run_again_as_a_new_job_of_their_type(
    private_warren: Warren, client: SyncClient
) -> None:
    """What encryption alone allows, and signatures prevent (test_signatures.py)."""
    job = client.request("mail.note", {"text": WORD})
    job.result(timeout=60)
    captured, replay, elsewhere = row_of(private_warren, job.job_id).arguments, uuid4(), uuid4()
    request_raw(private_warren, "mail.note", captured, replay)
    result = until_succeeded(private_warren, replay).result
    assert shown(result) == "encrypted (key 2026-11)", "its requester reads nothing of it"
    request_raw(private_warren, "mail.fail", captured, elsewhere)
    assert "they were changed or moved" in error_of(private_warren, elsewhere)


@attack("asker", "moves encrypted arguments to another job type", refused="authenticated job type")
def test_encrypted_arguments_count_for_no_other_job_type(private_warren: Warren, keys: Path) -> None:
    codec, job_id = load_key_ring(keys), uuid4()
    assert codec is not None
    arguments = encrypt_arguments(codec, {"to": WORD}, job_id, "mail.fail")
    request_raw(private_warren, "mail.plain", arguments, job_id)
    assert "they were changed or moved" in error_of(private_warren, job_id)


@attack(
    "broker", "puts the encrypted result of a job in the place of its arguments", refused="authenticated kind"
)
def test_an_encrypted_value_counts_in_no_other_place(private_warren: Warren, client: SyncClient) -> None:
    job = client.request("mail.note", {"text": WORD})
    job.result(timeout=60)
    result, other = row_of(private_warren, job.job_id).result, uuid4()
    request_raw(private_warren, "mail.note", result, other)
    assert "they were changed or moved" in error_of(private_warren, other)


@attack("broker", "changes a byte of encrypted arguments", refused="AES-GCM")
def test_changed_ciphertext_is_refused(private_warren: Warren, keys: Path) -> None:
    codec, job_id = load_key_ring(keys), uuid4()
    assert codec is not None
    encrypted = encrypt_arguments(codec, {"text": WORD}, job_id, "mail.note")
    data = encrypted[MARK]["data"]
    encrypted[MARK]["data"] = ("B" if data[0] == "A" else "A") + data[1:]
    request_raw(private_warren, "mail.note", encrypted, job_id)
    assert "they were changed or moved" in error_of(private_warren, job_id)


@attack("asker", "adds plain arguments to encrypted ones", refused="agent, which takes both from one sender")
def test_plain_arguments_beside_encrypted_ones_are_refused(private_warren: Warren, keys: Path) -> None:
    codec, job_id = load_key_ring(keys), uuid4()
    assert codec is not None
    encrypted = encrypt_arguments(codec, {"to": WORD}, job_id, "mail.plain")
    request_raw(private_warren, "mail.plain", {**encrypted, "more": 1}, job_id)
    assert "no others beside them" in error_of(private_warren, job_id)


@attack(
    "operator",
    "without a key sends a signal to a private workflow",
    refused="agent: such a signal is encrypted, for its job and its name",
)
@pytest.mark.parametrize("data", ["forged", None])
def test_a_plain_signal_is_no_answer_of_a_private_workflow(
    private_warren: Warren, client: SyncClient, data: str | None
) -> None:
    campaign = client.request("mail.campaign", {"to": WORD})
    with SyncClient(private_warren.broker_url) as stranger:
        stranger.send_signal(campaign.job_id, "approved", data)
    with pytest.raises(JobDied, match="expected an encrypted signal"):
        campaign.result(timeout=60)


@attack(
    "asker", "sends plain arguments to a job type with private payloads", refused="scheduler: bad_arguments"
)
def test_plain_arguments_of_a_private_job_type_are_rejected(private_warren: Warren) -> None:
    with SyncClient(private_warren.broker_url) as stranger:
        job = stranger.request("mail.note", {"text": WORD})
        with pytest.raises(
            RequestRejected, match=r"bad_arguments.*expected encrypted arguments of mail\.note"
        ):
            job.result(timeout=60)
    assert not rows_of(private_warren, [job.job_id])


@attack(
    "agent",
    "without the key runs a job with private payloads",
    refused="agent: fails at once, naming the key",
)
def test_an_agent_without_the_key_fails_the_attempt_once(warren: Warren, keys: Path, tmp_path: Path) -> None:
    warren.start("scheduler")
    warren.start("supervisor")
    other = tmp_path / "other.toml"
    other.write_text(key_line("2025-01"))
    warren.start("agent", MODULE, WARRENER_ENCRYPTION_KEYS_FILE=str(other))
    warren.wait_ready()
    with SyncClient(warren.broker_url, encryption_keys=keys) as client:
        with pytest.raises(JobDied, match="'2026-11'") as died:
            client.request("mail.note", {"text": WORD}).result(timeout=60)
        assert died.value.attempt == 1
        with pytest.raises(JobDied, match=r"'2026-11', got no such key: add it to the file"):
            client.request("mail.plain", {"to": WORD}).result(timeout=60)


def test_an_agent_with_private_job_types_and_no_keys_does_not_start(warren: Warren) -> None:
    agent = warren.start("agent", MODULE)
    assert agent.wait_ended() == 2
    assert "WARRENER_ENCRYPTION_KEYS_FILE: expected a file of keys for job types" in agent.log_text()


@attack("asker", "reads the result of a private job without a key", refused="client: ResultUnreadable")
def test_a_client_without_the_key_learns_the_end_and_no_result(
    private_warren: Warren, client: SyncClient
) -> None:
    job = client.request("mail.note", {"text": WORD})
    job.result(timeout=60)
    with SyncClient(private_warren.broker_url) as stranger:
        arguments = row_of(private_warren, job.job_id).arguments
        seen = stranger.request_many([JobSpec("mail.note", arguments, id=job.job_id)])
        with pytest.raises(ResultUnreadable, match=r"succeeded.*'2026-11'"):
            next(iter(seen)).result(timeout=60)


def test_a_repeat_of_an_encrypted_request_is_the_same_request(
    private_warren: Warren, client: SyncClient, keys: Path
) -> None:
    job_id = uuid4()
    assert client.request("mail.note", {"text": WORD}, id=job_id).result(timeout=60) == f"noted-{WORD}"
    with SyncClient(private_warren.broker_url, encryption_keys=keys) as again:
        assert again.request("mail.note", {"text": WORD}, id=job_id).result(timeout=60) == f"noted-{WORD}"
    other = client.request("mail.note", {"text": "another"}, id=job_id)
    with pytest.raises(RequestRejected, match="conflicting_repeat"):
        other.result(timeout=60)


@attack(
    "asker",
    "occupies the id that an encrypted request with an idempotency key would have",
    refused="ids are random",
)
def test_an_idempotency_key_gives_away_no_id_and_outlives_a_rotated_key(
    private_warren: Warren, client: SyncClient, keys: Path, tmp_path: Path
) -> None:
    first = client.request("mail.note", {"text": WORD}, idempotency_key="order-17")
    assert first.job_id not in {
        job_id_of("warrener.client", text) for text in ("order-17", "mail.note\norder-17")
    }
    assert first.result(timeout=60) == f"noted-{WORD}"
    other = tmp_path / "other.toml"
    other.write_text("".join(reversed(keys.read_text().splitlines(keepends=True))))
    with SyncClient(private_warren.broker_url, encryption_keys=other) as rotated:
        repeated = rotated.request("mail.note", {"text": WORD}, idempotency_key="order-17")
        assert repeated.result(timeout=60) == f"noted-{WORD}"
        assert rows_of(private_warren, [first.job_id, repeated.job_id]).keys() == {first.job_id}


@attack(
    "asker",
    "occupies the idempotency key of another's encrypted request",
    refused="not refused, but never unnoticed",
)
def test_an_occupied_idempotency_key_is_noticed(private_warren: Warren, client: SyncClient) -> None:
    with SyncClient(private_warren.broker_url) as stranger:
        plain = stranger.request("mail.plain", {"to": "plain"}, idempotency_key="order-17")
        assert plain.result(timeout=60) == "plain-plain"
        unreadable = {MARK: {"key": "2026-11", "nonce": "AAAA", "data": "AAAA"}}
        forged = stranger.request("mail.note", unreadable, idempotency_key="order-18")
        with pytest.raises(JobDied):
            forged.result(timeout=60)
    with pytest.raises(RequestRejected, match="conflicting_repeat"):
        client.request("mail.plain", {"to": WORD}, idempotency_key="order-17").result(timeout=60)
    with pytest.raises(JobDied, match="they were changed or moved"):
        client.request("mail.note", {"text": WORD}, idempotency_key="order-18").result(timeout=60)


def put_daily(client: SyncClient) -> None:
    """Put a schedule with encrypted arguments."""
    rule = IntervalRule(every=timedelta(days=1), anchor=datetime.now(UTC) + timedelta(seconds=1))
    daily = SchedulePutData(name="daily", job_type="mail.note", arguments={"text": WORD}, rule=rule)
    client.put_schedules([daily], reply_timeout=30)


def test_a_redriven_job_and_a_schedule_bring_their_encrypted_arguments(
    private_warren: Warren, client: SyncClient
) -> None:
    put_daily(client)
    ticked = client.trigger_schedule("daily", reply_timeout=30)
    assert until_succeeded(private_warren, ticked).arguments[MARK]["for"] == "schedule"
    failed = client.request("mail.fail", {"to": WORD})
    with pytest.raises(JobDied):
        failed.result(timeout=60)
    call_command(private_warren, "dead-letters", "redrive", str(failed.job_id))  # it dies again
    redriven = redrive_job_id(failed.job_id, 1)
    assert error_of(private_warren, redriven) == "encrypted (key 2026-11)", "its arguments were read"


def area_of(page: str, name: str) -> str:
    """The text in a field of a form."""
    [text] = re.findall(rf'<textarea[^>]* name="{name}"[^>]*>(.*?)</textarea>', page, re.DOTALL)
    return unescape(text)


def test_the_console_requests_and_schedules_arguments_that_it_cannot_read(
    private_warren: Warren, client: SyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = client.request("mail.note", {"text": WORD})
    job.result(timeout=60)
    put_daily(client)
    monkeypatch.setattr("warrener.web.pages.job_request._REJECTION_TIMEOUT", 60.0)
    console = ConsoleBrowser(private_warren)
    try:
        form = f"/jobs/new?from={job.job_id}"
        given = {"job_type": "mail.note", "again": str(job.job_id)}
        given["arguments"] = area_of(console.page(form), "arguments")
        again = UUID(console.submit("/jobs", given, on=form).rpartition("/")[2])
        form = "/schedules/daily/edit"
        edited = {"name": "daily", "job_type": "mail.note", "kind": "every", "rule": "2h"}
        edited["arguments"] = area_of(console.page(form), "arguments")
        assert console.submit("/schedules", edited, on=form) == "/schedules/daily"
    finally:
        console.close()
    words = {MARK: "encrypted (key 2026-11)"}
    assert json.loads(given["arguments"]) == json.loads(edited["arguments"]) == words
    requested = until_succeeded(private_warren, again)
    assert requested.arguments == row_of(private_warren, job.job_id).arguments
    daily = look(private_warren, lambda store: store.schedules(["daily"]))["daily"].definition
    assert daily.rule == IntervalRule(every=timedelta(hours=2))
    ticked = client.trigger_schedule("daily", reply_timeout=30)
    assert until_succeeded(private_warren, ticked).arguments == daily.arguments
    assert daily.arguments[MARK]["for"] == "schedule"


@attack(
    "operator",
    "reads a private job by the command without a key",
    refused="encryption; --decrypt needs the key",
)
def test_the_command_decrypts_with_the_key_alone(
    private_warren: Warren, client: SyncClient, keys: Path
) -> None:
    job = client.request("mail.note", {"text": WORD})
    job.result(timeout=60)
    shown = run_command(private_warren, "job", str(job.job_id), "--json")
    assert "encrypted (key 2026-11)" in shown
    assert WORD not in shown
    run_command(private_warren, "job", str(job.job_id), "--decrypt", code=2)
    key_file: dict[str, Any] = {"WARRENER_ENCRYPTION_KEYS_FILE": str(keys)}
    opened = run_json(private_warren, "job", str(job.job_id), "--decrypt", **key_file)
    assert (opened["arguments"], opened["result"]) == ({"text": WORD}, f"noted-{WORD}")
    failed = client.request("mail.fail", {"to": WORD})
    with pytest.raises(JobDied):
        failed.result(timeout=60)
    words = ("job", str(failed.job_id), "--decrypt")
    (attempt,) = run_json(private_warren, *words, **key_file)["attempts"]
    assert attempt["error"]["message"] == f"error-{WORD}"
    assert f"error-{WORD}" in run_command(private_warren, *words, **key_file)
    assert WORD not in run_command(private_warren, "job", str(failed.job_id), "--json")


@attack(
    "client", "goes on with a key that was rotated out", refused="agent, once the key is gone from its file"
)
def test_keys_rotate(private_warren: Warren, keys: Path, tmp_path: Path) -> None:
    old = tmp_path / "old.toml"
    old.write_text("".join(reversed(keys.read_text().splitlines(keepends=True))))
    with SyncClient(private_warren.broker_url, encryption_keys=old) as client:
        job = client.request("mail.note", {"text": WORD})
        assert job.result(timeout=60) == f"noted-{WORD}", "the agent decrypts with the old key"
        row = row_of(private_warren, job.job_id)
        assert (row.arguments[MARK]["key"], row.result[MARK]["key"]) == ("2026-05", "2026-11")
        private_warren.services[-1].end()
        rotated = tmp_path / "rotated.toml"
        rotated.write_text(keys.read_text().splitlines()[1])
        private_warren.start("agent", MODULE, WARRENER_ENCRYPTION_KEYS_FILE=str(rotated))
        private_warren.wait_ready()
        with pytest.raises(JobDied, match="'2026-05', got no such key: add it"):
            client.request("mail.note", {"text": WORD}).result(timeout=60)


def test_the_guide_runs_as_written(warren: Warren, keys: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    handlers, program = re.findall(r"```python\n(.*?)```", GUIDE.read_text("utf-8"), re.DOTALL)
    (warren.folder / "mail.py").write_text(handlers)
    warren.start("scheduler")
    warren.start("supervisor")
    warren.start("agent", "mail", WARRENER_ENCRYPTION_KEYS_FILE=str(keys))
    warren.wait_ready()
    monkeypatch.setenv("WARRENER_BROKER_URL", warren.broker_url)
    monkeypatch.setenv("WARRENER_ENCRYPTION_KEYS_FILE", str(keys))
    order: dict[str, Any] = {}
    exec(program, order)
    assert order["send_mail"]("ada@example.com") == "sent to ada@example.com"
