"""`warrener dead`."""

from warrener.command.listing import show_list
from warrener.options import Json, Limit, Store
from warrener.shown.screen import is_wide
from warrener.shown.tables import dead_table

EXAMPLES = """
warrener dead
warrener dead -n 5 --json
"""


def dead(*, limit: Limit = 50, store: Store = None, as_json: Json = False) -> None:
    """List the dead letters, with their last errors."""
    show_list(
        store,
        lambda open_store: open_store.dead_letters(limit),
        lambda rows, now: dead_table(rows, now, wide=is_wide()),
        as_json=as_json,
        none="No job is dead.",
    )
