"""`python -m warrener_store migrate URL`: what `warrener migrate` does, without the console."""

import argparse
import asyncio
import sys

from warrener_store import StoreError, migrate


def main() -> int:
    """Read the command line and run it; 0, or 1 with a sentence on standard error."""
    parser = argparse.ArgumentParser(
        prog="python -m warrener_store", description="The state store of Warrener."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    migration = commands.add_parser("migrate", help="bring the tables up to a revision")
    migration.add_argument("url", help="sqlite:///path or postgresql://user:secret@host/database")
    migration.add_argument(
        "--to", default="head", help='a revision such as 0001 (default "head": the newest)'
    )
    arguments = parser.parse_args()
    try:
        asyncio.run(migrate(arguments.url, arguments.to))
    except StoreError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
