"""The version that an agent announces is that of the package that holds its handlers."""

import sys
from pathlib import Path

import pytest

from warrener_agent import Agent
from warrener_agent.__main__ import load_agents
from warrener_agent.code_version import find_code_version

HANDLERS = """
from warrener_agent import Agent

agent = Agent()

@agent.job("shop.bill")
async def bill() -> None: ...
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of installed packages that is on the path."""
    folder = tmp_path / "site-packages"
    folder.mkdir()
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    return folder


def install(folder: Path, distribution: str, module: str, version: str) -> None:
    """Put a module with a handler there, as an installer does."""
    (folder / f"{module}.py").write_text(HANDLERS)
    about = folder / f"{distribution}-{version}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n")
    (about / "RECORD").write_text(f"{module}.py,,\n")


def served(module: str) -> Agent:
    return load_agents([module])


def test_it_is_the_version_of_the_distribution_of_the_same_name(installed: Path) -> None:
    install(installed, "shop_jobs_a", "shop_jobs_a", "1.4.2")
    assert find_code_version(served("shop_jobs_a").definitions.values()) == "1.4.2"


def test_a_distribution_of_another_name_is_found_by_its_files(installed: Path) -> None:
    install(installed, "the_shop", "shop_jobs_b", "2.0")
    assert find_code_version(served("shop_jobs_b").definitions.values()) == "2.0"


def test_a_module_of_no_distribution_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shop_alone.py").write_text(HANDLERS)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    assert find_code_version(served("shop_alone").definitions.values()) is None


def test_an_agent_without_handlers_has_none() -> None:
    assert find_code_version(Agent().definitions.values()) is None
