"""Every Python block of the pages is a file, and runs beside the `warrener up` of the first steps."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.acceptance.reader import PAGES, programs, run, terminal, write_files

FILES = [(name, text) for page in PAGES for name, text in programs(page).items()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with all files of all pages, and the system that the pages speak of."""
    folder = tmp_path_factory.mktemp("reader")
    write_files(folder, dict(FILES))
    with terminal(folder, "warrener up hello bank"):
        yield folder


@pytest.mark.timeout(400)  # the first one with the start of the system
@pytest.mark.parametrize("name", [name for name, _ in FILES])
def test_a_program_of_a_page_runs_as_pasted(folder: Path, name: str) -> None:
    by = "python -m pytest -q -o asyncio_mode=auto" if name.startswith("test_") else "python"
    run(folder, f"{by} {name}")


def test_no_two_pages_give_different_files_one_name() -> None:
    assert len(dict(FILES)) == len(FILES)
