"""`warrener parked`."""

from warrener.command.listing import show_list
from warrener.options import Json, Limit, Store
from warrener.shown.tables import parked_table

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
    )
