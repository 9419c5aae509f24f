"""`python -m warrener.web` serves the console as a service among others, by its settings alone."""

import socket
import sys
from argparse import ArgumentParser

from warrener.context import pick_endpoints
from warrener.errors import CommandError, ExitCode
from warrener.web.listener import bind
from warrener.web.server import load_settings, serve_console
from warrener.web.settings import check_access


def main() -> int:
    """Serve until a signal ends the process; the exit code."""
    parser = ArgumentParser(prog="warrener-console", description="Serve the console of Warrener.")
    parser.add_argument("--listen-fd", type=int, metavar="FD", help="a listening socket that is inherited")
    listening: int | None = parser.parse_args().listen_fd
    try:
        settings = load_settings()
        check_access(settings)
        if listening is None:
            listener = bind(settings.console_host, settings.console_port)
        else:
            listener = socket.socket(fileno=listening)
    except CommandError as error:
        print(f"warrener-console cannot start: {error}", file=sys.stderr)
        return ExitCode.USAGE
    return serve_console(listener, pick_endpoints(None, None, None, settings), settings)


if __name__ == "__main__":
    sys.exit(main())
