"""The mark of a test that carries out an attack; `docs/explanation/security.md` lists all of them."""

import pytest


def attack(who: str, does: str, *, refused: str) -> pytest.MarkDecorator:
    """Mark a test: `who` tries to do `does`, and `refused` names what prevents it, both as they stand in a
    table. The arguments are literals, because the table is read from the source."""
    return pytest.mark.attack(who, does, refused)
