"""Settings of the agent that cannot work together are refused at the start."""

import sys

import pytest

from warrener_agent.ledger import open_ledger
from warrener_agent.settings import AgentSettings
from warrener_runtime.settings import SettingsError, load


@pytest.mark.parametrize("ttl", ["8", "8s", "1m"])
def test_a_claim_that_outlasts_the_timeout_of_its_agent_is_refused(
    monkeypatch: pytest.MonkeyPatch, ttl: str
) -> None:
    monkeypatch.setenv("WARRENER_SUPERVISOR_AGENT_TIMEOUT", "8s")
    monkeypatch.setenv("WARRENER_AGENT_CLAIM_TTL", ttl)
    with pytest.raises(
        SettingsError, match=r"WARRENER_AGENT_CLAIM_TTL: expected less than supervisor_agent_timeout \(8 s\)"
    ):
        load(AgentSettings)


def test_the_default_claim_is_compared_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARRENER_SUPERVISOR_AGENT_TIMEOUT", "5s")
    with pytest.raises(SettingsError, match="WARRENER_AGENT_CLAIM_TTL"):
        load(AgentSettings)


def test_a_timeout_that_only_the_supervisor_knows_is_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARRENER_AGENT_CLAIM_TTL", "10m")
    assert load(AgentSettings).agent_claim_ttl == 600


def test_a_ledger_in_postgresql_without_its_extra_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    for module in ("postgres", "postgres_sessions"):
        monkeypatch.delitem(sys.modules, f"warrener_agent.ledger.{module}", raising=False)
    with pytest.raises(ValueError, match=r"install warrener-agent\[postgres\]"):
        open_ledger("postgresql://user@host/name")
