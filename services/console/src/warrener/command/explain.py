"""`warrener explain`: why a job, a request, a schedule, a queue, an agent or a job type does not go on."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from warrener.context import ResolvedEndpoints, connect_store, resolve_endpoints, run
from warrener.errors import ExitCode, store_error
from warrener.options import Broker, Json, Management, Store
from warrener.render.screen import out, print_json

if TYPE_CHECKING:
    from warrener.explanations.explanation import Explanation


def explain(
    subject: Annotated[
        str,
        typer.Argument(
            metavar="ID|NAME",
            help="Job (id, its end, or the id of its request), schedule, job type, queue or agent.",
            show_default=False,
        ),
    ],
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
    code = _exit_code(found)
    if code is not ExitCode.OK:
        raise typer.Exit(code)


async def _explain(endpoints: ResolvedEndpoints, text: str) -> "tuple[Explanation, datetime]":
    # Not imported with the command: the start of every other command would wait for it.
    from warrener.explanations import explain as explain_facts
    from warrener.gathering import gather
    from warrener_store import StoreError

    try:
        async with connect_store(endpoints) as open_store:
            facts = await gather(open_store, endpoints, text)
    except StoreError as error:
        from warrener.explanations.unseen import explain_unreachable_store

        reported, now = store_error(error), datetime.now(UTC)
        return explain_unreachable_store(text, reported.sentence, reported.do, now), now
    return explain_facts(facts), facts.system.now


def _exit_code(found: "Explanation") -> ExitCode:
    from warrener.explanations.causes import Cause

    match found.cause:
        case Cause.STORE_UNREACHABLE:
            return ExitCode.UNREACHABLE
        case Cause.NEVER_SEEN:
            return ExitCode.FAILED
        case _:
            return ExitCode.OK
