"""The options that many commands share."""

from typing import Annotated

import typer

Json = Annotated[
    bool, typer.Option("--json", help="Answer for machines: JSON on stdout, nothing else on it.")
]

Broker = Annotated[
    str | None,
    typer.Option(
        "--broker",
        metavar="URL",
        help="The broker. Else that of `warrener up` in this folder, else WARRENER_BROKER_URL.",
        show_default=False,
    ),
]

Management = Annotated[
    str | None,
    typer.Option(
        "--management",
        metavar="URL",
        help="The broker's management API, which lists bindings. Else WARRENER_MANAGEMENT_URL, "
        "else port 15672 beside the broker.",
        show_default=False,
    ),
]

Store = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="URL",
        help="The state store. Else that of `warrener up` in this folder, else WARRENER_STORE_URL.",
        show_default=False,
    ),
]

Limit = Annotated[
    int, typer.Option("--limit", "-n", min=1, max=10_000, help="At most this many, the newest.")
]
