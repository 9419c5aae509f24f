"""`warrener parked`."""

from base64 import b64encode
from typing import Any

from warrener.command.listing import show_list
from warrener.options import Json, Limit, Store
from warrener.shown.tables import parked_table
from warrener_store.parked import ParkedMessage

EXAMPLES = """
warrener parked
warrener parked --json | jq -r '.[0].body'
"""


def parked(*, limit: Limit = 50, store: Store = None, as_json: Json = False) -> None:
    """List the messages that nobody could understand.

    They are kept with the reason (and as they came, in JSON).
    """
    show_list(
        store,
        lambda open_store: open_store.parked(limit),
        parked_table,
        as_json=as_json,
        none="No message is parked.",
        for_machines=_for_machines,
    )


def _for_machines(message: ParkedMessage) -> dict[str, Any]:
    """`body` is text, or `body_base64` what is not."""
    fields = {name: getattr(message, name) for name in message.__slots__ if name != "body"}
    try:
        return fields | {"body": message.body.decode()}
    except UnicodeDecodeError:
        return fields | {"body_base64": b64encode(message.body).decode()}
