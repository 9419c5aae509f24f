"""Log scopes: lines of any library, at the level of scopes, with the facts of their scope."""

import io
import logging
from collections.abc import Iterator, Mapping

import pytest
import structlog
from infra.runtime.tests.test_logs import INCOMING, TRACE_ID, records, refuse
from opentelemetry.sdk.trace import TracerProvider

from warrener_runtime import log_output, log_scopes, logs
from warrener_runtime.log_scopes import LoggedLine, current_scope, line_of_event
from warrener_runtime.telemetry import Telemetry


class Scope:
    def __init__(self) -> None:
        self.fields: Mapping[str, object] = {"job_id": "j1", "attempt": 2}
        self.lines: list[LoggedLine] = []

    def capture(self, line: LoggedLine) -> None:
        self.lines.append(line)


@pytest.fixture
def scope() -> Iterator[Scope]:
    one = Scope()
    token = current_scope.set(one)
    yield one
    current_scope.reset(token)


def configured(level: str = "info", scope_level: str = "info") -> io.StringIO:
    stream = io.StringIO()
    log_output.configure("agent", level=level, scope_level=scope_level, stream=stream)
    log_scopes.install()
    return stream


def test_lines_of_other_packages_are_written_and_captured_with_the_facts_of_their_scope(scope: Scope) -> None:
    stream = configured()
    logging.getLogger("shop.jobs").info("%d rows", 842, extra={"path": "a b.csv"})
    logging.getLogger("shop.jobs").debug("too quiet")
    structlog.get_logger().info("one more row", row=512)
    assert [record["message"] for record in records(stream)] == ["842 rows", "one more row"]
    assert all(record["job_id"] == "j1" and record["attempt"] == 2 for record in records(stream))
    assert [(line.level, line.logger, line.text) for line in scope.lines] == [
        ("info", "shop.jobs", "842 rows path='a b.csv'"),
        ("info", "", "one more row row=512"),
    ]


def test_outside_of_scopes_other_packages_stay_quiet() -> None:
    stream = configured(scope_level="debug")
    logging.getLogger("shop.jobs").info("chatter")
    logs.get_logger("part").debug("Too quiet.", action="a")
    logging.getLogger("shop.jobs").warning("trouble")
    assert [record["message"] for record in records(stream)] == ["trouble"]


def test_scopes_have_a_level_of_their_own(scope: Scope) -> None:
    stream = configured(level="warning", scope_level="debug")
    logging.getLogger("shop.jobs").debug("detail")
    structlog.get_logger().debug("more detail")
    assert [line.text for line in scope.lines] == ["detail", "more detail"]
    assert len(records(stream)) == 2


def test_a_logger_that_is_set_to_a_lower_level_is_obeyed(scope: Scope) -> None:
    configured()
    log = logging.getLogger("shop.detailed")
    log.setLevel(logging.DEBUG)
    log.debug("wanted")
    assert [line.text for line in scope.lines] == ["wanted"]


def test_an_error_brings_its_traceback_without_passwords(scope: Scope) -> None:
    configured()
    for log in (logging.getLogger("shop.jobs"), structlog.get_logger()):
        try:
            refuse()
        except ConnectionError:
            log.exception("it failed")
    for line in scope.lines:
        assert line.level == "error"
        assert line.text.startswith("it failed\nTraceback")
        assert line.text.endswith("ConnectionError: amqp://me:***@host/ refuses")
    assert len(scope.lines) == 2


def test_a_line_names_the_innermost_span(scope: Scope) -> None:
    stream = configured()
    log = logging.getLogger("shop.jobs")
    with Telemetry.disabled().span("attempt", parent=INCOMING):
        log.info("in the attempt")
        with TracerProvider().get_tracer("shop").start_as_current_span("query") as span:
            log.info("in a span of the handler")
    inner = f"{span.get_span_context().span_id:016x}"
    assert [(line.trace_id, line.span_id) for line in scope.lines] == [
        (TRACE_ID, "b7ad6b7169203331"),
        (TRACE_ID, inner),
    ]
    assert [record["span_id"] for record in records(stream)] == ["b7ad6b7169203331", inner]


@pytest.mark.parametrize("broken", ["%d", "%s and %s"])
def test_a_record_that_cannot_be_formatted_is_captured_all_the_same(scope: Scope, broken: str) -> None:
    log_scopes.install()
    record = logging.LogRecord("shop", logging.ERROR, "f.py", 1, broken, ("x",), None)
    assert "could not be formatted" in log_scopes.line_of_record(record).text
    assert scope.lines == []


def test_a_rendered_record_is_read_again(scope: Scope) -> None:
    stream = configured()
    logging.getLogger("shop.jobs").info("842 rows", extra={"path": "a.csv"})
    (record,) = records(stream)
    assert log_scopes.is_rendered_record(record)
    (captured,) = scope.lines
    read = line_of_event(record)
    assert (read.level, read.logger, read.text) == (captured.level, captured.logger, captured.text)
    assert read.at.tzinfo is not None
