"""The workflow of the daily export by the test kit: real files, exported by the real handlers."""

import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from examples.export.demo import write_day
from examples.export.handlers import Exported, FailedFile, agent, export_file, write_report

from warrener_agent import Fail
from warrener_agent.testing import WorkflowTrial, run_workflow

DAY = date(2013, 1, 1)
FLIGHTS = 842  # of that day in the data set


def export_day(folder: Path) -> WorkflowTrial:
    def file(source: str, target: str) -> Exported:
        return export_file(Path(source), Path(target))

    def report(path: str, day: str, exported: list[Any], failed: list[Any]) -> object:
        ends = [Exported.model_validate(one) for one in exported]
        return write_report(Path(path), date.fromisoformat(day), ends, [FailedFile(**one) for one in failed])

    jobs = {"export.file": file, "export.report": report}
    return run_workflow(agent, "export.day", {"day": DAY, "folder": str(folder)}, jobs=jobs)


def test_a_day_is_exported_file_by_file_and_reported(tmp_path: Path) -> None:
    files = write_day(tmp_path, DAY)
    result = export_day(tmp_path).result
    assert (result["flights"], result["failed"]) == (FLIGHTS, [])
    assert [one["file"] for one in result["exported"]] == [file.name for file in files]
    written = list((tmp_path / "out" / "2013-01-01").glob("*.jsonl"))
    assert sum(len(file.read_text().splitlines()) for file in written) == FLIGHTS
    assert json.loads((tmp_path / "out" / "2013-01-01" / "report.json").read_text()) == result


def test_a_file_that_cannot_be_read_is_in_the_report_and_stops_no_other(tmp_path: Path) -> None:
    files = write_day(tmp_path, DAY)
    files[3].write_text("date;airline;number\n")
    result = export_day(tmp_path).result
    [failed] = result["failed"]
    assert failed["file"] == files[3].name
    assert "expected the columns year, month, day" in failed["error"]
    assert len(result["exported"]) == len(files) - 1


def test_a_day_without_files_fails_and_names_the_folder(tmp_path: Path) -> None:
    with pytest.raises(Fail, match="in/2013-01-01, got none"):
        _ = export_day(tmp_path).result
