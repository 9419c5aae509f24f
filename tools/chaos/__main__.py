"""`make chaos`: a real system under seeded faults, judged by an effect ledger outside the product.

(tests/simulation/fault_injection.py is another thing: faults in virtual time, in one process, without
servers.)
"""

import argparse
import asyncio
import json
import logging
import sys
import tempfile
import time
from pathlib import Path

import structlog
from tests.acceptance.warren import ROOT
from tools.chaos import archive
from tools.chaos.checker import check
from tools.chaos.faults.catalogue import available
from tools.chaos.picture import draw
from tools.chaos.report import as_json, as_markdown, on_terminal, throughput, with_section
from tools.chaos.rescue import rescue
from tools.chaos.run import ChaosRun, Options, Outcome
from tools.chaos.system import forget

_PAGE = ROOT / "docs" / "explanation" / "reliability.md"
_PICTURE = "reliability-throughput.svg"
_RESULTS = ROOT / "build" / "chaos"


def main() -> int:
    """Run and report, or report again; 0 if every promise held."""
    options = _arguments().parse_args()
    if options.again and options.again.is_dir():
        outcome = asyncio.run(rescue(options.again))
    elif options.again:
        outcome = archive.load(options.again)
        outcome.violations = check(outcome.history)
    else:
        outcome = _run(options)
    print(on_terminal(outcome))
    _write(outcome, page=options.docs, remark=options.remark)
    good = not outcome.violations and not outcome.interrupted
    if good and not options.keep:
        forget(outcome.options.folder)
    else:
        print(f"chaos: logs and effects are in {outcome.options.folder}")
    print("chaos: every promise held" if good else "chaos: FAILED", file=sys.stdout if good else sys.stderr)
    return 0 if good else 1


def _run(options: argparse.Namespace) -> Outcome:
    """Bring about the faults; on Ctrl-C there is an outcome too."""
    kinds = available(
        short=options.short, only=options.only, without=options.without, cluster=options.cluster
    )
    if not kinds:
        raise SystemExit("expected kinds of faults to choose from, got none; correct --only and --without")
    folder = Path(tempfile.mkdtemp(prefix="warrener-chaos-"))
    folder.chmod(0o711)  # PostgreSQL's user has to enter it
    jobs = options.jobs or (2_500 if options.short else 60_000)
    faults = options.faults or (len(kinds) if options.short else 300)
    began = time.monotonic()

    def log(line: str) -> None:
        print(f"{time.monotonic() - began:7.1f}  {line}", flush=True)

    # The client's own log would stand between the lines of the progress.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    names = tuple(kind.name for kind in kinds)
    chosen = Options(options.seed, jobs, faults, names, folder, options.short, options.busy, options.cluster)
    run = ChaosRun(chosen, kinds, log)
    asyncio.run(run.run())
    return run.outcome


def _write(outcome: Outcome, *, page: bool, remark: str) -> None:
    """The report under build/chaos, and into the documentation if asked."""
    _RESULTS.mkdir(parents=True, exist_ok=True)
    name = f"{'short' if outcome.options.short else 'long'}-{outcome.options.seed}"
    svg = draw(throughput(outcome.history, outcome.began, outcome.ended), outcome.faults, outcome.began)
    archive.save(outcome, _RESULTS / f"{name}.history.gz")
    (_RESULTS / f"{name}.json").write_text(json.dumps(as_json(outcome), indent=1) + "\n")
    (_RESULTS / f"{name}.svg").write_text(svg)
    (_RESULTS / f"{name}.md").write_text(as_markdown(outcome, f"{name}.svg", remark) + "\n")
    print(f"chaos: report in {_RESULTS.relative_to(ROOT)}/{name}.md, .json, .svg and .history.gz")
    if page and not outcome.interrupted:
        _PAGE.write_text(with_section(_PAGE.read_text(), as_markdown(outcome, _PICTURE, remark)))
        _PAGE.with_name(_PICTURE).write_text(svg)
        print(f"chaos: written into {_PAGE.relative_to(ROOT)}")


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make chaos", description="Seeded faults on real processes.")
    parser.add_argument("--seed", type=int, default=1, help="the same seed brings the same plan of faults")
    parser.add_argument(
        "--jobs", type=int, default=0, help="least requests to publish (60,000; short form 2,500)"
    )
    parser.add_argument(
        "--faults", type=int, default=0, help="faults to bring about (300; short form: each once)"
    )
    parser.add_argument("--short", action="store_true", help="the short form: at most four minutes")
    parser.add_argument("--only", default="", help="parts of names of the kinds to choose, by commas")
    parser.add_argument("--without", default="", help="parts of names of the kinds to leave out, by commas")
    parser.add_argument(
        "--busy", type=int, default=0, help="busy loops beside it, for each core: a starved machine (0)"
    )
    parser.add_argument("--cluster", action="store_true", help="three brokers, and a standby of the database")
    parser.add_argument("--docs", action="store_true", help="write into docs/explanation/reliability.md")
    parser.add_argument("--remark", default="", help="a sentence for the page, such as what else ran")
    parser.add_argument("--keep", action="store_true", help="keep logs and effects of a good run")
    parser.add_argument(
        "--again",
        type=Path,
        metavar="PATH",
        help="no run: report from a .history.gz, or from the folder of a run that was killed",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
