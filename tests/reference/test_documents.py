"""Generated files are up to date, valid, and agree with the code."""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator, Draft202012Validator, FormatChecker
from tools.reference.__main__ import main as generate
from tools.reference.asyncapi import asyncapi
from tools.reference.channels import channels, channels_of
from tools.reference.console_api import api_schemas, find_breaking_answers
from tools.reference.documents import CONSOLE_RELEASES, documents, wire_version
from tools.reference.golden import golden_events
from tools.reference.schemas import schemas

from warrener.web.site import NOUNS
from warrener_contracts.events import AgentAnnounced, AgentHeartbeat, JsonObject
from warrener_contracts.events.envelope import AGENT, ANYONE, REPLIES, SCHEDULER, Party, Route
from warrener_contracts.messages import address_of, build_message, encode
from warrener_contracts.permissions import BrokerRole, Holder, permissions_of
from warrener_contracts.registry import BY_TYPE, type_of
from warrener_contracts.topology import CONTROL, DELAY, EVENTS, EXCHANGES, STATUS

ROOT = Path(__file__).resolve().parents[2]
_OF_ERRORS = {"no_retry_by_policy", "base_classes", "flight_record", "crashes", "crashes_omitted"}
_OF_POLICIES = {
    "step",
    "delays",
    "max_age",
    "max_lost_attempts",
    "max_crashes",
    "max_snoozes",
    "retry_on",
    "no_retry_on",
}
ABSENT = {
    "job.finished.v1": {"error", "reason"},  # a job that succeeded has none
    # Since 1.1 and optional: the examples are those of 1.0, without these fields.
    "agent.announced.v1": _OF_POLICIES - {"max_lost_attempts"}
    | {"depends_on", "breaker", "schedules", "heartbeat_timeout", "dispatch_batch", "on_failure"}
    | {"public", "encrypted", "queue", "started_at"}
    | {"per"},  # instead of a pool
    "agent.heartbeat.v1": {"trouble", "held"},  # it can handle the messages of its queues, at once
    "attempt.cancelled.v1": {"by_handler", "flight_record"},
    "attempt.dispatched.v1": {"checkpoint", "journal", "pages"},
    "attempt.failed.v1": {"snoozed", *_OF_ERRORS},
    # Each call and each answer has the fields of its kind.
    "attempt.suspended.v1": _OF_ERRORS
    | {"job_id", "undo", "detached", "digest", "state", "result", "error", "signal_id", "queue"}
    | {"size", "stop_after", "members", "page", "by_reference", "source"}
    | {"retry_of"},  # the supervisor's own
    "job.cancel_requested.v1": {"tree"},
    "job.dead.v1": _OF_ERRORS,
    "job.drop_requested.v1": {"reply_to"},
    "job.redrive_requested.v1": _OF_POLICIES | {"reply_to"},
    "job.requested.v1": _OF_POLICIES,
    "job.retrying.v1": _OF_ERRORS,
    # A cron rule: it has nothing of the other two.
    "schedule.put.v1": {
        *_OF_POLICIES,
        *("every", "anchor", "offset", "at", "after", "owner"),
        *("pause_after_failures", "expect_success_within", "overdue_after"),
    },
}


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the released snapshot and all that is generated, to copy."""
    root = tmp_path_factory.mktemp("generated")
    shutil.copytree(ROOT / "contracts" / "wire" / "released", root / "contracts" / "wire" / "released")
    assert generate([], root=root) == 0
    return root


@pytest.fixture
def tree(tmp_path: Path, generated: Path) -> Path:
    return shutil.copytree(generated, tmp_path / "tree")


@pytest.fixture(scope="module")
def event_schemas() -> dict[str, JsonObject]:
    """The schema of each event: to make them takes a quarter of a second."""
    return schemas()


def test_the_repository_is_up_to_date() -> None:
    assert generate(["--check"]) == 0


def test_check_prints_what_differs_and_writing_mends_it(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tree / "docs" / "journey-of-a-job.md"
    page.write_text(page.read_text("utf-8").replace("waiting --> queued", "waiting --> dead"), "utf-8")
    left = [tree / "contracts" / "wire" / kind / "job.forgotten.v1.json" for kind in ("schemas", "golden")]
    for file in left:
        file.write_text("{}", "utf-8")
    (tree / "contracts" / "wire" / "golden" / "job.dead.v1.json").unlink()
    assert generate(["--check"], root=tree) == 1
    output = capsys.readouterr().err
    assert "docs/journey-of-a-job.md is not up to date" in output
    assert "-    waiting --> dead: due" in output
    assert "+    waiting --> queued: due" in output
    assert "schemas/job.forgotten.v1.json belongs to no event" in output
    assert "golden/job.forgotten.v1.json belongs to no event" in output
    assert "golden/job.dead.v1.json is not up to date" in output
    assert generate([], root=tree) == 0
    assert not any(file.exists() for file in left)
    assert generate(["--check"], root=tree) == 0


def test_a_breaking_change_fails_the_build(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The release had a field more than the code has now: somebody has removed it."""
    released = tree / "contracts" / "wire" / "released" / wire_version() / "schemas" / "job.requested.v1.json"
    schema = json.loads(released.read_text("utf-8"))
    schema["$defs"]["JobRequestedData"]["properties"]["priority"] = {"type": "integer", "default": 0}
    released.write_text(json.dumps(schema), "utf-8")
    for arguments in (["--check"], [], ["--release"]):
        assert generate(arguments, root=tree) == 1
        output = capsys.readouterr().err
        assert f"job.requested.v1 (released in {wire_version()}): data.priority: removed or renamed" in output


def test_a_release_is_written_once_and_never_again(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tree / "contracts" / "wire" / "released" / wire_version()
    shutil.rmtree(folder)
    assert generate(["--release"], root=tree) == 0
    snapshot = {file.relative_to(folder): file.read_bytes() for file in folder.rglob("*.json")}
    assert len(snapshot) == 2 * len(BY_TYPE)
    assert len([*(tree / CONSOLE_RELEASES).iterdir()]) == 1
    assert generate(["--release"], root=tree) == 1
    assert "expected a version that is not released" in capsys.readouterr().err
    assert {file.relative_to(folder): file.read_bytes() for file in folder.rglob("*.json")} == snapshot


def test_a_field_that_answers_of_the_console_have_no_longer_fails_the_build(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A released answer had a field more, and a released body had one less that is required."""
    released = json.loads(json.dumps(api_schemas()))
    released["$defs"]["Breaker"]["properties"]["by_hand"] = {"type": "boolean"}
    released["$defs"]["Breaker"]["required"].append("by_hand")
    snooze = released["$defs"]["SnoozeIncident"]
    snooze["required"].remove("snooze_for")
    file = tree / CONSOLE_RELEASES / "0.9.0.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(released), "utf-8")
    assert generate(["--check"], root=tree) == 1
    output = capsys.readouterr().err
    assert "GET /breakers/{name} (released in 0.9.0): by_hand: removed or renamed" in output
    assert "POST /incidents/{fingerprint}/snooze (released in 0.9.0): snooze_for: required now" in output


def test_new_fields_and_choices_of_answers_and_freer_bodies_break_no_program() -> None:
    released = json.loads(json.dumps(api_schemas()))
    del released["$defs"]["Breaker"]["properties"]["manual"]
    released["$defs"]["Breaker"]["required"].remove("manual")
    released["$defs"]["DeadLetterState"]["enum"].remove("dropped")
    released["$defs"]["RedriveBody"]["required"] = ["reason"]
    assert list(find_breaking_answers({"0.9.0": released}, api_schemas())) == []


def test_the_page_of_the_console_describes_every_noun() -> None:
    page = next(text for path, text in documents().items() if path.name == "console-api.md")
    for noun in NOUNS:
        assert f"| `GET /{noun.plural}` | [" in page
        for verb in noun.verbs:
            assert f"/{verb.word}` | [{verb.body.__name__}](#{verb.body.__name__.lower()}) |" in page
    titles = {title.lower() for title in re.findall(r"^#+ (.+)$", page, re.MULTILINE)}
    assert set(re.findall(r"\]\(#(\w+)\)", page)) <= titles


@pytest.mark.parametrize("name", sorted(BY_TYPE))
def test_the_golden_example_fits_its_schema_and_shows_every_field(
    event_schemas: dict[str, JsonObject], name: str
) -> None:
    schema, example = event_schemas[name], json.loads(encode(golden_events()[name]))
    Draft202012Validator.check_schema(schema)
    validator: Any = Draft202012Validator(schema, format_checker=FormatChecker())
    validator.validate(example)
    assert list(_unseen(schema, schema, example, ABSENT.get(name, set()))) == []


def _unseen(node: JsonObject, root: JsonObject, value: Any, absent: set[str]) -> Iterator[str]:
    node = _followed(node, root)
    for name, inner in node.get("properties", {}).items():
        if name in absent:
            continue
        if name not in value:
            yield name
        else:
            yield from (f"{name}.{found}" for found in _unseen(inner, root, value[name], absent))
    for element in value if "items" in node else ():
        yield from _unseen(node["items"], root, element, absent)


def _followed(node: JsonObject, root: JsonObject) -> JsonObject:
    branches = [branch for branch in node.get("anyOf", ()) if "$ref" in branch]
    node = branches[0] if branches else node
    found: JsonObject = root["$defs"][node["$ref"].rpartition("/")[2]] if "$ref" in node else node
    return found


def test_the_asyncapi_document_is_valid() -> None:
    official = json.loads((Path(__file__).parent / "asyncapi" / "3.0.0.json").read_text("utf-8"))
    document = asyncapi("1.0.0")
    validator: Any = Draft7Validator(official)
    validator.validate(document)
    document["channels"]["attempt.dispatched"]["adress"] = "a typing error"
    assert not validator.is_valid(document)


def test_every_reference_of_the_asyncapi_document_leads_somewhere_and_names_stand_once() -> None:
    document = asyncapi("1.0.0")
    found = set(re.findall(r'"\$ref": "#/([^"]+)"', json.dumps(document)))
    assert found
    for reference in found:
        node: Any = document
        for part in reference.split("/"):
            node = node[part]
    assert set(document["components"]["messages"]) == set(BY_TYPE)
    shown = {channel["bindings"]["amqp"]["exchange"]["name"] for channel in document["channels"].values()}
    unused = {exchange.name for exchange in EXCHANGES} - shown
    assert unused == {"warrener.unroutable", "warrener.return", "warrener.dead"}  # no event has a route there
    for channel in document["channels"].values():
        assert set(re.findall(r"{(\w+)}", channel["address"])) == set(channel.get("parameters", {}))
        assert all(parameter["description"] for parameter in channel.get("parameters", {}).values())
    assert len({channel.name for channel in channels()}) == len(channels())


def test_every_event_goes_to_the_address_of_the_reference() -> None:
    for name, event in golden_events().items():
        own = channels_of(BY_TYPE[name])[0].route
        exchange, key = address_of(event)
        assert exchange == own.exchange
        assert _fits(own, key), (name, key)
        message = build_message(event)
        assert (message.mandatory, message.persistent) == (own.mandatory, own.persistent)


def test_events_with_a_second_address_are_listed_by_name() -> None:
    """Cancels of child jobs go with reports, and so do heartbeats that their exchange does not take; breakers
    are announced to agents, early attempts are delayed, and replies go to their requester."""
    elsewhere = {
        (type_of(kind), channel.route.exchange)
        for channel in channels()
        for kind in channel.kinds
        if channel.route.exchange != kind.routes[0].exchange
    }
    assert elsewhere == {
        ("agent.heartbeat.v1", STATUS),
        ("job.cancel_requested.v1", STATUS),
        ("breaker.changed.v1", CONTROL),
        ("attempt.dispatched.v1", DELAY),
    }
    assert REPLIES.exchange == EVENTS
    (replies,) = (channel for channel in channels() if channel.route is REPLIES)
    assert {type_of(kind) for kind in replies.kinds} == {
        "command.handled.v1",
        "job.finished.v1",
        "job.rejected.v1",
        "job.deduplicated.v1",
        "job.waiting.v1",
    }


@pytest.mark.parametrize(
    ("party", "holder"),
    [
        (AGENT, Holder(BrokerRole.AGENT, "a", queues=("loading", "default"), child_types=("*",))),
        (ANYONE, Holder(BrokerRole.OPERATOR, "a", job_types=("*",))),
        (SCHEDULER, Holder(BrokerRole.SCHEDULER, "a")),
    ],
)
def test_permissions_admit_the_messages_of_a_party_and_no_others(party: Party, holder: Holder) -> None:
    permitted = permissions_of(holder).keys or {}

    def permits(exchange: str, key: str) -> bool:
        return re.search(permitted[exchange].write.replace(r"\z", r"\Z"), key) is not None

    for event in golden_events().values():
        exchange, key = address_of(event)
        if party is AGENT and isinstance(event, AgentHeartbeat):
            assert not permits(exchange, key), "the id of an agent names its user"
            key = "agent.a@loader-7c9f"
        if party is AGENT and isinstance(event, AgentAnnounced):
            assert not permits(exchange, key), "a role announces each of its queues"
            key = f"{key}.loading"
        assert permits(exchange, key) == (party in event.routes[0].senders), (exchange, key)
    assert not permits("warrener.requests", "job.unheard_of") or party is SCHEDULER
    assert permits("warrener.dead", "parked.warrener.queue.loading") == (party is not ANYONE)
    assert permits("warrener.delay", "1s.loading.flights.load") == (party is not ANYONE)


def _fits(route: Route, key: str) -> bool:
    pattern = re.sub(r"\\{\w+\\}", r"[A-Za-z0-9_.:@+-]+", re.escape(route.key))
    return re.fullmatch(pattern, key) is not None


def test_the_reference_describes_every_event_and_every_part(event_schemas: dict[str, JsonObject]) -> None:
    page = next(text for path, text in documents().items() if path.name == "events.md")
    for name, schema in event_schemas.items():
        assert f"\n## {name}\n" in page
        for part in schema["$defs"]:
            if not part.endswith("Data"):
                assert f"\n### {part}\n" in page
    headings = re.findall(r"^#+ (.+)$", page, re.MULTILINE)
    titles = {re.sub(r"[^a-z0-9_]", "", title.lower()) for title in headings}
    assert set(re.findall(r"\]\(#([a-z0-9_]+)\)", page)) <= titles
