"""The picture: jobs a second and processor time, side by side."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib as mpl
from tools.benchmarks.figures import Spread

mpl.use("svg")
from matplotlib import pyplot as plt

_PANELS = (
    ("end_to_end", "jobs a second, end to end (more is better)"),
    ("cpu_ms", "processor ms a job, everything (less is better)"),
    ("idle_start_p50", "idle: requested → started, ms p50 (less is better)"),
)


def draw(measured: Mapping[str, Mapping[str, Spread]], path: Path) -> None:
    """Bars of medians, with the spread."""
    figure, axes = plt.subplots(len(_PANELS), 1, figsize=(8, 2.6 * len(_PANELS)), layout="constrained")
    for axis, (name, title) in zip(axes, _PANELS, strict=True):
        bars = {system: figures[name] for system, figures in measured.items() if name in figures}
        axis.barh(
            list(bars),
            [bar.median for bar in bars.values()],
            xerr=[
                [bar.median - bar.low for bar in bars.values()],
                [bar.high - bar.median for bar in bars.values()],
            ],
        )
        axis.set_title(title, fontsize=10, loc="left")
        axis.invert_yaxis()
    figure.savefig(path)  # pyright: ignore[reportUnknownMemberType] - theirs
    plt.close(figure)


def draw_curve(name: str, points: Sequence[Mapping[str, float]], path: Path) -> None:
    """Jobs a second and ms a job against what was varied, which is the first of each point."""
    along = next(iter(points[0]))
    figure, axes = plt.subplots(1, 2, figsize=(8, 3), layout="constrained")
    for axis, what in zip(axes, ("end_to_end", "cpu_ms"), strict=True):
        axis.plot([point[along] for point in points], [point[what] for point in points], marker="o")
        axis.set(xlabel=along, ylabel=what, ylim=(0, None))
    figure.suptitle(name)  # pyright: ignore[reportUnknownMemberType] - theirs
    figure.savefig(path)  # pyright: ignore[reportUnknownMemberType] - theirs
    plt.close(figure)


def draw_lags(lags: Mapping[str, Mapping[str, float]], path: Path) -> None:
    """How late a schedule of one tick a second is: median and 99th percentile."""
    figure, axes = plt.subplots(1, 1, squeeze=False, figsize=(8, 2.6), layout="constrained")
    axis = axes[0][0]
    for shift, what in ((-0.2, "lag_p50_ms"), (0.2, "lag_p99_ms")):
        axis.barh(
            [place + shift for place in range(len(lags))],
            [figures[what] for figures in lags.values()],
            height=0.35,
            label=what,
        )
    axis.set_yticks(range(len(lags)), list(lags))
    axis.set_title("lag of a schedule of one tick a second, ms (less is better)", fontsize=10, loc="left")
    axis.invert_yaxis()
    axis.legend()
    figure.savefig(path)  # pyright: ignore[reportUnknownMemberType] - theirs
    plt.close(figure)
