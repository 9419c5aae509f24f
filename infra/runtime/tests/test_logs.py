"""Logs: a sentence, an action, the context, and never a secret."""

import io
import json
import logging
import warnings
from typing import Any, Literal

import pytest

from warrener_runtime import log_output, logs
from warrener_runtime.telemetry import TraceContext

TRACE_ID = "0af7651916cd43dd8448eb211c80319c"
INCOMING = TraceContext(f"00-{TRACE_ID}-b7ad6b7169203331-01")


def refuse() -> None:
    raise ConnectionError("amqp://me:secret@host/ refuses")


@pytest.fixture
def stream() -> io.StringIO:
    stream = io.StringIO()
    log_output.configure("s", stream=stream)
    return stream


def records(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_record_is_a_sentence_an_action_and_its_context() -> None:
    log = logs.get_logger("letterbox")  # before configure, as modules do
    stream = io.StringIO()
    log_output.configure("scheduler", stream=stream)
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


def test_the_level_is_obeyed() -> None:
    stream = io.StringIO()
    log_output.configure("s", level="warning", stream=stream)
    log = logs.get_logger("p")
    log.info("Quiet.", action="a")
    log.warning("Loud.", action="a")
    assert [record["message"] for record in records(stream)] == ["Loud."]


def test_other_libraries_go_the_same_way_from_warning(stream: io.StringIO) -> None:
    logging.getLogger("aio_pika.connection").info("chatter")
    logging.getLogger("aio_pika.connection").warning("lost %s", "amqp://me:secret@host/")
    (record,) = records(stream)
    assert record["message"] == "lost amqp://me:***@host/"
    assert (record["action"], record["part"]) == ("library.aio_pika", "aio_pika.connection")
    assert (record["level"], record["service"]) == ("warning", "s")


def test_our_own_packages_may_use_the_standard_library_and_its_extra(stream: io.StringIO) -> None:
    logging.getLogger("warrener_runtime.bus").info(
        "Connected.", extra={"action": "bus.connected", "host": "h"}
    )
    (record,) = records(stream)
    assert (record["message"], record["action"], record["host"]) == ("Connected.", "bus.connected", "h")


def test_warnings_are_records_too(stream: io.StringIO) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("old ways", DeprecationWarning, stacklevel=1)
    (record,) = records(stream)
    assert "old ways" in record["message"]


def test_for_people_there_is_a_plainer_form() -> None:
    stream = io.StringIO()
    log_output.configure("s", format="console", stream=stream)
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
    stream = io.StringIO()
    log_output.configure("s", format=format_, stream=stream)
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
