"""What ``survey status --watch`` shows of a scan: a screen that fits the terminal, or a line."""

from __future__ import annotations

import dataclasses
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from jobs.operations.watch import Look
from jobs.scan.download_file import DownloadProgress
from jobs.scan.scan_progress import ScanProgress
from jobs.scan.title_line import TitleLine
from survey.text import counted, format_bytes, format_duration, printable

#: Most failures at the top of the screen.
MOST_FAILURES = 3

#: Terminals from this width on show where a worker is and a bar of its job.
WIDE = 100


def screen(home: Path, look: Look, width: int) -> RenderableType:
    """Return the screen: what went wrong, how far the scan is, what each worker does.

    Parameters
    ----------
    home : Path
        The home that is watched.
    look : Look
        What was seen.
    width : int
        Columns of the terminal.
    """
    head: list[RenderableType] = [
        TitleLine(str(home), "bold"),
        Text(printable(state_line(look)), "dim"),
    ]
    if download := look.download:
        share = download.bytes / download.total_bytes if download.total_bytes else 0.0
        file = TitleLine(download.file)
        return Group(*head, file, _bar(share), *map(Text, _download_facts(download)))
    progress = look.progress
    if progress is None or look.state == "waiting":
        return Group(*head)
    facts = map(Text, scan_facts(look, progress))
    shown = Group(*head, _failures(progress), _bar(progress.fraction), *facts)
    return Group(shown, _workers(progress, width)) if look.state == "running" else shown


def state_line(look: Look) -> str:
    """Return whether a scan is waited for, runs or has ended, and how, in a sentence."""
    if look.download is not None:
        return f"a scan fetches its files: process {look.download.process}"
    progress = look.progress
    if progress is None or look.state == "waiting":
        return "no scan is writing to this home; waiting for one"
    if look.state == "killed":
        return "the last scan was killed; survey run goes on where it stopped"
    if look.state == "running":
        return f"a scan is writing: process {progress.process}"
    ends = {
        "done": "all of its jobs are measured that were not cancelled",
        "failed": "not all of its jobs could be measured",
        "interrupted": "interrupted; survey run goes on where it stopped",
        "error": f"error: {progress.error}",
    }
    # Beside what failed before any scan of it began, no other could be meant.
    ended_at = datetime.fromtimestamp(progress.ended_at or look.at, UTC)
    return f"the last scan ended {ended_at:%Y-%m-%d %H:%M} UTC: {ends[progress.end or 'done']}"


def plain_line(look: Look) -> str:
    """Return a look in one line, for what is no terminal."""
    if download := look.download:
        return "; ".join((f"fetching {printable(download.file)}", *_download_facts(download)))
    progress = look.progress
    if progress is None or look.state == "waiting":
        return state_line(look)
    parts = [f"{progress.fraction:.0%}", *scan_facts(look, progress)]
    return "; ".join(parts if look.state == "running" else [*parts, state_line(look)])


def look_values(look: Look) -> dict[str, Any]:
    """Return a look as plain values, for programs."""
    progress = look.progress
    facts = {"state": look.state, "at": look.at}
    if download := look.download:
        speed = download.bytes_per_second
        return {**dataclasses.asdict(download), **facts, "bytes_per_second": speed}
    if progress is None or look.state == "waiting":
        return facts
    speed, left = progress.images_per_second(look.at), progress.seconds_left(look.at)
    return {
        **facts,
        **dataclasses.asdict(progress),
        "images_per_second": speed,
        "seconds_left": left,
    }


def json_line(look: Look) -> str:
    """Return a look as JSON on one line, for programs."""
    return json.dumps(look_values(look))


def _failures(progress: ScanProgress) -> Table:
    """Return the last failures, a line for the job and one for the reason."""
    table = Table.grid(padding=(0, 2, 0, 0), expand=True)
    for ratio in (None, 1):
        table.add_column(ratio=ratio, style="red", no_wrap=True, overflow="ellipsis")
    shown = progress.failures[-MOST_FAILURES:]
    for each in reversed(shown):
        table.add_row("failed", TitleLine(each.title, "red"))
        table.add_row("", Text(printable(f"{each.stage}: {each.message}")))
    if more := progress.failed - len(shown):
        table.add_row("failed", f"{more:,} more: survey status shows them")
    return table


def _bar(fraction: float) -> Table:
    table = Table.grid(padding=(0, 1, 0, 0), expand=True)
    table.add_column(ratio=1)
    table.add_column()
    table.add_row(ProgressBar(1.0, fraction), f"{fraction:.0%}")
    return table


def scan_facts(look: Look, progress: ScanProgress) -> list[str]:
    """Return the numbers of a scan: jobs, images, time and workers."""
    now = look.at if progress.ended_at is None else progress.ended_at
    jobs = f"{progress.done:,} of {counted(progress.jobs, 'job')}"
    jobs += f", {progress.failed:,} failed" if progress.failed else ""
    taken = format_duration(now - progress.began_at)
    taken += " so far" if progress.ended_at is None else " in all"
    if not progress.workers:
        return [jobs, f"{taken}; workers are starting" if progress.jobs else taken]
    images = f"{progress.images:,} of {counted(progress.total_images, 'image')}"
    workers = counted(progress.workers, "worker")
    workers += f" on {progress.device}, {counted(progress.threads, 'thread')} each"
    if look.state == "running":
        if (speed := progress.images_per_second(now)) is not None:
            images += f", {speed:,.0f} a second" if speed >= 10 else f", {speed:.2g} a second"
        if (left := progress.seconds_left(now)) is not None:
            taken += f", about {format_duration(left)} left"
        if (starting := progress.workers - len(progress.working)) > 0:
            workers += f", {starting} starting"
    # Nothing tells when a scan was killed.
    times = [] if look.state == "killed" else [taken]
    return [jobs, images, *times, workers]


def _download_facts(download: DownloadProgress) -> list[str]:
    """Return the numbers of a download: bytes, speed and time."""
    here, total = format_bytes(download.bytes), download.total_bytes
    facts = [here if total is None else f"{here} of {format_bytes(total)}"]
    if speed := download.bytes_per_second:
        facts.append(f"{format_bytes(int(speed))} a second")
        if total is not None:
            facts.append(f"about {format_duration((total - download.bytes) / speed)} left")
    return facts


def _workers(progress: ScanProgress, width: int) -> Table:
    """Return what each worker does, a line each."""
    table = Table.grid(padding=(0, 2, 0, 0), expand=True)
    table.add_column(ratio=1)
    table.add_column(justify="right")
    for each in progress.working:
        count = f"{each.images:,} of {each.total_images:,}" if each.run_id else "idle"
        count = printable(each.measure) or count
        cells: list[RenderableType] = [TitleLine(each.title), count]
        if width >= WIDE:
            cells.append(ProgressBar(each.total_images or 1, each.images, width=12))
            cells.append(TitleLine(f"{each.pid} on {each.hostname}"))
        table.add_row(*cells)
    return table
