"""Logs: a sentence, an action, the context, and never a secret."""

import io
import json
import logging
import warnings
from typing import Any

import pytest

from warrener_runtime import logs
from warrener_runtime.telemetry import Telemetry, TraceContext

TRACE_ID = "0af7651916cd43dd8448eb211c80319c"
INCOMING = TraceContext(f"00-{TRACE_ID}-b7ad6b7169203331-01")


def refuse() -> None:
    raise ConnectionError("amqp://me:secret@host/ refuses")


def records(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_record_is_a_sentence_an_action_and_its_context() -> None:
    log = logs.get_logger("letterbox")  # before configure, as modules do
    stream = io.StringIO()
    logs.configure("scheduler", stream=stream)
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
    logs.configure("s", level="warning", stream=stream)
    log = logs.get_logger("p")
    log.info("Quiet.", action="a")
    log.warning("Loud.", action="a")
    assert [record["message"] for record in records(stream)] == ["Loud."]


def test_the_trace_around_us_is_named() -> None:
    stream = io.StringIO()
    logs.configure("s", stream=stream)
    log = logs.get_logger("p")
    with Telemetry.disabled().span("attempt", parent=INCOMING):
        log.info("Inside.", action="a")
    log.info("Outside.", action="a")
    inside, outside = records(stream)
    assert (inside["trace_id"], inside["span_id"]) == (TRACE_ID, "b7ad6b7169203331")
    assert "trace_id" not in outside


def test_passwords_are_hidden_also_in_tracebacks() -> None:
    stream = io.StringIO()
    logs.configure("s", stream=stream)
    try:
        refuse()
    except ConnectionError:
        logs.get_logger("p").exception("It failed.", action="a", url="amqp://me:secret@host/")
    assert "secret" not in stream.getvalue()
    (record,) = records(stream)
    assert record["url"] == "amqp://me:***@host/"
    assert "ConnectionError: amqp://me:***@host/ refuses" in record["exception"]


def test_other_libraries_go_the_same_way_from_warning() -> None:
    stream = io.StringIO()
    logs.configure("s", stream=stream)
    logging.getLogger("aio_pika.connection").info("chatter")
    logging.getLogger("aio_pika.connection").warning("lost %s", "amqp://me:secret@host/")
    (record,) = records(stream)
    assert record["message"] == "lost amqp://me:***@host/"
    assert (record["action"], record["part"]) == ("library.aio_pika", "aio_pika.connection")
    assert (record["level"], record["service"]) == ("warning", "s")


def test_our_own_packages_may_use_the_standard_library_and_its_extra() -> None:
    stream = io.StringIO()
    logs.configure("s", stream=stream)
    logging.getLogger("warrener_runtime.bus").info(
        "Connected.", extra={"action": "bus.connected", "host": "h"}
    )
    (record,) = records(stream)
    assert (record["message"], record["action"], record["host"]) == ("Connected.", "bus.connected", "h")


def test_warnings_are_records_too() -> None:
    stream = io.StringIO()
    logs.configure("s", stream=stream)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("old ways", DeprecationWarning, stacklevel=1)
    (record,) = records(stream)
    assert "old ways" in record["message"]


def test_for_people_there_is_a_plainer_form() -> None:
    stream = io.StringIO()
    logs.configure("s", format="console", stream=stream)
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


def test_what_cannot_be_written_as_json_is_written_as_text() -> None:
    stream = io.StringIO()
    logs.configure("s", stream=stream)
    logs.get_logger("p").info("Odd.", action="a", thing=INCOMING, path={1, 2})
    assert len(records(stream)) == 1


def test_a_line_that_nobody_can_take_is_lost_and_nothing_else() -> None:
    closed = io.StringIO()
    logs.configure("s", stream=closed)
    closed.close()
    logs.get_logger("p").error("It failed.", action="a")
