"""What the garbage collector need not look at, and how often it looks at the rest."""

import gc

GcThresholds = tuple[int, int, int]
"""As `gc.set_threshold` has it: containers made and not yet freed before the young ones are looked at, and
how many such looks bring one at the older ones."""

FREQUENT: GcThresholds = (5_000, 10, 10)
"""For a process that runs code of others, who may leave large things in circles. Python's own 700 are fewer
than a batch of messages leaves on its way: they would be looked at again and again while all are in use."""

RARE: GcThresholds = (50_000, 20, 50)
"""For a process that runs our code alone: nearly all that a batch makes is freed by counting references as
soon as the batch is over. Looking for circles in the midst of it finds nothing and costs a quarter of its
time."""


def freeze(gc_thresholds: GcThresholds) -> None:
    """Tell the garbage collector that what is there now stays: modules, models, parts of the service.

    Called once, when a service is built and nothing passes through it yet. A full collection looks at every
    container of the process, some hundred thousand after the imports; without them it looks at what is on its
    way. What is set aside is still freed when nothing refers to it; only circles of it would stay.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*gc_thresholds)
