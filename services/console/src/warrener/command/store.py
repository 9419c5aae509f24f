"""The state store: `warrener migrate` brings its tables up to date."""

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from warrener.context import resolve_endpoints, run
from warrener.errors import CommandError
from warrener.options import Json, Store
from warrener.render.screen import err, print_json
from warrener.up.folder import DEFAULT_FOLDER, DataFolder
from warrener_runtime.secrets import mask

if TYPE_CHECKING:
    from warrener_store.databases.address import SqliteAddress


def migrate(*, store: Store = None, as_json: Json = False) -> None:
    """Create the tables of the state store, or bring them to this version; safe to repeat.

    $ warrener migrate
    $ warrener migrate --store postgresql://warrener@db/warrener
    """
    from warrener_store import migrate as migrate_store

    url = resolve_endpoints(store=store).store_url
    _ensure_folder(url)
    run(migrate_store(url))
    if as_json:
        print_json({"migrated": mask(url)})
    else:
        err().print(f"[good]✓[/] {mask(url)} is up to date")


def _ensure_folder(url: str) -> None:
    """Make the folder of `warrener up` for an SQLite file. Raises CommandError for any other folder."""
    from warrener_store.databases.address import SqliteAddress, parse_address

    where = parse_address(url)
    if not isinstance(where, SqliteAddress):
        return
    if where.path.parent.is_dir():
        _check_writable(where)
    elif where.path.parent.absolute() == Path(DEFAULT_FOLDER).absolute():
        DataFolder().make()
    else:
        raise CommandError(
            f"expected a folder {where.path.parent} for {where}, got none",
            do="make it, or correct --store or WARRENER_STORE_URL",
        )


def _check_writable(where: "SqliteAddress") -> None:
    """SQLite writes files beside its own; without the right it would wait for a lock without end."""
    folder = where.path.parent
    try:
        with tempfile.TemporaryFile(dir=folder):  # the mode of the folder ignores a read-only file system
            return
    except OSError as error:
        raise CommandError(
            f"expected to write in folder {folder} for {where}, got: {error}",
            do="let this user write there, or correct --store or WARRENER_STORE_URL",
        ) from None
