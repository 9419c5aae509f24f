"""`warrener migrate`."""

from warrener.options import Json, Store
from warrener.places import find_places
from warrener.running import run
from warrener.shown.screen import err, print_json
from warrener_runtime.settings import mask
from warrener_store import migrate as migrate_store

EXAMPLES = """
warrener migrate
warrener migrate --store postgresql://warrener@db/warrener
"""


def migrate(*, store: Store = None, as_json: Json = False) -> None:
    """Bring the tables of the state store to this version.

    Makes them where there are none; safe to repeat.
    """
    url = find_places(store=store).store_url
    run(migrate_store(url))
    if as_json:
        print_json({"migrated": mask(url)})
    else:
        err().print(f"[good]✓[/] {mask(url)} is up to date")
