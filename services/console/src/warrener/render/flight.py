"""What was seen of an attempt before it was stopped."""

from collections.abc import Iterator

from pydantic import ByteSize
from rich.text import Text

from warrener_contracts.events import FlightRecord


def flight_text(record: FlightRecord) -> Text:
    """For a person who wants to know where it hung."""
    lines = [", ".join(_used(record)), _progress(record)]
    text = Text("\n".join(line for line in lines if line))
    for name, content in (("stacks", record.stacks), ("last words", record.log)):
        if content:
            text.append(f"\n{name}\n" if text.plain else f"{name}\n", style="soft")
            text.append(content.rstrip())
    return text


def _progress(record: FlightRecord) -> str:
    if record.progress is None:
        return ""
    return f"progress {record.progress:.0%} {record.progress_note or ''}".rstrip()


def _used(record: FlightRecord) -> Iterator[str]:
    if record.cpu_seconds is not None:
        yield f"{record.cpu_seconds:.1f} s of a processor"
    if record.memory_bytes is not None:
        yield f"{ByteSize(record.memory_bytes).human_readable()} of memory"
    for number, one, many in (
        (record.processes, "process", "processes"),
        (record.threads, "thread", "threads"),
        (record.open_files, "open file", "open files"),
    ):
        if number is not None:
            yield f"{number} {one if number == 1 else many}"
