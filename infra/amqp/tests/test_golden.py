"""The bytes themselves, written down once from the specification: what is sent must not change unseen."""

from infra.amqp.tests.broker_side import opened
from pamqp import commands

from warrener_amqp import Confirmed, Connection, Credentials, Delivered, Properties


def test_a_publish() -> None:
    core = opened()
    core.publish(
        1,
        "ex",
        "key",
        b"body",
        content_type="a/b",
        headers={"h": "v"},
        message_id="id",
        type="t",
        persistent=True,
        mandatory=True,
    )
    assert b"".join(core.data_to_send()) == bytes.fromhex(
        "01 0001 0000000e 003c 0028 0000 02 6578 03 6b6579 01 ce"  # Basic.Publish, mandatory
        "02 0001 00000024 003c 0000 0000000000000004 b0a0"  # content header; type, headers, mode, id, kind
        "03 612f62"
        "00000008 01 68 53 00000001 76"
        "02"
        "02 6964"
        "01 74 ce"
        "03 0001 00000004 626f6479 ce"  # body
    )


def test_acknowledgements() -> None:
    core = opened()
    core.ack(1, 258, multiple=True)
    core.reject(1, 258, requeue=False)
    assert b"".join(core.data_to_send()) == bytes.fromhex(
        "01 0001 0000000d 003c 0050 0000000000000102 01 ce01 0001 0000000d 003c 005a 0000000000000102 00 ce"
    )


def test_a_delivery_and_a_confirm() -> None:
    events = opened().receive(
        bytes.fromhex(
            "01 0001 00000016 003c 003c 01 63 0000000000000009 01 02 6578 03 6b6579 ce"
            "02 0001 00000011 003c 0000 0000000000000002 9000 01 61 02 ce"
            "03 0001 00000002 6869 ce"
            "01 0001 0000000d 003c 0078 0000000000000007 01 ce"
        )
    )
    properties = Properties(content_type="a", persistent=True)
    assert events == [
        Delivered(1, "c", 9, True, "ex", "key", properties, b"hi"),
        Confirmed(1, 7, multiple=True, positive=False),
    ]


def test_greeting_calls_and_goodbye() -> None:
    assert Connection(Credentials("a", "b")).data_to_send() == [bytes.fromhex("414d5150 00 00 09 01")]
    core = opened()
    core.call(1, commands.Basic.Qos(0, 500, False))
    core.close_channel(1)
    core.close()
    assert b"".join(core.data_to_send()) == bytes.fromhex(
        "01 0001 0000000b 003c 000a 00000000 01f4 00 ce"
        "01 0001 0000000f 0014 0028 00c8 04 646f6e65 0000 0000 ce"
        "01 0000 0000000f 000a 0032 00c8 04 646f6e65 0000 0000 ce"
    )
