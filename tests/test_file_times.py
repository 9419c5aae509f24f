"""The order in which test files start, and the list that it follows."""

from pathlib import Path

from tests.file_times import FILE, read_times, start_order, write_times

WAITING = [f"tests/acceptance/test_{name}.py" for name in ("long", "middle", "short")]
COMPUTING = [f"services/agent/tests/test_{name}.py" for name in ("long", "short")]


def test_the_longest_start_first_and_those_that_wait_are_mixed_with_those_that_compute() -> None:
    seconds = {WAITING[0]: 60, WAITING[1]: 30, COMPUTING[0]: 40, COMPUTING[1]: 30}
    order = start_order([*reversed(WAITING), *COMPUTING, *reversed(COMPUTING)], seconds)
    assert order == [WAITING[0], COMPUTING[0], COMPUTING[1], WAITING[1], WAITING[2]]
    assert start_order(COMPUTING, {}) == COMPUTING, "nothing is known of them, and none waits"


def test_what_is_measured_is_listed_if_it_is_long(tmp_path: Path) -> None:
    file = tmp_path / "times.txt"
    write_times({"short.py": 0.4, "long.py": 61.3, "middle.py": 9.8}, file)
    assert file.read_text(encoding="utf-8") == "61 long.py\n10 middle.py\n"
    assert read_times(file) == {"long.py": 61, "middle.py": 10}


def test_each_listed_file_is_there() -> None:
    assert [path for path in read_times() if not (FILE.parents[1] / path).is_file()] == []
