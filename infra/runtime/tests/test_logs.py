"""Logs: a sentence, an action, the context and never a secret; and log scopes, whose lines are captured."""

import io
import json
import logging
import warnings
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import pytest
import structlog
from opentelemetry.sdk.trace import TracerProvider

from warrener_runtime import log_output, log_scopes, logs
from warrener_runtime.log_scopes import LoggedLine, current_scope, line_of_event
from warrener_runtime.secrets import cut, mask, shown
from warrener_runtime.telemetry import Telemetry, TraceContext

TRACE_ID = "0af7651916cd43dd8448eb211c80319c"
INCOMING = TraceContext(f"00-{TRACE_ID}-b7ad6b7169203331-01")


def refuse() -> None:
    raise ConnectionError("amqp://me:secret@host/ refuses")


def configured(service: str = "s", **options: Any) -> io.StringIO:
    stream = io.StringIO()
    log_output.configure(service, stream=stream, **options)
    return stream


@pytest.fixture
def stream() -> io.StringIO:
    return configured()


def records(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_record_is_a_sentence_an_action_and_its_context() -> None:
    log = logs.get_logger("letterbox")  # before configure, as modules do
    stream = configured("scheduler")
    log.bind(job_id="j1").info("A message arrived.", action="message.arrived", attempt=2)
    (record,) = records(stream)
    assert record.pop("timestamp").endswith("Z")
    assert record == {
        "message": "A message arrived.",
        "action": "message.arrived",
        "level": "info",
        "service": "scheduler",
        "part": "letterbox",
        "job_id": "j1",
        "attempt": 2,
    }


def test_other_libraries_go_the_same_way_from_warning(stream: io.StringIO) -> None:
    logging.getLogger("aio_pika.connection").info("chatter")
    logging.getLogger("aio_pika.connection").warning("lost %s", "amqp://me:secret@host/")
    (record,) = records(stream)
    assert record["message"] == "lost amqp://me:***@host/"
    assert (record["action"], record["part"]) == ("library.aio_pika", "aio_pika.connection")
    assert (record["level"], record["service"]) == ("warning", "s")


def test_our_own_packages_may_use_the_standard_library_and_its_extra(stream: io.StringIO) -> None:
    facts = {"action": "bus.connected", "host": "h"}
    logging.getLogger("warrener_runtime.bus").info("Connected.", extra=facts)
    (record,) = records(stream)
    assert (record["message"], record["action"], record["host"]) == ("Connected.", "bus.connected", "h")


def test_warnings_are_records_too(stream: io.StringIO) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("old ways", DeprecationWarning, stacklevel=1)
    (record,) = records(stream)
    assert "old ways" in record["message"]


def test_for_people_there_is_a_plainer_form() -> None:
    stream = configured(format="console")
    logs.get_logger("p").info("A message arrived.", action="message.arrived", url="amqp://me:secret@host/")
    line = stream.getvalue()
    assert "A message arrived." in line
    assert "action=message.arrived" in line
    assert "secret" not in line


def test_a_program_that_configures_nothing_hears_of_trouble_alone_and_not_on_its_output(
    capsys: pytest.CaptureFixture[str],
) -> None:
    log = logs.get_logger("p")
    log.info("All is well.", action="a")
    log.warning("Something is wrong.", action="b")
    out, err = capsys.readouterr()
    assert out == ""
    assert "All is well." not in err
    assert "Something is wrong." in err


def test_what_cannot_be_written_as_json_is_written_as_text(stream: io.StringIO) -> None:
    logs.get_logger("p").info("Odd.", action="a", thing=INCOMING, path={1, 2})
    assert len(records(stream)) == 1


def test_a_line_that_nobody_can_take_is_lost_and_nothing_else() -> None:
    closed = io.StringIO()
    log_output.configure("s", stream=closed)
    closed.close()
    logs.get_logger("p").error("It failed.", action="a")


@pytest.mark.parametrize("through_logging", [True, False])
def test_a_program_that_configures_at_the_first_record_has_it_rendered(
    capsys: pytest.CaptureFixture[str], *, through_logging: bool
) -> None:
    log = logs.get_logger("p")
    logs.configure_at_first_record("s", level="error", format="console")
    assert [type(handler).__name__ for handler in logging.getLogger().handlers] == ["_FirstRecord"]
    if through_logging:
        logging.getLogger("library").error("It failed at amqp://me:secret@host/")
    else:
        log.warning("Below the level.", action="b")
        log.error("It failed.", action="a", url="amqp://me:secret@host/")
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert "It failed" in lines[0]
    assert "secret" not in lines[0]
    assert [type(handler).__name__ for handler in logging.getLogger().handlers] == ["StreamHandler"]


@pytest.mark.parametrize("format_", ["json", "console"])
def test_a_traceback_shows_neither_local_variables_nor_passwords(format_: Literal["json", "console"]) -> None:
    stream = configured(format=format_)
    local = {"broker": "amqp://me:secret@host/"}
    try:
        refuse()
    except ConnectionError:
        logs.get_logger("p").exception("It failed.", action="a", given=local, argv=["--password", "secret"])
        logging.getLogger("library").exception("It failed again.")
    written = stream.getvalue()
    assert written.count("ConnectionError: amqp://me:***@host/ refuses") == 2
    assert "secret" not in written


def test_a_long_text_of_a_handler_is_cut_in_a_log_line(stream: io.StringIO) -> None:
    logs.get_logger("p").info("a" * 1_000_000, action="a", facts={"rows": ["b" * 1_000_000]})
    assert len(stream.getvalue()) < 50_000


class Scope:
    def __init__(self) -> None:
        self.fields: Mapping[str, object] = {"job_id": "j1", "attempt": 2}
        self.lines: list[LoggedLine] = []

    def hide(self, text: str) -> str:
        return text.replace("s3cret", "***")

    def capture(self, line: LoggedLine) -> None:
        self.lines.append(line)


@pytest.fixture
def scope() -> Iterator[Scope]:
    one = Scope()
    token = current_scope.set(one)
    yield one
    current_scope.reset(token)


def in_scopes(level: str = "info", scope_level: str = "info") -> io.StringIO:
    stream = configured("agent", level=level, scope_level=scope_level)
    log_scopes.install()
    return stream


def test_lines_of_other_packages_are_written_and_captured_with_the_facts_of_their_scope(scope: Scope) -> None:
    stream = in_scopes()
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
    stream = in_scopes(scope_level="debug")
    logging.getLogger("shop.jobs").info("chatter")
    logs.get_logger("part").debug("Too quiet.", action="a")
    logging.getLogger("shop.jobs").warning("trouble")
    assert [record["message"] for record in records(stream)] == ["trouble"]


def test_scopes_have_a_level_of_their_own(scope: Scope) -> None:
    stream = in_scopes(level="warning", scope_level="debug")
    logging.getLogger("shop.jobs").debug("detail")
    structlog.get_logger().debug("more detail")
    assert [line.text for line in scope.lines] == ["detail", "more detail"]
    assert len(records(stream)) == 2


def test_a_logger_that_is_set_to_a_lower_level_is_obeyed(scope: Scope) -> None:
    in_scopes()
    log = logging.getLogger("shop.detailed")
    log.setLevel(logging.DEBUG)
    log.debug("wanted")
    assert [line.text for line in scope.lines] == ["wanted"]


def test_an_error_brings_its_traceback_without_passwords(scope: Scope) -> None:
    in_scopes()
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
    stream = in_scopes()
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
    stream = in_scopes()
    logging.getLogger("shop.jobs").info("842 rows", extra={"path": "a.csv"})
    (record,) = records(stream)
    assert log_scopes.is_rendered_record(record)
    (captured,) = scope.lines
    read = line_of_event(record)
    assert (read.level, read.logger, read.text) == (captured.level, captured.logger, captured.text)
    assert read.at.tzinfo is not None


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("amqp://me:se@cret:x@h1:5672,h2:5672/jobs", "amqp://me:***@h1:5672,h2:5672/jobs"),
        (
            "postgresql://me:a%40b@h1,h2/db?sslpassword=c&a=b",
            "postgresql://me:***@h1,h2/db?sslpassword=***&a=b",
        ),
        ("postgresql:///db?user=me&password=c", "postgresql:///db?user=me&password=***"),
        ("amqp://me:a/b@host/", "amqp://me:***@host/"),
        ("cannot reach amqp://me:secret@h:5672/ now", "cannot reach amqp://me:***@h:5672/ now"),
        ("amqp://me:se@cret@host/", "amqp://me:***@host/"),
        ("amqp://:secret@host/", "amqp://:***@host/"),
        ("amqp://me@host:5672/", "amqp://me@host:5672/"),
        ("12:30 at me@home", "12:30 at me@home"),
        ("http://host:8080/me@home", "http://host:8080/me@home"),
        ("PGPASSWORD=secret psql", "PGPASSWORD=*** psql"),
        ("tool --broker-password secret --fast", "tool --broker-password *** --fast"),
        ("['tool', '--password', 'a b']", "['tool', '--password', '***']"),
        ("password: secret", "password: ***"),
        ("host=h password='a b' user=me", "host=h password='***' user=me"),
        ('{"password": "a\\"b", "user": "me"}', '{"password": "***", "user": "me"}'),
        ('"{\\"password\\": \\"a\\", \\"n\\": 1}"', '"{\\"password\\": \\"***\\", \\"n\\": 1}"'),
        ("the password file is missing", "the password file is missing"),
        ('{"password": null}', '{"password": null}'),
    ],
)
def test_a_password_is_hidden_in_every_form(text: str, masked: str) -> None:
    assert mask(text) == masked


@pytest.mark.parametrize("text", ["x " * 50 + "amqp://me:hunter2@host/", 'password="hunter2 is long"'])
def test_a_cut_text_shows_no_half_of_a_password(text: str) -> None:
    for limit in range(1, len(text)):
        assert "hunt" not in mask(cut(text, limit))


def test_a_long_text_is_shown_with_its_length() -> None:
    assert shown("word " * 10_000) == "word " * 3_999 + "word… [50,000 characters in all]"
