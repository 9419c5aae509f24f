"""What the garbage collector need not look at."""

import gc

_NEW = 5_000
"""Containers made and not yet freed before the young ones are looked at. Python's 700 are fewer than a batch
of messages leaves on its way: they would be looked at again and again while all of them are in use."""


def set_aside() -> None:
    """Tell the garbage collector that what is there now stays: modules, models, parts of the service.

    Called once, when a service is built and nothing passes through it yet. A full collection looks at every
    container of the process, some hundred thousand after the imports; without them it looks at what is on its
    way. What is set aside is still freed when nothing refers to it; only cycles of it would stay.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_NEW, *gc.get_threshold()[1:])
