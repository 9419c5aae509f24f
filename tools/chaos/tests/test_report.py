"""The report of a chaos run: a section of a page, a picture, and the evidence of what went wrong."""

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from tools.chaos import archive
from tools.chaos.checker import check
from tools.chaos.effects import EffectWriter, read_effects
from tools.chaos.history import Ending, FaultFact, Freeze, History, JobFact, Request
from tools.chaos.journal import Journal, read_journal
from tools.chaos.picture import concerns, draw
from tools.chaos.report import BEGIN, END, as_json, as_markdown, throughput, with_section
from tools.chaos.run import Options, Outcome

HISTORY = History(
    requests=[Request("a", "chaos.hopeless", 11.0, "dead"), Request("b", "chaos.hopeless", 12.0, "dead")],
    jobs={"a": JobFact("a", "chaos.hopeless", "dead", 2, None)},
    endings=[Ending("a", "running", "dead", 13.5)],
)


def outcome() -> Outcome:
    return Outcome(
        Options(5, 2, 1, ("broker killed",), Path()),
        began=10.0,
        ended=20.0,
        faults=[FaultFact(1, "broker killed", "kill -9 & <start>", 12.0, 13.0, 2)],
        history=HISTORY,
        violations=check(HISTORY),
    )


def test_a_violation_comes_with_its_evidence() -> None:
    data = as_json(outcome())
    assert data["violations"]["lost"] == 1
    (lost,) = data["found"]
    assert (lost["kind"], lost["job"], lost["requested"], lost["row"]) == ("lost", "b", 2.0, None)
    assert lost["faults"] == ["2.0-3.0 broker killed kill -9 & <start>"]


def test_the_page_keeps_what_stands_around_its_section() -> None:
    page = with_section(f"before\n{BEGIN}\nold\n{END}\nafter\n", as_markdown(outcome(), "picture.svg"))
    assert page.startswith("before\n")
    assert page.endswith("\nafter\n")
    assert "| broker killed | 1 | 2 |" in page
    assert "old" not in page
    with pytest.raises(ValueError, match="put them back"):
        with_section("nothing", "section")


def test_the_picture_is_svg_with_a_bar_for_each_fault() -> None:
    one = outcome()
    seconds = throughput(one.history, one.began, one.ended)
    assert list(seconds) == [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]
    titles = [
        node.text
        for node in ET.fromstring(draw(seconds, one.faults, one.began)).iter()
        if node.tag.endswith("title")
    ]
    assert titles == ["1: broker killed kill -9 & <start>"]
    assert concerns("all of scheduler killed") == "scheduler"
    assert concerns("cancel storm") == "other"


def test_a_report_can_be_made_again_from_the_archive(tmp_path: Path) -> None:
    archive.save(outcome(), tmp_path / "run.gz")
    assert as_json(archive.load(tmp_path / "run.gz")) == as_json(outcome())


def test_the_journal_reads_what_was_written_and_passes_over_a_line_that_was_cut(tmp_path: Path) -> None:
    journal, freeze = Journal(tmp_path), Freeze(frozenset({3, 1}), 1.0, 2.0)
    journal.write(HISTORY.requests[0])
    journal.write(freeze)
    for fault in outcome().faults:
        journal.write(fault)
    journal.note("answer", ["a", "dead"])
    journal.close()
    path = tmp_path / "journal.jsonl"
    path.write_text(path.read_text() + '["answer", ["b"')
    assert read_journal(tmp_path) == {
        "Request": [HISTORY.requests[0]],
        "Freeze": [freeze],
        "FaultFact": outcome().faults,
        "answer": [["a", "dead"]],
    }


def test_the_effect_ledger_reads_what_was_written_and_passes_over_a_line_that_was_cut(tmp_path: Path) -> None:
    writer = EffectWriter(tmp_path)
    run = writer.begin("job", 2, "key")
    run.record("done")
    (file,) = tmp_path.iterdir()
    file.write_text(file.read_text() + '[1.0, "sta')
    records = list(read_effects(tmp_path))
    assert [(record.what, record.job, record.attempt, record.key) for record in records] == [
        ("start", "job", 2, "key"),
        ("done", "job", 2, "key"),
    ]
    assert records[0].at <= records[1].at
