"""`warrener explain`, `trace`, `find` and `top`: why something waits, where its time went, and the whole.

Their bodies import what they need: the start of every other command would wait for it.
"""

import asyncio
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from inspect import Parameter
from typing import TYPE_CHECKING, Annotated

import typer

from warrener.context import ResolvedEndpoints, connect_store, resolve_endpoints, run
from warrener.errors import ExitCode, NothingFound, store_error
from warrener.options import Broker, JobId, Json, Management, Store, argument, flag, option, parse_seconds
from warrener.render.screen import err, out, print_json, print_json_line, table
from warrener.selection import find_job

if TYPE_CHECKING:
    from rich.live import Live

    from warrener.explanations.explanation import Explanation
    from warrener.operations.noun import Backend

_WATCH_INTERVAL = 1.0  # seconds
_MIN_INTERVAL = 0.1  # seconds


def explain(
    subject: str = argument(
        "Job (id, its end, or the id of its request), schedule, job type, queue or agent.", "ID|NAME"
    ),
    *,
    broker: Broker = None,
    management: Management = None,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Explain why something does not go on: the one thing that blocks it, since when, and what helps.

    Walks from the request to the end of the job, and shows each check on the way. `queue:NAME`,
    `schedule:NAME`, `type:NAME`, `agent:NAME` and `job:ID` say which kind is meant. Exit code 1 for an id
    that was never seen, 3 if the store does not answer.

    $ warrener explain 456789ab
    $ warrener explain order-17
    $ warrener explain queue:loading
    $ warrener explain flights.hourly --json | jq -r .cause
    """
    endpoints = resolve_endpoints(broker, store, management)
    found, now = run(_explain(endpoints, subject))
    if as_json:
        print_json(found)
    else:
        from warrener.render.explanation import explanation_page

        out().print(explanation_page(found, now))
    from warrener.explanations.causes import Cause

    codes = {Cause.STORE_UNREACHABLE: ExitCode.UNREACHABLE, Cause.NEVER_SEEN: ExitCode.FAILED}
    if found.cause in codes:
        raise typer.Exit(codes[found.cause])


async def _explain(endpoints: ResolvedEndpoints, text: str) -> "tuple[Explanation, datetime]":
    from warrener.explanations import explain as explain_facts
    from warrener.gathering import gather
    from warrener.operations.masking import Masker, mask_explanation
    from warrener.operations.noun import Backend
    from warrener_store import StoreError

    try:
        async with connect_store(endpoints) as open_store:
            facts = await gather(open_store, endpoints, text)
            masker = await Backend(open_store, endpoints, Masker()).learn()
    except StoreError as error:
        from warrener.explanations.unseen import explain_unreachable_store

        reported, now = store_error(error), datetime.now(UTC)
        return explain_unreachable_store(text, reported.sentence, reported.do, now), now
    return mask_explanation(masker.every, explain_facts(facts)), facts.system.now


def trace(
    job_id: JobId,
    *,
    all_attempts: bool = flag("--all-attempts", "Rows for every attempt, however many there are."),
    watch: bool = flag(
        "--watch -w", "Refresh every second until the job ends; with --json, one line per change."
    ),
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Show where the time of one job went: its waits with their causes, its attempts, its child jobs.

    Needs no tracing: everything comes from the store. A wait longer than five times the work is folded.

    $ warrener trace 01936f2e-8a3b-7c4d-9e5f-0123456789ab
    $ warrener trace 456789ab --watch
    $ warrener trace 456789ab --json | jq '.rows[].bars[] | select(.look == "hatched") | {cause, seconds}'
    """
    from warrener.command.verbs import with_backend
    from warrener.operations.timelines import read_timeline
    from warrener.render.trace import trace_data, trace_page
    from warrener.render.waterfall import lay_out

    async def body(backend: "Backend") -> None:
        row, version = await find_job(backend.store, job_id), 0
        screen: AbstractContextManager[Live | None] = nullcontext()
        if watch and not as_json:
            from rich import live as rich_live

            screen = rich_live.Live(console=out(), auto_refresh=False, screen=False)
        with screen as live:
            while True:
                if live is not None or row.version != version:
                    version = row.version
                    facts = await read_timeline(backend, row, None)
                    waterfall = lay_out(facts, all_attempts=all_attempts)
                    if as_json:
                        (print_json_line if watch else print_json)(trace_data(facts, waterfall))
                    elif live is None:
                        out().print(trace_page(facts, waterfall, out().width))
                    else:
                        live.update(trace_page(facts, waterfall, out().width), refresh=True)
                if row.state.terminal or not watch:
                    return
                await asyncio.sleep(_WATCH_INTERVAL)
                row = (await backend.store.jobs_by_id([row.job_id]))[row.job_id]

    with_backend(resolve_endpoints(store=store), body)


def find_command() -> Callable[..., None]:
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
                from rich.text import Text

                err().print(Text.assemble(("!", "warning"), f" {page.note}"))
        else:
            sentence, _, do = page.note.rpartition("; ")
            raise NothingFound(sentence, do=do)

    text = typer.Argument(metavar="TEXT", help=SearchQuery.model_fields["q"].description)
    options = {**options_of(SearchQuery, without="q"), "store": (Store, None), "as_json": (Json, False)}
    return finished(find, search, {"q": (Annotated[str, text], Parameter.empty)}, options)


def top(
    *,
    interval: float = option(
        "Time between two readings (default 2s).",
        "SPAN",
        names="--interval -i",
        default=2.0,
        parser=parse_seconds,
        show_default=False,
    ),
    once: bool = flag("--once", "Print one picture after two readings; --interval 0: after one."),
    broker: Broker = None,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Show the whole system: services, queues, job types, agents, breakers, incidents, schedules, failures.

    At a terminal the picture is live. Keys: q quits, ← → or 1 to 8 choose a section, p pauses. Elsewhere,
    with --once or with --json it is printed once, with exit code 3 if store or broker does not answer.

    $ warrener top
    $ warrener top --interval 5s
    $ warrener top --json --interval 1s | jq '.totals'
    """
    from warrener.top.live import LiveView, System, read_once

    system = System(resolve_endpoints(broker, store))
    screen = out()
    if screen.is_terminal and not screen.is_dumb_terminal and sys.stdin.isatty() and not (once or as_json):
        run(LiveView(system, screen, max(interval, _MIN_INTERVAL)).run())
        return
    view = run(read_once(system, interval))
    if as_json:
        print_json(view)
    else:
        from warrener.top.picture import plain_picture

        screen.print(plain_picture(view, screen.width))
    if not system.is_complete:
        raise typer.Exit(ExitCode.UNREACHABLE)
