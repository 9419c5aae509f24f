"""Tuning of the garbage collector: objects to skip, and thresholds for the others."""

import gc

GcThresholds = tuple[int, int, int]
"""The arguments of `gc.set_threshold`: containers made and not yet freed before a collection of the young
ones, and how many of these bring a collection of the older ones."""

FREQUENT: GcThresholds = (5_000, 10, 10)
"""For a process that runs user code, which may leave large cycles. Python's own 700 are fewer than a batch
of messages makes: they would be scanned repeatedly while all are in use."""

RARE: GcThresholds = (50_000, 20, 50)
"""For a process that runs our code alone: reference counts free nearly all objects of a batch as soon as
it is over. Collecting in the midst of it finds nothing and costs a quarter of its time."""


def freeze(gc_thresholds: GcThresholds) -> None:
    """Exclude all current objects from collections: modules, models, parts of the service.

    Call this once, when a service is built and has no work yet. A full collection scans every container of
    the process, some hundred thousand after the imports. Excluded objects are still freed by their reference
    count; only cycles of them would stay.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*gc_thresholds)
