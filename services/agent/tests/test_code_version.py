"""The version that an agent announces is that of the package that holds its handlers."""

import sys
from pathlib import Path

import pytest

from warrener_agent import Agent
from warrener_agent.__main__ import load_agents
from warrener_agent.identity import find_code_version

HANDLERS = """
from warrener_agent import Agent

agent = Agent()

@agent.job("shop.bill")
async def bill() -> None: ...
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "site-packages"
    folder.mkdir()
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    return folder


def install(folder: Path, distribution: str, module: str, version: str) -> None:
    (folder / f"{module}.py").write_text(HANDLERS)
    about = folder / f"{distribution}-{version}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n")
    (about / "RECORD").write_text(f"{module}.py,,\n")


def code_version(agent: Agent) -> str | None:
    return find_code_version(one.handler.__module__ for one in agent.definitions.values())


@pytest.mark.parametrize(
    ("distribution", "module"), [("shop_jobs_a", "shop_jobs_a"), ("the_shop", "shop_jobs_b")]
)
def test_it_is_the_version_of_the_distribution_of_that_name_or_with_its_files(
    installed: Path, distribution: str, module: str
) -> None:
    install(installed, distribution, module, "1.4.2")
    assert code_version(load_agents([module])) == "1.4.2"


def test_a_module_of_no_distribution_and_an_agent_without_handlers_have_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shop_alone.py").write_text(HANDLERS)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    assert code_version(load_agents(["shop_alone"])) is None
    assert code_version(Agent()) is None
