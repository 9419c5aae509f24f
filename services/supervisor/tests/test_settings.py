"""Settings of the supervisor that cannot work together are refused at the start."""

import pytest

from warrener_runtime.settings import SettingsError, load
from warrener_supervisor.settings import SupervisorSettings


@pytest.mark.parametrize("timeout", ["6s", "5", "PT6S"])
def test_a_timeout_of_agents_that_their_claims_outlast_is_refused(
    monkeypatch: pytest.MonkeyPatch, timeout: str
) -> None:
    monkeypatch.setenv("WARRENER_AGENT_CLAIM_TTL", "6s")
    monkeypatch.setenv("WARRENER_SUPERVISOR_AGENT_TIMEOUT", timeout)
    with pytest.raises(
        SettingsError, match=r"WARRENER_SUPERVISOR_AGENT_TIMEOUT: expected more than agent_claim_ttl \(6 s\)"
    ):
        load(SupervisorSettings)


def test_a_timeout_that_claims_do_not_reach_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARRENER_AGENT_CLAIM_TTL", "6s")
    assert load(SupervisorSettings).supervisor_agent_timeout == 8
    monkeypatch.setenv("WARRENER_SUPERVISOR_AGENT_TIMEOUT", "2m")
    assert load(SupervisorSettings).supervisor_agent_timeout == 120
