"""`warrener`, and `python -m warrener`."""

import atexit
import gc
import os
import sys


def main() -> None:
    """The console script."""
    # A collection in the midst of imports finds nothing, and the last one, at the end of the process, goes
    # through all that was imported once more: a fifth of the time of a command. `context.run` turns the
    # collector on again.
    gc.disable()
    gc.set_threshold(50_000, 20, 50)
    atexit.register(gc.freeze)
    from warrener.command.tree import make_app_for  # noqa: PLC0415 - an interrupt during the import is quiet too

    completed = None
    if "_WARRENER_COMPLETE" in os.environ:  # zsh and fish give the one, bash the other
        completed = os.environ.get("_TYPER_COMPLETE_ARGS") or os.environ.get("COMP_WORDS", "")
    make_app_for(sys.argv[1:], completed)(prog_name="warrener")


if __name__ == "__main__":
    main()
