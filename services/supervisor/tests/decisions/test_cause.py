"""What has one cause has one fingerprint; what has another cause has another one."""

import traceback
from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warrener_contracts.events import ErrorInfo, ErrorKind
from warrener_supervisor.decisions.cause import fingerprint, normalised

PYTHON = """\
Traceback (most recent call last):
  File "{folder}/flights/load.py", line {line}, in load
    rows = read(path)
           ^^^^^^^^^^
  File "{folder}/flights/read.py", line 7, in {function}
    raise ReadError(f"{{path}}: no such airport")
flights.read.ReadError: {message}
"""


def error(
    message: str = "boom",
    *,
    kind: ErrorKind = ErrorKind.ERROR,
    type: str = "flights.read.ReadError",  # noqa: A002 - as the model calls it
    stack: str | None = None,
) -> ErrorInfo:
    return ErrorInfo(kind=kind, type=type, message=message, stack=stack)


def timeout(message: str) -> ErrorInfo:
    return error(message, kind=ErrorKind.TIMEOUT, type="timeout")


def raised(
    *, folder: str = "/srv/app", line: int = 4, function: str = "read", message: str = "boom"
) -> ErrorInfo:
    stack = PYTHON.format(folder=folder, line=line, function=function, message=message)
    return error(message, stack=stack)


def caught(raising: Callable[[], object]) -> ErrorInfo:
    try:
        raising()
    except Exception as problem:  # noqa: BLE001 - whatever it is, it is what the test is about
        return error(str(problem), type=type(problem).__name__, stack=traceback.format_exc())
    raise AssertionError("expected it to raise")


FOLDERS = st.lists(st.from_regex(r"[A-Za-z0-9_.-]{1,12}", fullmatch=True), max_size=4).map(
    lambda parts: "/" + "/".join(parts)
)


@given(
    folder=FOLDERS,
    line=st.integers(1, 99_999),
    message=st.text(st.characters(exclude_categories=["Cs"])).filter(lambda text: "File" not in text),
)
def test_release_line_and_message_do_not_make_another_cause(folder: str, line: int, message: str) -> None:
    assert fingerprint("flights.load", raised()) == fingerprint(
        "flights.load", raised(folder=folder, line=line, message=message)
    )


@pytest.mark.parametrize(
    "other",
    [
        fingerprint("flights.other", raised()),
        fingerprint("flights.load", raised(function="parse")),
        fingerprint("flights.load", raised().model_copy(update={"type": "OSError"})),
        fingerprint("flights.load", raised().model_copy(update={"kind": ErrorKind.CRASH})),
        fingerprint("flights.load", error()),
        fingerprint("flights.load", None),
    ],
)
def test_job_type_function_class_and_kind_make_another_cause(other: str) -> None:
    assert other != fingerprint("flights.load", raised())


@given(
    job_id=st.uuids(),
    number=st.integers(0, 10**31 - 1),  # 32 digits read as an id without hyphens
    address=st.integers(0, 2**48),
    name=st.from_regex(r"[a-z]{1,10}", fullmatch=True),
)
def test_without_a_stack_the_words_of_the_message_are_the_cause(
    job_id: object, number: int, address: int, name: str
) -> None:
    message = (
        f"job {job_id} at {address:#x}: no /data/{name}/{number}.csv after {number} s, asked for '{name}'"
    )
    expected = "job <id> at <address>: no <path> after <n> s, asked for <text>"
    assert normalised(message) == expected
    assert fingerprint("t", error(message)) == fingerprint("t", error(expected))


@given(st.text(max_size=300))
def test_a_text_normalised_again_stays_as_it_is(text: str) -> None:
    assert normalised(normalised(text)) == normalised(text)


@given(st.text(max_size=60), st.text(max_size=3_000), st.none() | st.text(max_size=3_000))
def test_any_failure_has_a_fingerprint_of_twelve_digits(
    job_type: str, message: str, stack: str | None
) -> None:
    found = fingerprint(job_type, error(message, stack=stack))
    assert len(found) == 12
    assert int(found, 16) >= 0


def test_how_deep_a_recursion_went_does_not_count() -> None:
    def down(depth: int) -> None:
        if depth:
            across(depth - 1)
        raise ValueError(f"at {depth}")

    def across(depth: int) -> None:
        down(depth)

    def fall(depth: int) -> ErrorInfo:
        return caught(lambda: down(depth))

    assert fingerprint("t", fall(3)) == fingerprint("t", fall(60))


def test_the_error_behind_the_error_is_part_of_the_cause() -> None:
    def fetch(problem: Exception) -> None:
        raise problem

    def load(problem: Exception) -> None:
        try:
            fetch(problem)
        except Exception as behind:
            raise RuntimeError("could not load") from behind

    refused, missing = caught(partial(load, OSError())), caught(partial(load, KeyError()))
    assert fingerprint("t", refused) != fingerprint("t", missing)


def test_a_message_of_many_lines_is_not_part_of_the_cause() -> None:
    one = raised(message="row 1:\nOops: bad\nAnd: worse")
    assert fingerprint("t", one) == fingerprint("t", raised())


def test_what_a_group_of_errors_holds_is_part_of_the_cause() -> None:
    def load(inner: Exception) -> None:
        raise ExceptionGroup("many", [inner])

    one, same, other = (caught(partial(load, e)) for e in (ValueError("1"), ValueError("2"), KeyError("1")))
    assert fingerprint("t", one) == fingerprint("t", same)
    assert fingerprint("t", one) != fingerprint("t", other)


def test_the_text_of_a_fingerprint_stays() -> None:
    """Dead letters of earlier versions carry it: change it knowingly, and say so in the changelog."""
    assert fingerprint("flights.load", raised()) == "2c47cf0b42ac"
    assert fingerprint("flights.load", timeout("it took 12 s")) == "dc1a4469e186"


@pytest.mark.parametrize(
    "message",
    ["expected it to return, it ended with exit code {}", "expected load to exit with 0, it exited with {}"],
)
def test_each_exit_code_is_a_cause_of_its_own(message: str) -> None:
    def cause(code: int) -> str:
        return fingerprint("a.b", error(message.format(code), kind=ErrorKind.CRASH, type="ExitCode"))

    assert cause(3) == cause(3)
    assert len({cause(code) for code in (1, 2, 3, 137)}) == 4
