"""The page on installing, as printed: each service from our wheels in its own environment; then a client."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.acceptance.reader import blocks
from tests.wheels.conftest import ROOT, Wheelhouse

MAKE, PACKAGES, WHEELS, START, CLIENT = blocks(ROOT / "docs" / "howto" / "install.md", "sh")


@pytest.fixture
def clone(wheelhouse: Wheelhouse, tmp_path: Path) -> Path:
    """The folder of a clone, in so far as the page needs it once `make wheels` has run."""
    assert MAKE.startswith("make wheels ")
    (tmp_path / "dist").symlink_to(wheelhouse.folder)
    (tmp_path / "requirements").symlink_to(ROOT / "requirements")
    return tmp_path


@pytest.mark.timeout(900)
def test_each_service_is_installed_in_an_environment_of_its_own(clone: Path) -> None:
    run(clone, PACKAGES)
    run(clone, WHEELS)
    for service in ("scheduler", "supervisor", "agent"):
        check = f"test -x warrener-{service}; ./python -c 'import warrener_{service}'"
        run(clone, f"cd ~/warrener/{service}/bin; {check}")
    migrate = next(line for line in START.splitlines() if line.endswith(" migrate"))
    run(clone, f"export WARRENER_STORE_URL=sqlite:///{clone}/state.db\n{migrate}")
    run(clone, "~/warrener/console/bin/warrener console --help")


@pytest.mark.timeout(300)
def test_a_client_is_installed_in_an_environment_of_an_application(clone: Path) -> None:
    run(clone, "python3 -m venv application")
    run(clone, f". application/bin/activate\n{CLIENT}\npython -c 'import warrener_client'")


def run(clone: Path, block: str) -> str:
    """The answer of a block of the page in the folder of the clone; every command of it succeeds."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {"HOME": str(clone), "PATH": path, "PIP_CACHE_DIR": str(Path.home() / ".cache" / "pip")}
    done = subprocess.run(
        ["sh", "-ec", block], cwd=clone, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}"
    return done.stdout
