"""`warrener find`: one search over jobs, parked messages, schedules, queues and job types."""

from collections.abc import Callable
from inspect import Parameter
from typing import Annotated

import typer

from warrener.context import resolve_endpoints
from warrener.errors import ExitCode, NothingFound
from warrener.options import Json, Store
from warrener.render.screen import err, out, print_json, table


def find_command() -> Callable[..., None]:
    """Make `warrener find`."""
    from warrener.command.verbs import finished, options_of, validated, with_backend
    from warrener.operations.search import SearchQuery, search

    def find(q: str, *, limit: int, store: str | None, as_json: bool) -> None:
        query: SearchQuery = validated(SearchQuery, {"q": q, "limit": limit})
        page = with_backend(resolve_endpoints(store=store), lambda backend: search(backend, query))
        if as_json:
            print_json(page)
            if not page.hits:
                raise typer.Exit(ExitCode.FAILED)
        elif page.hits:
            made = table("run", "where", "about")
            for hit in page.hits:
                made.add_row(hit.command, hit.where, hit.about)
            out().print(made)
            if page.note:
                err().print(f"[warning]![/] {page.note}")
        else:
            sentence, _, do = page.note.rpartition("; ")
            raise NothingFound(sentence, do=do)

    argument = typer.Argument(metavar="TEXT", help=SearchQuery.model_fields["q"].description)
    options = {**options_of(SearchQuery, without="q"), "store": (Store, None), "as_json": (Json, False)}
    return finished(find, search, {"q": (Annotated[str, argument], Parameter.empty)}, options)
