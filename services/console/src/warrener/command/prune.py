"""`warrener prune`."""

from typing import Annotated

import typer

from warrener.command.exec_service import exec_service
from warrener.options import Json, Store

EXAMPLES = """
warrener prune --dry-run
warrener prune --yes --json
"""


def prune(
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count what would go, delete nothing.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Delete what is older than its retention, at once.

    Schedulers do this by themselves every few minutes; the settings are theirs.
    """
    flags = {"--dry-run": dry_run, "--yes": yes, "--json": as_json}
    exec_service(
        "scheduler",
        [*(flag for flag, given in flags.items() if given), *(["--store", store] if store else [])],
        submodule=".retention",
    )
