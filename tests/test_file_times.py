"""The order in which test files start, and the list that it follows."""

from pathlib import Path

import pytest
from tests.file_times import FILE, collection_order, read_times, start_order, write_times

WAITING = [f"tests/acceptance/test_{name}.py" for name in ("long", "middle", "short")]
COMPUTING = [f"services/agent/tests/test_{name}.py" for name in ("long", "short")]


def test_the_longest_start_first_and_those_that_wait_are_mixed_with_those_that_compute() -> None:
    seconds = {WAITING[0]: 60, WAITING[1]: 30, COMPUTING[0]: 40, COMPUTING[1]: 30}
    order = start_order([*reversed(WAITING), *reversed(COMPUTING)], seconds)
    assert order == [WAITING[0], COMPUTING[0], COMPUTING[1], WAITING[1], WAITING[2]]


@pytest.mark.parametrize("paths", [WAITING, COMPUTING, []])
def test_each_file_starts_once_also_if_nothing_is_known_of_it(paths: list[str]) -> None:
    assert sorted(start_order([*paths, *paths], {})) == sorted(paths)


def test_what_is_measured_is_listed_if_it_is_long(tmp_path: Path) -> None:
    file = tmp_path / "times.txt"
    write_times({"short.py": 0.4, "long.py": 61.3, "middle.py": 9.8}, file)
    assert file.read_text(encoding="utf-8") == "61 long.py\n10 middle.py\n"
    assert read_times(file) == {"long.py": 61, "middle.py": 10}


def test_each_listed_file_is_there() -> None:
    assert [path for path in read_times() if not (FILE.parents[1] / path).is_file()] == []


def test_each_process_collects_all_tests_and_begins_elsewhere(tmp_path: Path) -> None:
    for name in (
        "a/one/test_1.py",
        "a/one/test_2.py",
        "a/two/tests/test_3.py",
        "b/test_4.py",
        "b/three/notes.py",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    paths = ["a", "b", "c/test_5.py::test_it"]
    orders = [collection_order(paths, tmp_path, share / 3) for share in range(3)]
    assert orders[0] == ["a/one", "a/two", "b/test_4.py", "c/test_5.py::test_it"]
    assert [sorted(order) for order in orders] == [orders[0]] * 3
    assert [order[0] for order in orders] == [
        "a/one",
        "a/two",
        "c/test_5.py::test_it",
    ]  # of five files, two in one
