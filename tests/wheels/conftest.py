"""The wheels of the workspace, and environments that hold one service each.

They are installed by their paths, and never by name: a stranger's package of the same name cannot come in."""

import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from email.parser import Parser
from pathlib import Path

import pytest

_REQUIRED = re.compile(r"^(warrener[a-z-]*)(?P<extra>.*extra ==)?")


@dataclass(frozen=True)
class Wheelhouse:
    """A folder of wheels, one for each member; `constraints` has the versions of what others make."""

    folder: Path
    constraints: Path

    def with_siblings(self, member: str) -> list[Path]:
        """The wheel of `member`, and those of the members it needs, and that those need."""
        needed, pending = list[str](), [member]
        while pending:
            name = pending.pop()
            if name not in needed:
                needed.append(name)
                pending += self._siblings_of(name)
        return [self._wheel(name) for name in needed]

    def _wheel(self, member: str) -> Path:
        (wheel,) = self.folder.glob(f"{member.replace('-', '_')}-*.whl")
        return wheel

    def _siblings_of(self, member: str) -> list[str]:
        with zipfile.ZipFile(self._wheel(member)) as archive:
            (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
            metadata = Parser().parsestr(archive.read(name).decode())
        required = [_REQUIRED.match(line) for line in metadata.get_all("Requires-Dist", [])]
        return [found[1] for found in required if found and not found["extra"]]


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
