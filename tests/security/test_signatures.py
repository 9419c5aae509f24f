"""Signed requests: the scheduler runs what a known key has signed, for the job types of this key."""

import json
import os
import re
import subprocess
import sys
import tomllib
from base64 import b64decode, b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from cryptography.hazmat.primitives.serialization import load_der_private_key
from tests.acceptance.command_line import call_command, run_command, run_in
from tests.acceptance.store_queries import parked_in, rows_of, state_of
from tests.acceptance.warren import Warren, until
from tests.broker_access import publish
from tests.security.attacks import attack

from warrener_client import JobDied, JobSpec, RequestRejected, SyncClient
from warrener_contracts.events import JobRequested, JobRequestedData, SchedulePutData
from warrener_contracts.identity import child_job_id, redrive_job_id
from warrener_contracts.messages import BATCH_TYPE, EVENT_TYPE, encode
from warrener_contracts.schedule_rules import IntervalRule
from warrener_contracts.state_machine import JobState
from warrener_contracts.topology import DEAD, REQUESTS, REQUESTS_QUEUE
from warrener_runtime.encryption import make_signing_key
from warrener_runtime.keys import SIGNATURE_HEADER, SIGNATURE_KEY_HEADER, KeyFileError
from warrener_scheduler.request_keys import load_request_keys
from warrener_scheduler.settings import SchedulerSettings

MODULE = "tests.security.signed_handlers"
GUIDE = Path(__file__).parents[2] / "docs" / "howto" / "sign-requests.md"
REQUEUED = "requeue.ParkedRequeueRequested"


@dataclass
class Keys:
    """A key of each sender, and the scheduler's file of all of them."""

    folder: Path
    secrets: dict[str, str]

    @classmethod
    def make(cls, folder: Path, **permitted: str) -> "Keys":
        """Keys by name, each with the pattern of the job types that it may request."""
        secrets = dict[str, str]()
        with (folder / "request-keys.toml").open("w") as known:
            for name, pattern in permitted.items():
                secrets[name], public = make_signing_key()
                (folder / f"{name}.toml").write_text(f'{name} = "{secrets[name]}"\n')
                known.write(f'[{name}]\npublic = "{public}"\njob_types = ["{pattern}"]\n')
        return cls(folder, secrets)

    def file(self, name: str) -> str:
        return str(self.folder / f"{name}.toml")

    def sign(self, name: str, body: bytes) -> dict[str, str]:
        """The headers of a body, signed as a program in any language does it."""
        key: Any = load_der_private_key(b64decode(self.secrets[name]), None)
        return {SIGNATURE_HEADER: b64encode(key.sign(body)).decode(), SIGNATURE_KEY_HEADER: name}


@pytest.fixture
def keys(tmp_path: Path) -> Keys:
    return Keys.make(tmp_path, services="*", billing="bills.*")


@pytest.fixture
def signed(warren: Warren, keys: Keys) -> Warren:
    """Services that demand signatures, and sign with a key of their own."""
    own = {"WARRENER_SIGNING_KEY_FILE": keys.file("services")}
    warren.start(
        "scheduler", WARRENER_SCHEDULER_REQUEST_KEYS_FILE=str(keys.folder / "request-keys.toml"), **own
    )
    warren.start("supervisor", **own)
    warren.start("agent", MODULE, **own)
    warren.wait_ready()
    return warren


@pytest.fixture
def client(signed: Warren, keys: Keys) -> Iterator[SyncClient]:
    """A client with the key `billing`."""
    with SyncClient(signed.broker_url, signing_key=keys.file("billing")) as one:
        yield one


def body_of(job_id: UUID, job_type: str = "bills.pay", amount: int = 1) -> bytes:
    data = JobRequestedData(job_type=job_type, arguments={"amount": amount})
    return encode(JobRequested(id=str(job_id), source="somebody", data=data))


def send(
    warren: Warren,
    body: bytes,
    headers: dict[str, str],
    key: str = "bills.pay",
    *,
    exchange: str = REQUESTS,
    content_type: str = EVENT_TYPE,
) -> None:
    publish(warren.broker_url, exchange, key, body, content_type=content_type, headers=headers)


def why_refused(warren: Warren, job_id: UUID) -> str:
    """The reason with which a request was parked; nothing has come of it."""

    def refused() -> str | None:
        found = (one for one in parked_in(warren) if str(job_id) in one.body.decode())
        return next((one.detail for one in found if one.reason == "bad_signature"), None)

    why = until(refused, "the request to be parked")
    assert not rows_of(warren, [job_id])
    assert str(job_id) not in warren.lines("paid")
    return why


def until_succeeded(warren: Warren, job_id: UUID) -> None:
    until(lambda: state_of(warren, job_id) is JobState.SUCCEEDED, f"job {job_id} to succeed")


@attack("asker", "requests a job without a signature", refused="scheduler: expected a signed request")
def test_an_unsigned_request_is_rejected_with_the_reason(signed: Warren, client: SyncClient) -> None:
    assert client.request("bills.pay", {"amount": 1}).result(timeout=60) == 1
    with SyncClient(signed.broker_url) as unsigned:
        job = unsigned.request("bills.pay", {"amount": 1})
        with pytest.raises(RequestRejected, match="expected a signed request, got none"):
            job.result(timeout=60)
    assert "WARRENER_SIGNING_KEY_FILE" in why_refused(signed, job.job_id)


@attack("asker", "signs with a key that the scheduler does not know", refused="scheduler: unknown key")
def test_a_key_that_nobody_knows_counts_nothing(signed: Warren, tmp_path: Path) -> None:
    (tmp_path / "stranger").mkdir()
    own = Keys.make(tmp_path / "stranger", stranger="*")
    job_id = uuid4()
    send(signed, body_of(job_id), own.sign("stranger", body_of(job_id)))
    assert "got 'stranger': add it to its file of request keys" in why_refused(signed, job_id)


@attack("asker", "signs with a key of its own under the name of another's", refused="scheduler: Ed25519")
def test_the_name_of_a_key_is_not_the_key(signed: Warren, tmp_path: Path) -> None:
    (tmp_path / "forged").mkdir()
    forged = Keys.make(tmp_path / "forged", billing="*")
    job_id = uuid4()
    send(signed, body_of(job_id), forged.sign("billing", body_of(job_id)))
    assert "expected a signature of this body by the key 'billing'" in why_refused(signed, job_id)


@attack("broker", "changes the body of a signed request", refused="scheduler: Ed25519 over the bytes")
def test_a_changed_body_is_refused(signed: Warren, keys: Keys) -> None:
    job_id = uuid4()
    send(signed, body_of(job_id, amount=1_000_000), keys.sign("billing", body_of(job_id)))
    assert "sign the bytes as sent" in why_refused(signed, job_id)


@attack("asker", "puts the signature of another's request on one of its own", refused="scheduler: Ed25519")
def test_a_signature_counts_for_its_request_alone(signed: Warren, keys: Keys) -> None:
    overheard, job_id = body_of(uuid4()), uuid4()
    send(signed, body_of(job_id), keys.sign("billing", overheard))
    assert "sign the bytes as sent" in why_refused(signed, job_id)


@pytest.mark.parametrize("signature", ["", "?", "AAAA", "ä"])
@attack("asker", "sends what is no signature", refused="scheduler: Ed25519")
def test_what_is_no_signature_is_refused(signed: Warren, signature: str) -> None:
    job_id = uuid4()
    headers = {SIGNATURE_HEADER: signature, SIGNATURE_KEY_HEADER: "billing"}
    send(signed, body_of(job_id), headers)
    assert "expected a signature of this body" in why_refused(signed, job_id)


@attack(
    "asker", "requests a job type that its key may not request", refused="scheduler: job_types of the key"
)
def test_a_key_requests_its_own_job_types_alone(signed: Warren, client: SyncClient) -> None:
    jobs = list(client.request_many([JobSpec("bills.pay", {"amount": 7}), JobSpec("payroll.run")]))
    assert jobs[0].result(timeout=60) == 7
    with pytest.raises(RequestRejected, match=r"may request \(bills\.\*\), got payroll\.run"):
        jobs[1].result(timeout=60)
    assert "sign with another key" in why_refused(signed, jobs[1].job_id)


@attack("asker", "hides a job type that is not its own in a signed batch", refused="scheduler: each element")
def test_each_request_of_a_batch_is_compared_with_the_key(signed: Warren, keys: Keys) -> None:
    own, other = uuid4(), uuid4()
    batch = b"[" + body_of(own) + b"," + body_of(other, "payroll.run") + b"]"
    headers = keys.sign("billing", batch)
    send(signed, batch, headers, key=REQUESTS_QUEUE.name, exchange="", content_type=BATCH_TYPE)
    until_succeeded(signed, own)
    assert "got payroll.run" in why_refused(signed, other)


@attack("broker", "replays a signed request", refused="scheduler: the same id is the same job")
def test_a_replayed_request_runs_once(signed: Warren, keys: Keys) -> None:
    job_id, last = uuid4(), uuid4()
    for _ in range(3):
        send(signed, body_of(job_id), keys.sign("billing", body_of(job_id)))
    send(signed, body_of(last), keys.sign("billing", body_of(last)))
    until_succeeded(signed, job_id)
    until_succeeded(signed, last)
    assert signed.lines("paid").count(str(job_id)) == 1


@attack(
    "observer", "publishes an unsigned request straight to the queue", refused="scheduler: signature by body"
)
@attack("asker", "requests a job under the routing key of announcements", refused="scheduler: routing key")
def test_no_way_around_the_exchange_leads_past_the_signature(signed: Warren) -> None:
    straight, announced = uuid4(), uuid4()
    came = {"warrener-exchange": REQUESTS, "warrener-routing-key": "agent.announced"}
    send(signed, body_of(straight), came, key=REQUESTS_QUEUE.name, exchange="")
    assert "expected a signed request" in why_refused(signed, straight)
    send(signed, body_of(announced), {}, key="agent.announced")
    until(lambda: any(str(announced) in one.body.decode() for one in parked_in(signed)), "it to be parked")
    assert not rows_of(signed, [announced])


def test_services_sign_what_they_request_themselves(signed: Warren, client: SyncClient) -> None:
    parent = client.request("bills.split", {"amount": 2})
    assert parent.result(timeout=60) == 2
    until_succeeded(signed, child_job_id(parent.job_id, "first"))
    rule = IntervalRule(every=timedelta(days=1), anchor=datetime.now(UTC) + timedelta(hours=1))
    schedule = SchedulePutData(name="daily", job_type="bills.pay", arguments={"amount": 3}, rule=rule)
    client.put_schedules([schedule], reply_timeout=30)
    until_succeeded(signed, client.trigger_schedule("daily", reply_timeout=30))
    dead = client.request("bills.refuse", {"amount": 4})
    with pytest.raises(JobDied):
        dead.result(timeout=60)
    call_command(signed, "dead-letters", "redrive", str(dead.job_id))  # it dies again
    redriven = redrive_job_id(dead.job_id, 1)
    until(lambda: state_of(signed, redriven) is JobState.DEAD, "the redriven job to be dead")


@attack(
    "operator",
    "requeues a parked request that nobody has signed",
    refused="scheduler: it is not signed again",
)
def test_parked_requests_keep_what_their_signature_was_worth(signed: Warren, keys: Keys) -> None:
    early, unsigned = [uuid4(), uuid4()], uuid4()
    batch = b"[" + b",".join(body_of(one, "bills.late") for one in early) + b"]"
    send(signed, batch, keys.sign("billing", batch), key="bills.late", content_type=BATCH_TYPE)
    send(signed, body_of(unsigned, "bills.late"), {}, key="bills.late")
    why_refused(signed, unsigned)
    until(lambda: len(parked_in(signed)) == 3, "all three to be parked")
    signed.start("agent", "tests.security.late_handlers", WARRENER_SIGNING_KEY_FILE=keys.file("services"))
    for one in early:
        until_succeeded(signed, one)
    run_command(signed, "parked", "requeue", "--reason", "bad_signature", "--yes", code=4)
    until(lambda: len(parked_in(signed)) == 1, "it to be parked again")
    why_refused(signed, unsigned)


@attack(
    "program that may park messages",
    "parks an unsigned request, for a supervisor that signs to requeue it",
    refused="supervisor: requests go to their queue by its name, unsigned",
)
@attack(
    "program that may park messages",
    "parks an unsigned request as one that found no queue, and has it requeued",
    refused="supervisor: no request comes to it that found no queue; it stays parked",
)
def test_a_parked_request_is_not_signed_by_its_requeue(signed: Warren) -> None:
    from_queue, from_exchange = uuid4(), uuid4()
    for job_id, queue in {from_exchange: f"{REQUESTS}:bills.pay", from_queue: REQUESTS_QUEUE.name}.items():
        parked = {
            "warrener-reason": "unknown_job_type",  # requeued at once, since the job type is known
            "warrener-detail": "forged",
            "warrener-queue": queue,
            "warrener-exchange": REQUESTS,
            "warrener-routing-key": "bills.pay",
        }
        send(signed, body_of(job_id), parked, exchange=DEAD, key=f"parked.{queue}")
    assert "expected a signed request" in why_refused(signed, from_queue)
    [stays] = [one for one in parked_in(signed) if str(from_exchange) in one.body.decode()]
    supervisor = next(one for one in signed.services if one.name == "supervisor")
    with SyncClient(signed.broker_url) as operator:
        operator.requeue_parked([stays.parked_id], by="operator")
    looks = until(
        lambda: [one for one in supervisor.records(REQUEUED) if one["by"] == "operator"],
        "the supervisor to have looked at it",
    )
    assert [one["left"] for one in looks] == [1]
    assert stays in parked_in(signed)
    assert not rows_of(signed, [from_exchange])


@attack(
    "asker",
    "has the scheduler sign a request that it parks without having checked it",
    refused="scheduler: what it parks unread stays unsigned",
)
def test_nobody_signs_what_was_parked_without_a_check(signed: Warren, keys: Keys) -> None:
    unsigned, misrouted = uuid4(), uuid4()
    send(signed, body_of(unsigned), {}, key="agent.announced")
    foreign = body_of(misrouted, "payroll.run")
    send(signed, foreign, keys.sign("billing", foreign), key="bills.pay")
    parked = until(lambda: len(found := parked_in(signed)) == 2 and found, "both to be parked")
    assert {one.reason for one in parked} == {"routing_key_mismatch"}
    for one in parked:
        assert SIGNATURE_HEADER not in one.headers


@attack(
    "asker",
    "requests a job type whose name is that of an announcement's key",
    refused="scheduler: announcements alone come unsigned",
)
def test_a_job_type_that_is_named_as_announcements_needs_a_signature_too(signed: Warren) -> None:
    job_id = uuid4()
    send(signed, body_of(job_id, "agent.announced.x"), {}, key="agent.announced.x")
    assert "expected a signed request" in why_refused(signed, job_id)


def test_a_scheduler_that_demands_signatures_has_a_key_of_its_own(warren: Warren, keys: Keys) -> None:
    known = str(keys.folder / "request-keys.toml")
    scheduler = warren.start("scheduler", WARRENER_SCHEDULER_REQUEST_KEYS_FILE=known)
    assert scheduler.wait_ended() == 2
    assert "WARRENER_SIGNING_KEY_FILE: expected a key" in scheduler.log_text()


@pytest.mark.parametrize("module", ["client", "agent.wiring", "scheduler.wiring", "supervisor.wiring"])
def test_without_keys_nothing_of_cryptography_is_imported(module: str) -> None:
    code = f"import json, sys, warrener_{module}; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    loaded: list[str] = json.loads(done.stdout)
    assert f"warrener_{module}" in loaded
    assert not [one for one in loaded if one.partition(".")[0] == "cryptography"]
    assert "warrener_runtime.encryption" not in loaded


def test_the_command_makes_keys_and_names_the_extra_that_it_needs(tmp_path: Path) -> None:
    (tmp_path / "cryptography.py").write_text("raise ModuleNotFoundError('No module named cryptography')")
    call = ("env", f"PYTHONPATH={tmp_path}", "warrener", "keys")
    made = run_in(tmp_path, *call, "2026-11", "--file", "keys.toml")
    assert (made.returncode, (tmp_path / "keys.toml").stat().st_mode & 0o777) == (0, 0o600), made.stderr
    assert run_in(tmp_path, *call, "2026-11", "--file", "keys.toml").returncode == 2, "it is there"
    (tmp_path / "keys.toml").write_text((tmp_path / "keys.toml").read_text().rstrip())
    assert run_in(tmp_path, *call, "2026-12", "--file", "keys.toml").returncode == 0
    assert list(tomllib.loads((tmp_path / "keys.toml").read_text())) == ["2026-11", "2026-12"]
    (tmp_path / "broken.toml").write_text("secret = 'of nobody")
    broken = run_in(tmp_path, *call, "2026-11", "--file", "broken.toml")
    assert (broken.returncode, "of nobody" in broken.stderr) == (2, False)
    refused = run_in(tmp_path, *call, "billing", "--signing", "--file", "key.toml")
    assert refused.returncode == 1
    assert "expected the package cryptography" in refused.stderr
    assert "extra `encryption`" in refused.stderr
    assert not (tmp_path / "key.toml").exists()


@attack(
    "somebody with a new signing key",
    "requests job types that nobody gave to the key",
    refused="the command gives a key none but those of --job-type",
)
def test_a_new_key_may_request_nothing_but_the_job_types_that_are_named(tmp_path: Path) -> None:
    call = ("warrener", "keys", "billing", "--signing", "--file", "key.toml")
    made = tomllib.loads(run_in(tmp_path, *call).stdout)
    assert made["billing"]["job_types"] == []
    (tmp_path / "key.toml").unlink()
    given = run_in(tmp_path, *call, "--job-type", "bills.*", "--job-type", "mail.send").stdout
    assert tomllib.loads(given)["billing"]["job_types"] == ["bills.*", "mail.send"]


@pytest.mark.parametrize("text", ['billing = "MC4CAQAwBQ"', '[billing]\npublic = 1\nprivate = "MC4CAQAwBQ"'])
def test_no_error_quotes_a_key(text: str, tmp_path: Path) -> None:
    (tmp_path / "known.toml").write_text(text)
    made = run_in(tmp_path, "warrener", "keys", "own", "--signing", "--file", "own.toml")
    assert made.returncode == 0
    settings = SchedulerSettings(
        scheduler_request_keys_file=tmp_path / "known.toml", signing_key_file=tmp_path / "own.toml"
    )
    with pytest.raises(KeyFileError) as refused:
        load_request_keys(settings)
    assert "MC4CAQ" not in str(refused.value)


def test_a_program_in_node_signs_by_the_guide(keys: Keys, tmp_path: Path) -> None:
    [program] = re.findall(r"```js\n(.*?)```", GUIDE.read_text("utf-8"), re.DOTALL)
    (tmp_path / "sign.mjs").write_text(program)
    body = body_of(uuid4())
    done = subprocess.run(
        ["node", str(tmp_path / "sign.mjs")],
        input=body,
        capture_output=True,
        check=True,
        env={**os.environ, "WARRENER_SIGNING_KEY_FILE": keys.file("billing")},
    )
    assert json.loads(done.stdout) == keys.sign("billing", body)
