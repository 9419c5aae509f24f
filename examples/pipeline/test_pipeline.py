"""The workflow of the pipeline by the test kit; the programs really run, unless a test says how they end."""

import asyncio
import tarfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from examples.pipeline.handlers import agent
from examples.pipeline.projects import write_project

from warrener_agent import ChildJobFailed, Fail
from warrener_agent.testing import WorkflowTrial, run, run_workflow

PROGRAMS = [f"pipeline.{name}" for name in ("checkout", "compile", "test", "package", "publish")]


def by_program(name: str, **arguments: str) -> None:
    trial = asyncio.run(run(agent, name, arguments))
    if trial.error is not None:
        raise Fail(trial.error.message)


def release(folder: Path, source: Path, programs: Callable[..., object] = by_program) -> WorkflowTrial:
    given = {"source": str(source), "folder": str(folder), "approval_timeout": "PT2H"}
    jobs = {name: partial(programs, name) for name in PROGRAMS}
    return run_workflow(agent, "pipeline.release", given, jobs=jobs)


def test_an_approved_project_is_published_without_its_tests(tmp_path: Path) -> None:
    trial = release(tmp_path, write_project(tmp_path / "greeter-1.0.tar"))
    assert trial.waits[0] == "signal approved"
    assert not (tmp_path / "published").exists()
    trial.send("approved", {"by": "Ada"})
    published = tmp_path / "published" / "greeter-1.0.tar.gz"
    assert trial.result == {"published": str(published), "approval": {"by": "Ada"}}
    with tarfile.open(published) as package:
        names = package.getnames()
    assert "./greeter.py" in names
    assert not [name for name in names if "tests" in name]


@pytest.mark.parametrize(
    ("greeter", "why"),
    [("def greet(name): return name\n", "FAILED .failures=1."), ("def greet(name:\n", "SyntaxError")],
)
def test_a_project_that_is_broken_is_not_packaged(tmp_path: Path, greeter: str, why: str) -> None:
    trial = release(tmp_path, write_project(tmp_path / "greeter-1.1.tar", greeter=greeter))
    with pytest.raises(ChildJobFailed, match=why):
        _ = trial.result
    assert "pipeline.package" not in [call.name for call in trial.calls]


def test_a_package_that_nobody_approves_in_time_is_not_published(tmp_path: Path) -> None:
    trial = release(tmp_path, tmp_path / "greeter-1.2.tar", programs=lambda *_, **__: None)
    trial.advance("119m")
    assert not trial.ended
    trial.advance("1m")
    assert isinstance(trial.error, Fail)
    assert "pipeline.publish" not in [call.name for call in trial.calls]


def test_a_relative_path_is_refused_at_once(tmp_path: Path) -> None:
    trial = release(Path("builds"), tmp_path / "greeter-1.3.tar")
    assert isinstance(trial.error, Fail)
    assert not trial.calls
