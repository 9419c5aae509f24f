"""The workflow of the daily export by the test kit: real files, loaded by the real handlers into a ledger."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from examples.export.files import write_days
from examples.export.handlers import agent

from warrener_agent import ChildJobFailed, Fail
from warrener_agent.ledger.port import Ledger
from warrener_agent.testing import WorkflowTrial, run, run_workflow, temporary_ledger

JOBS = ("export.list", "export.load", "export.summary")
FLIGHTS = {"flights-2013-01-01.csv": 842, "flights-2013-01-02.csv": 943, "flights-2013-01-03.csv": 914}


class Nights:
    """Nights that load into one database."""

    def __init__(self, folder: Path, ledger: Ledger, runner: asyncio.Runner) -> None:
        self.folder, self._ledger, self._runner = folder, ledger, runner

    def export(self) -> WorkflowTrial:
        """Run the workflow over the folder."""

        def job(job_type: str) -> object:
            def end(**arguments: object) -> object:
                trial = self._runner.run(run(agent, job_type, arguments, ledger=self._ledger))
                if trial.error is not None:
                    raise Fail(trial.error.message)
                return trial.result

            return end

        jobs = {job_type: job(job_type) for job_type in JOBS}
        return run_workflow(agent, "export.night", {"folder": str(self.folder)}, jobs=jobs)


@pytest.fixture
def nights(tmp_path: Path) -> Iterator[Nights]:
    with asyncio.Runner() as runner:
        ledger = temporary_ledger()
        yield Nights(tmp_path / "files", runner.run(ledger.__aenter__()), runner)
        runner.run(ledger.__aexit__(None, None, None))


@pytest.fixture
def files(nights: Nights) -> list[Path]:
    days = write_days(nights.folder)
    return [next(days) for _ in FLIGHTS]


def test_each_file_is_loaded_and_summed_up(nights: Nights, files: list[Path]) -> None:
    result = nights.export().result
    assert (result["files"], result["flights"], result["failed"]) == (3, sum(FLIGHTS.values()), [])


def test_a_damaged_file_stops_no_other_and_the_night_after_it_was_mended_loads_it_alone(
    nights: Nights, files: list[Path]
) -> None:
    whole = files[1].read_text()
    files[1].write_text("date;airline;number\n")
    result = nights.export().result
    assert (result["files"], result["flights"]) == (2, 842 + 914)
    [failed] = result["failed"]
    assert failed["file"] == files[1].name
    assert "expected the columns year, month, day" in failed["error"]

    files[1].write_text(whole)
    trial = nights.export()
    assert trial.result["flights"] == sum(FLIGHTS.values())
    assert [call.name for call in trial.calls] == list(JOBS)


def test_a_night_without_any_file_fails_and_names_the_folder(nights: Nights) -> None:
    with pytest.raises(ChildJobFailed, match=r"expected CSV files in .*files, got none"):
        _ = nights.export().result
