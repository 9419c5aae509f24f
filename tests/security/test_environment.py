"""Secrets of an agent stay out of the code that it runs for others, and out of environments at all."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.command_line import BARE
from tests.security.attacks import attack
from tests.security.child_handlers import agent as child_agent

from warrener_agent import Agent, Program
from warrener_agent.executors.isolated import filter_environment
from warrener_agent.settings import AgentSettings
from warrener_agent.testing import run
from warrener_client import Client
from warrener_runtime.settings import SettingsError, load

SECRETS = {
    "SLACK_WEBHOOK_URL": "https://hooks.example/T0/B0/x",
    "AZURE_STORAGE_CONNECTION_STRING": "AccountName=x;AccountKey=x",
    "SSH_AUTH_SOCK": "/tmp/ssh/agent",
    "AWS_SECRET_ACCESS_KEY": "x",
    "WARRENER_BROKER_URL": "amqp://agent:secret@broker/",
    "WARRENER_LEDGER_URL": "postgresql://agent:secret@ledger/ledger",
    "KUBECONFIG": "/etc/agent/kube",
}


@pytest.fixture(autouse=True)
def agent_with_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)


def serving(*argv: str, **options: Any) -> Agent:
    agent = Agent()
    agent.command("it", Program(list(argv)), **options)
    return agent


@attack(
    "job", "reads secrets in the variables of its agent from a program", refused="list of passed variables"
)
async def test_a_program_gets_no_secret_of_its_agent() -> None:
    output = (await run(serving("env"), "it")).result
    assert f"PATH={os.environ['PATH']}\n" in output
    assert not [name for name in SECRETS if name in output]


@attack(
    "job",
    "reads secrets in the variables of its agent from a child process",
    refused="list of passed variables",
)
async def test_a_child_process_gets_no_secret_of_its_agent() -> None:
    variables = (await run(child_agent, "variables")).result
    assert "PATH" in variables
    assert not SECRETS.keys() & variables.keys()


@attack(
    "job",
    "signs in elsewhere with the SSH agent of who started the agent",
    refused="list of passed variables",
)
async def test_a_program_does_not_reach_the_ssh_agent() -> None:
    trial = await run(serving("sh", "-c", 'test -z "$SSH_AUTH_SOCK" && echo alone'), "it")
    assert trial.result == "alone\n"


async def test_a_job_type_gets_what_it_names_and_an_agent_passes_patterns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    output = (await run(serving("env", environment=("KUBECONFIG",)), "it")).result
    assert "KUBECONFIG=/etc/agent/kube\n" in output
    assert "SLACK_WEBHOOK_URL" not in output
    monkeypatch.setenv("WARRENER_AGENT_ENVIRONMENT", "AZURE_*,KUBECONFIG")
    passed = filter_environment(os.environ, load(AgentSettings).agent_environment)
    assert {"AZURE_STORAGE_CONNECTION_STRING", "KUBECONFIG"} <= passed.keys()
    assert "SLACK_WEBHOOK_URL" not in passed


# -- secrets from files --------------------------------------------------------------------------------


@pytest.fixture
def credential(tmp_path: Path, vhost_url: str) -> Path:
    """A credential as systemd gives it: `LoadCredential=broker-url:…`, and `%d/broker-url` in the unit."""
    path = tmp_path / "broker-url"
    path.write_text(f"{vhost_url}\n")
    path.chmod(0o400)
    return path


async def test_a_client_reads_its_password_from_a_file(
    monkeypatch: pytest.MonkeyPatch, credential: Path
) -> None:
    monkeypatch.delenv("WARRENER_BROKER_URL")
    monkeypatch.setenv("WARRENER_BROKER_URL_FILE", str(credential))
    async with Client() as client:
        assert client.address


def test_a_command_reads_its_password_from_a_file(credential: Path, tmp_path: Path) -> None:
    environment = {**BARE, "WARRENER_BROKER_URL_FILE": str(credential)}
    command = [sys.executable, "-m", "warrener", "topology", "--check"]
    done = subprocess.run(
        command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert "warrener.requests" in done.stdout + done.stderr


@attack(
    "operator", "leaves a password beside its file, of which one is stale", refused="an error at the start"
)
def test_a_password_from_two_places_is_refused(monkeypatch: pytest.MonkeyPatch, credential: Path) -> None:
    monkeypatch.setenv("WARRENER_BROKER_URL_FILE", str(credential))
    with pytest.raises(SettingsError, match="got both"):
        load(AgentSettings)
    with pytest.raises(ValueError, match="got both"):
        Client()


def test_a_password_file_for_all_users_is_reported(monkeypatch: pytest.MonkeyPatch, credential: Path) -> None:
    monkeypatch.delenv("WARRENER_BROKER_URL")
    monkeypatch.setenv("WARRENER_BROKER_URL_FILE", str(credential))
    assert load(AgentSettings).hints == ()
    credential.chmod(0o644)
    (hint,) = load(AgentSettings).hints
    assert "chmod 600" in hint
