"""`python -m warrener.web` serves the console as a service among others, by its settings alone."""

import sys

from warrener.errors import CommandError, ExitCode
from warrener.web.access.setup import check_access
from warrener.web.server import bind, endpoints_of, load_settings, serve_console


def main() -> int:
    """Serve until a signal ends the process; the exit code."""
    try:
        settings = load_settings()
        check_access(settings, settings.console_host)
        listener = bind(settings.console_host, settings.console_port)
    except CommandError as error:
        print(f"warrener-console cannot start: {error}", file=sys.stderr)
        return ExitCode.USAGE
    return serve_console(listener, endpoints_of(settings), settings)


if __name__ == "__main__":
    sys.exit(main())
