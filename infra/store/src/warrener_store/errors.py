"""The errors that a store raises."""


class StoreError(Exception):
    """The root of what a store raises."""


class StoreUnavailable(StoreError):
    """The database does not answer, is locked or full: try again.

    If the connection broke, the change may have been made; every operation may be repeated.
    """

    outage = True  # its traceback would add nothing


class StoreFull(StoreUnavailable):
    """The disk of the database is full: nothing is written until there is room."""


class StoreRefused(StoreError):
    """The database refused a statement that the code must never send: a bug."""


class StoreNotMigrated(StoreError):
    """The tables are missing, or not those of this version."""


class UnknownJob(StoreError):
    """No job has the id after which a list was to continue."""
