"""The buffer of an attempt's log: the last lines, numbered, within limits, whatever is written."""

from datetime import UTC, datetime

import pytest

from warrener_agent.log_buffer import LogBuffer, LogLimits, NumberedLine, SharedSize, cut_line, group_by_size
from warrener_runtime.log_scopes import LoggedLine

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)


def line(text: str) -> LoggedLine:
    return LoggedLine(NOON, "info", "shop.jobs", text)


def buffer(
    *, size: int = 1000, lines: int = 10, line_size: int = 100, shared: SharedSize | None = None
) -> LogBuffer:
    return LogBuffer(LogLimits(size, lines, line_size), shared or SharedSize(1_000_000), lambda _: None)


def texts(one: LogBuffer, *, whole: bool = True) -> list[tuple[int, str]]:
    one.take_output(whole=whole)
    return [(found.number, found.line.text) for found in one.first_lines(1_000_000)]


def test_the_last_lines_stay_and_numbers_show_how_many_were_left_out() -> None:
    one = buffer(lines=3)
    for number in range(100_000):
        one.add(line(str(number)))
    assert texts(one) == [(99_998, "99997"), (99_999, "99998"), (100_000, "99999")]


def test_bytes_are_limited_too() -> None:
    one = buffer(size=100)
    for char in "abc":
        one.add(line(char * 40))
    assert texts(one) == [(2, "b" * 40), (3, "c" * 40)]


def test_all_buffers_together_are_limited_but_each_keeps_its_last_line() -> None:
    shared = SharedSize(100)
    one, other = buffer(shared=shared), buffer(shared=shared)
    for _ in range(5):
        one.add(line("x" * 30))
        other.add(line("y" * 30))
    assert len(texts(one)) + len(texts(other)) <= 4
    assert texts(one)
    assert texts(other)
    for each in (one, other):
        each.discard_through(5)
    assert shared.size == 0


def test_a_long_line_is_cut_with_a_note() -> None:
    one = buffer(line_size=10)
    one.add(line("0123456789abc"))
    assert texts(one) == [(1, "0123456789… [3 more characters were cut off]")]
    assert cut_line("short", 10) == "short"


def test_the_first_line_is_announced_once_and_silence_never() -> None:
    announced: list[LogBuffer] = []
    one = LogBuffer(LogLimits(100, 10, 100), SharedSize(1000), announced.append)
    assert announced == []
    one.add(line("a"))
    one.add(line("b"))
    one.add_output("stderr", b"c\n")
    assert announced == [one]


def test_published_lines_stay_until_they_are_confirmed() -> None:
    one = buffer()
    for text in "abc":
        one.add(line(text))
    assert [found.number for found in one.first_lines(2)] == [1, 2]
    assert [found.number for found in one.first_lines(0)] == [1], "at least one, or nothing would move on"
    one.discard_through(2)
    assert texts(one) == [(3, "c")]


def test_output_becomes_lines_as_their_ends_arrive() -> None:
    one = buffer()
    for piece in (b"a\nb", b"b\r\n", b"c"):
        one.add_output("stderr", piece)
    assert texts(one, whole=False) == [(1, "a"), (2, "bb")]
    assert texts(one) == [(1, "a"), (2, "bb"), (3, "c")]
    assert {found.line.level for found in one.first_lines(100)} == {None}


def test_a_record_that_a_child_process_has_written_keeps_its_level_and_its_span() -> None:
    one = buffer()
    one.add_output(
        "output",
        b'{"message": "842 rows", "level": "warning", "timestamp": "2026-11-22T12:00:00Z", "part": "shop",'
        b' "job_id": "j", "trace_id": "t", "span_id": "s", "path": "a.csv"}\n{"message": 1}\n{broken\n',
    )
    one.take_output(whole=True)
    first, *others = [found.line for found in one.first_lines(10_000)]
    assert first == LoggedLine(NOON, "warning", "shop", "842 rows path=a.csv", "t", "s")
    assert [other.text for other in others] == ['{"message": 1}', "{broken"]


@pytest.mark.parametrize("piece", [b"x" * 999, b"x", b"0123456789\n" * 50], ids=["long", "byte", "lines"])
def test_output_without_end_costs_as_much_as_the_limit(piece: bytes) -> None:
    one = buffer(size=10_000, lines=50)
    for _ in range(20_000):
        one.add_output("output", piece)
    found = texts(one)
    assert sum(len(text) for _, text in found) <= 10_000 + 100
    assert found[-1][0] == max(1, piece.count(b"\n") * 20_000), "lines that were left out are counted"


def test_output_that_is_no_text_is_made_text() -> None:
    one = buffer()
    one.add_output("stderr", b"\xff\x00\x1b[31m\xed\xa0\x80\n")
    ((_, text),) = texts(one)
    text.encode()
    assert "\x1b[31m" in text, "escaped for display, not here"


def test_lines_of_two_outputs_go_by_their_time() -> None:
    one = buffer()
    one.add_output("stdout", b"first\n")
    one.take_output(whole=False)
    one.add_output("stderr", b"second\n")
    one.take_output(whole=False)
    one.add_output("stdout", b"third\n")
    assert [text for _, text in texts(one)] == ["first", "second", "third"]


def test_records_stay_between_the_lines_that_their_process_has_written() -> None:
    one = buffer()
    record = b'{"message": "made earlier", "level": "info", "timestamp": "2020-01-01T00:00:00Z"}\n'
    one.add_output("output", b"before\n" + record + b"after\n")
    assert [text for _, text in texts(one)] == ["before", "made earlier", "after"]


def test_lines_are_grouped_by_size() -> None:
    lines = [NumberedLine(number, line(""), size) for number, size in enumerate((40, 40, 200, 10), 1)]
    assert [[one.number for one in group] for group in group_by_size(lines, 100)] == [[1, 2], [3], [4]]
