"""A deploy is noticed when agents begin to run another version; a restart and an old agent are none."""

from dataclasses import replace
from datetime import datetime, timedelta

from services.supervisor.tests.event_factory import NOW, agent_row

from warrener_store.agents.rows import AgentRow
from warrener_store.statistics.rows import AgentVersion, Deploy
from warrener_supervisor.decisions.deploys import VersionHistory, hash_schema, observe_deploys

SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}}


def at(minutes: float) -> datetime:
    return NOW + timedelta(minutes=minutes)


def agent(agent_id: str, version: str | None, started: float, seen: float, *types: str) -> AgentRow:
    times = {"started_at": at(started), "last_seen_at": at(seen)}
    return agent_row(agent_id, job_types=types or ("flights.load",), code_version=version, **times)


def observed(agents: list[AgentRow], known: list[Deploy], now: float) -> list[Deploy]:
    return observe_deploys(agents, known, {"flights.load": SCHEMA}, at(now))


OLD = Deploy(
    job_type="flights.load", first_seen_at=at(-600), code_version="1.4.1", last_seen_at=at(0), schema_hash="x"
)


def test_the_first_agent_of_a_version_is_a_deploy_of_its_job_types() -> None:
    found = observed([agent("a", "1.4.1", -5, 0, "flights.load", "mail.send")], [], 0)
    assert [(one.job_type, one.first_seen_at, one.code_version) for one in found] == [
        ("flights.load", at(-5), "1.4.1"),
        ("mail.send", at(-5), "1.4.1"),
    ]
    assert [one.schema_hash for one in found] == [hash_schema(SCHEMA), ""]


def test_several_agents_of_a_version_are_one_deploy() -> None:
    agents = [agent("a", "1.4.2", 2, 3), agent("b", "1.4.2", 1, 3)]
    [deploy] = observed(agents, [OLD], 3)
    assert (deploy.code_version, deploy.first_seen_at) == ("1.4.2", at(1))


def test_an_old_agent_beside_the_new_ones_is_no_deploy() -> None:
    new = replace(OLD, first_seen_at=at(1), code_version="1.4.2", last_seen_at=at(3))
    old = replace(OLD, last_seen_at=at(3))
    restarted = agent("a", "1.4.1", 3.5, 3.6)
    assert observed([restarted], [old, new], 3.6) == []


def test_a_rollback_is_a_deploy() -> None:
    new = replace(OLD, first_seen_at=at(1), code_version="1.4.2", last_seen_at=at(9))
    [deploy] = observed([agent("a", "1.4.1", 10, 10)], [OLD, new], 10)
    assert (deploy.code_version, deploy.first_seen_at) == ("1.4.1", at(10))


def test_a_restart_of_the_last_version_after_a_night_is_no_deploy() -> None:
    [deploy] = observed([agent("a", "1.4.1", 600, 601)], [OLD], 601)
    assert deploy == replace(OLD, last_seen_at=at(601))


def test_a_version_is_stored_as_still_seen_once_a_minute() -> None:
    assert observed([agent("a", "1.4.1", -600, 0.5)], [OLD], 0.5) == []
    assert observed([agent("a", "1.4.1", -600, 1)], [OLD], 1) == [replace(OLD, last_seen_at=at(1))]


def test_agents_without_a_version_make_no_marks() -> None:
    assert observed([agent("a", None, 0, 1)], [OLD], 1) == []


def test_an_agent_from_the_future_started_now() -> None:
    [deploy] = observed([agent("a", "2", 30, 1)], [], 1)
    assert deploy.first_seen_at == at(1)


def test_the_hash_of_a_schema_knows_no_order() -> None:
    assert hash_schema({"a": 1, "b": [2]}) == hash_schema({"b": [2], "a": 1}) != hash_schema({"a": 1})


def test_an_agent_that_restarts_with_another_version_ran_both() -> None:
    history = VersionHistory()
    history.add(["a"], [AgentVersion(agent_id="a", since=at(-60), code_version="1.4.1")])
    assert history.observe([agent("a", "1.4.1", -60, 0)], at(0)) == []
    [new] = history.observe([agent("a", "1.4.2", 5, 6)], at(6))
    assert new == AgentVersion(agent_id="a", since=at(5), code_version="1.4.2")
    versions = [history.version_of("a", at(minutes)) for minutes in (-90, -60, 4, 5, 60)]
    assert versions == ["", "1.4.1", "1.4.1", "1.4.2", "1.4.2"]
    assert history.version_of("b", at(0)) == history.version_of(None, at(0)) == ""


def test_an_agent_that_ceases_to_announce_a_version_runs_an_unknown_one() -> None:
    history = VersionHistory()
    history.add(["a"], [])
    assert history.observe([agent("a", None, 0, 1)], at(1)) == []
    history.observe([agent("a", "1", 2, 3)], at(3))
    [gone] = history.observe([agent("a", None, 5, 6)], at(6))
    assert (gone.since, gone.code_version) == (at(5), "")
