"""`warrener topology`."""

from typing import Annotated

import typer

from warrener.drift import Difference, differences
from warrener.exits import Exit
from warrener.options import Broker, Json
from warrener.places import find_places
from warrener.probe import probing
from warrener.running import client_at, run
from warrener.shown.screen import err, out, print_json
from warrener.shown.tables import table
from warrener_contracts.topology import TOPOLOGY

EXAMPLES = """
warrener topology
warrener topology --declare
warrener topology --check
"""


def topology(
    *,
    declare: Annotated[bool, typer.Option("--declare", help="Make on the broker what is missing.")] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Compare with the broker; exit code 1 if it differs.")
    ] = False,
    broker: Broker = None,
    as_json: Json = False,
) -> None:
    """Show the exchanges and queues, make or compare them."""
    if declare and check:
        raise typer.BadParameter("expected --declare or --check, got both; do one after the other")
    if declare:
        run(_declare(broker, as_json=as_json))
    elif check:
        found = run(_check(broker, as_json=as_json))
        if found:
            raise typer.Exit(Exit.FAILED)
    else:
        _show(as_json=as_json)


def _show(*, as_json: bool) -> None:
    if as_json:
        print_json(TOPOLOGY)
        return
    exchanges = table("exchange", "kind", "what nobody is bound for")
    for exchange in TOPOLOGY.exchanges:
        exchanges.add_row(exchange.name, exchange.kind, exchange.alternate or "")
    queues = table("queue", "kind", "bound to")
    for queue in TOPOLOGY.queues:
        bound = "\n".join(f"{binding.exchange}  {binding.key}" for binding in queue.bindings)
        queues.add_row(queue.name, str(queue.arguments.get("x-queue-type", "")), bound)
    screen = out()
    screen.print(exchanges)
    screen.print()
    screen.print(queues)
    err().print("\n[soft]and warrener.queue.NAME for each queue that a job type names[/]")


async def _declare(broker: str | None, *, as_json: bool) -> None:
    async with client_at(find_places(broker)):
        pass  # a client declares the topology before anything else
    if as_json:
        print_json({"declared": [queue.name for queue in TOPOLOGY.queues]})
    else:
        err().print("[good]✓[/] the broker has every exchange, queue and binding")


async def _check(broker: str | None, *, as_json: bool) -> list[Difference]:
    async with probing(find_places(broker).broker_url) as probe:
        found = await differences(probe)
    if as_json:
        print_json(found)
    elif not found:
        err().print("[good]✓[/] the broker has what this version needs")
    else:
        shown = table("what", "differs")
        for each in found:
            shown.add_row(each.what, each.how)
        out().print(shown)
        _advise(found)
    return found


def _advise(found: list[Difference]) -> None:
    if all(each.missing for each in found):
        err().print("  [soft]→[/] run `warrener topology --declare`")
    else:
        err().print(
            "  [soft]→[/] a queue cannot be changed: empty it, delete it, "
            "then run `warrener topology --declare`"
        )
