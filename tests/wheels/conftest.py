"""The wheels of the workspace, and environments that hold one service each."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.wheels.wheelhouse import Wheelhouse

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def uv() -> str:
    """The uv that the workspace is built with."""
    if not os.environ.get("WARRENER_TEST_WHEELS"):
        pytest.skip("builds wheels and fresh environments, which takes a minute: make test-wheels")
    found = subprocess.run([ROOT / "infra/setup/uv"], capture_output=True, text=True, check=True)
    return found.stdout.strip()


@pytest.fixture(scope="session")
def wheelhouse(uv: str, tmp_path_factory: pytest.TempPathFactory) -> Wheelhouse:
    """Every member's wheel, and the versions of what others make that the workspace has."""
    folder = tmp_path_factory.mktemp("wheels") / "dist"
    _runner(ROOT)("make", "--no-print-directory", "wheels", f"WHEELS={folder}")
    return Wheelhouse(folder, ROOT / "requirements" / "workspace.txt")


@pytest.fixture
def environment_with(uv: str, wheelhouse: Wheelhouse, tmp_path: Path) -> Callable[[str], Path]:
    """Makes a fresh environment with one member and what it needs; the folder of its programs."""

    def make(member: str) -> Path:
        folder = tmp_path / "environment"
        run = _runner(tmp_path)
        run(uv, "venv", "--quiet", "--python", sys.executable, str(folder))
        wheels = [str(wheel) for wheel in wheelhouse.with_siblings(member)]
        constraints = ["--constraint", str(wheelhouse.constraints)]
        run(uv, "pip", "install", "--quiet", "--python", str(folder / "bin/python"), *constraints, *wheels)
        return folder / "bin"

    return make


def _runner(folder: Path) -> Callable[..., str]:
    def run(*command: str) -> str:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == 0, f"{' '.join(command)} failed:\n{done.stderr}"
        return done.stdout

    return run
