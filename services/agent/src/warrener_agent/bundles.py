"""Many events as few messages. Pure."""

from collections.abc import Iterable
from itertools import groupby
from typing import Any

from warrener_contracts.addresses import address_of
from warrener_contracts.events import Event
from warrener_contracts.letters import Letter, batch_letter, letter_for
from warrener_contracts.topology import MAX_BODY


def bundled(events: Iterable[Event[Any]]) -> list[Letter]:
    """Few messages for many events: those of one routing key together, up to the size of a body."""
    groups = groupby(sorted(events, key=_key), key=_key)
    return [letter for _, group in groups for letter in _letters(list(group))]


def _letters(events: list[Event[Any]]) -> list[Letter]:
    """One message, in halves where it is too big: so most events are encoded once."""
    letter = letter_for(events[0]) if len(events) == 1 else batch_letter(events)
    if len(events) == 1 or len(letter.body) <= MAX_BODY:
        return [letter]
    half = len(events) // 2
    return [*_letters(events[:half]), *_letters(events[half:])]


def _key(event: Event[Any]) -> str:
    return address_of(event)[1]
