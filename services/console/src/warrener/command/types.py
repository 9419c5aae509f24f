"""`warrener types`."""

from warrener.command.listing import show_list
from warrener.options import Json, Store
from warrener.render.tables import types_table
from warrener_store import StateStore
from warrener_store.agents.rows import JobTypeRow

EXAMPLES = """
warrener types
warrener types --json | jq '.[].arguments_schema'
"""


def types(*, store: Store = None, as_json: Json = False) -> None:
    """List the job types that agents have announced.

    With their policies (and schemas, in JSON).
    """
    show_list(store, _types, types_table, as_json=as_json, none="No agent has announced a job type yet.")


async def _types(store: StateStore) -> list[JobTypeRow]:
    return [row for _, row in sorted((await store.job_types()).items())]
