"""The command `warrener` with all its commands, for completion and tests."""

from warrener.command.tree import make_app

app = make_app()
