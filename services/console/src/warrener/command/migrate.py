"""`warrener migrate`."""

import tempfile
from pathlib import Path

from warrener.command_runner import run
from warrener.endpoints import resolve_endpoints
from warrener.errors import CommandError
from warrener.options import Json, Store
from warrener.render.screen import err, print_json
from warrener.up.folder import DEFAULT_FOLDER, DataFolder
from warrener_runtime.settings import mask
from warrener_store import migrate as migrate_store
from warrener_store.databases.address import SqliteAddress, parse_address

EXAMPLES = """
warrener migrate
warrener migrate --store postgresql://warrener@db/warrener
"""


def migrate(*, store: Store = None, as_json: Json = False) -> None:
    """Bring the tables of the state store to this version.

    Makes them where there are none; safe to repeat.
    """
    url = resolve_endpoints(store=store).store_url
    _folder_of(url)
    run(migrate_store(url))
    if as_json:
        print_json({"migrated": mask(url)})
    else:
        err().print(f"[good]✓[/] {mask(url)} is up to date")


def _folder_of(url: str) -> None:
    """A file needs a folder: that of `warrener up` is made as `up` would make it; others are the user's."""
    where = parse_address(url)
    if not isinstance(where, SqliteAddress):
        return
    if where.path.parent.is_dir():
        _check_writable(where)
        return
    if where.path.parent.absolute() == Path(DEFAULT_FOLDER).absolute():
        DataFolder().make()
        return
    raise CommandError(
        f"expected a folder {where.path.parent} for {where}, got none",
        do="make it, or correct --store or WARRENER_STORE_URL",
    )


def _check_writable(where: SqliteAddress) -> None:
    """SQLite makes files beside its own, and would wait for a lock that it can never have."""
    folder = where.path.parent
    try:
        with tempfile.TemporaryFile(dir=folder):  # the mode of the folder says nothing of its file system
            return
    except OSError as error:
        raise CommandError(
            f"expected to write in folder {folder} for {where}, got: {error}",
            do="let this user write there, or correct --store or WARRENER_STORE_URL",
        ) from None
