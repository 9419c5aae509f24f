"""A wall clock of its own for a process, by Debian's libfaketime; its monotonic clock stays true."""

from pathlib import Path

_LIBRARIES = "*/faketime/libfaketimeMT.so.1"


class FakeTime:
    """The wall clock of processes started with `environment()`, wrong by as much as `set` says."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.set(0)

    def set(self, seconds: float) -> None:
        """Let the clock be wrong by `seconds` from now on, in processes that run already too."""
        new = self._file.with_suffix(".new")
        new.write_text(f"{seconds:+g}s\n")
        new.replace(self._file)

    def environment(self) -> dict[str, str]:
        """For the process."""
        return {
            "LD_PRELOAD": str(library()),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_CACHE_DURATION": "1",  # seconds; without, each look at any clock reads the file
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "FAKETIME_DONT_RESET": "1",
        }


def library() -> Path:
    """Where it is; a test that needs it fails where it is missing, as `make setup` installs it."""
    found = next(Path("/usr/lib").glob(_LIBRARIES), None)
    if found is None:
        raise AssertionError(
            f"expected libfaketime as /usr/lib/{_LIBRARIES}, got none; run make setup, or install it "
            "(Debian, Ubuntu: apt-get install faketime)"
        )
    return found
