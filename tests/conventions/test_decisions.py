"""Decision records have one format, numbers without gaps, and a line each in their index."""

import re
from pathlib import Path

import pytest
from tests.conventions import allowed
from tests.conventions.sources import PACKAGES, ROOT, TESTS, modules, pages

FOLDER = ROOT / "docs" / "decisions"
RECORDS = sorted(path for path in FOLDER.glob("*.md") if path.name != "README.md")
SECTIONS = ["Status", "Context", "Decision", "Consequences", "Alternatives"]
MENTION = re.compile(r"(?:decisions?/|\bdecisions?\s+)(\d{4})\b(?!-)", re.IGNORECASE)


def title(record: Path) -> str:
    return record.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")


def test_records_are_numbered_without_gaps() -> None:
    numbers = [record.name[:5] for record in RECORDS]
    assert numbers == [f"{number:04d}-" for number in range(1, len(RECORDS) + 1)]


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.name[:4])
def test_a_record_has_a_title_and_the_five_sections(record: Path) -> None:
    text = record.read_text(encoding="utf-8")
    headings = re.findall(r"^#+ .*$", text, re.MULTILINE)
    assert headings == [f"# {title(record)}", *(f"## {section}" for section in SECTIONS)]
    assert re.match(r"\D", title(record)), f"expected a title without a number, got {title(record)!r}"
    empty = re.findall(r"^## (.*)\n+(?=##|\Z)", text, re.MULTILINE)
    assert not empty, f"expected text in each section, got none in {empty}"


def test_the_index_lists_each_record_by_its_title() -> None:
    lines = re.findall(r"^\d+\. .*$", (FOLDER / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert lines == [
        f"{number}. [{title(record)}]({record.name})" for number, record in enumerate(RECORDS, 1)
    ]


def test_a_mentioned_record_exists() -> None:
    numbers = {record.name[:4] for record in RECORDS}
    unknown = [
        f"{page.relative_to(ROOT)}: {number}"
        for page in pages()
        for number in MENTION.findall(page.read_text(encoding="utf-8"))
        if number not in numbers
    ]
    assert not unknown, f"expected the number of a record, got {unknown}"


def test_a_page_or_a_source_links_to_each_record() -> None:
    readers = [page for page in pages() if page.parent != FOLDER] + modules([*PACKAGES, *TESTS])
    text = "\n".join(path.read_text(encoding="utf-8") for path in readers)
    mentioned = {*MENTION.findall(text), *re.findall(r"\b(\d{4})-[a-z-]+\.md", text)}
    found = (record.name for record in RECORDS if record.name[:4] not in mentioned)
    allowed.check("unlinked_records", found, "link to it where its decision is carried out, or delete it")
