"""The store in memory, which nobody closes."""

import gc
import sqlite3

import pytest

from warrener_store.memory import MemoryStore


def test_the_database_of_a_store_that_is_gone_is_closed() -> None:
    """Python 3.13 warns of one that is not."""
    store = MemoryStore()
    connection = store.connection
    del store
    gc.collect()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        connection.execute("SELECT 1")
