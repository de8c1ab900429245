"""Benchmark of starts: short verbs, an empty typer app with the same options, and the first row.

All are whole processes, run in turn, with their byte code written before and the libraries' facts
kept, as an installation has it. Processor time counts, which a busy machine changes least. The
first row is that of a scan of a single score in a new home, beside the import of torch; with Ray
its time is that on the clock from the workers' being up, which wants a quiet machine.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from catalog.open_home import open_home

ROUNDS = 7

EMPTY = """
from pathlib import Path
from typing import Annotated, Literal
import typer
app = typer.Typer(name="survey", no_args_is_help=True, add_completion=False)
@app.callback()
def shared(
    home: Path | None = None,
    format: Literal["table", "json", "csv", "parquet"] | None = None,
) -> None:
    pass
"""


def empty_app() -> str:
    """Return the source of an app with our commands and their options, which do nothing."""
    import typer

    from jobs.cli.main import app

    source = EMPTY
    group: Any = typer.main.get_command(app)
    for name in group.commands:
        params = group.get_command(None, name).params
        options = ", ".join(f"{each.name}: str | None = None" for each in params)
        source += f'@app.command("{name}")\ndef {name}({options}) -> None:\n    pass\n'
    return source + "app()\n"


#: The arguments of each command, and the exit code it has.
COMMANDS = {
    "--help": 0,
    "run --model resnet1888 --dataset digits": 2,
    "status": 0,
    "sql SELECT_1": 0,
    "schedule tick": 0,
    "plan --model torchvision:resnet50 --checkpoint init:0 --dataset random": 0,
    "plan --model timm:resnet50 --checkpoint init:0 --dataset random": 0,
}

#: Processor seconds that are wanted at most, of a plan and of everything else.
MOST = {"plan": 2.5, "": 0.7}

#: A scan of one score, and the seconds that its row may come after torch's import.
SCAN = ("run", "-m", "small:digits_vgg7", "-d", "digits[:64]", "--images-per-score", "64")
ONE_WORKER = ("--workers", "1", "--threads", "1")
MOST_AFTER_TORCH = 2.0
SCANS = 3


def seconds(compiled: str, *command: str, code: int = 0) -> float:
    """Return the processor time of a process whose byte code is in a folder."""
    before = processor()
    result = subprocess.run(
        [sys.executable, *command], env=environment(compiled), capture_output=True, check=False
    )
    if result.returncode != code:
        raise SystemExit(f"{command} ended with {result.returncode}: {result.stderr.decode()}")
    return processor() - before


def environment(compiled: str) -> dict[str, str]:
    """Return the environment of a process whose byte code is in a folder."""
    kept = {name: each for name, each in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPYCACHEPREFIX": compiled}


def processor() -> float:
    """Return the processor seconds of all processes that were waited for."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


@dataclass(frozen=True, slots=True)
class FirstRow:
    """Seconds until the row of a scan is kept."""

    #: Of processor time, of the whole process without Ray's.
    processor: float
    #: On the clock, from the start.
    wall: float
    #: On the clock, from the workers' being up.
    since_up: float


def first_row(compiled: str, home: Path, runner: str) -> FirstRow:
    """Run the scan in a new home; its lines tell when its workers are up and when it is done."""
    command = [sys.executable, "-m", "jobs.entry", "--home", str(home), *SCAN]
    before, began = processor(), time.monotonic()
    with subprocess.Popen(
        [*command, "--runner", runner, *ONE_WORKER],
        env=environment(compiled),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        lines = ((line, time.monotonic()) for line in process.stderr)
        times = [when for line, when in lines if line.startswith(("1 worker", "done "))]
    if process.returncode:
        raise SystemExit(f"{command} ended with {process.returncode}")
    up, done = times
    return FirstRow(processor() - before, done - began, done - up)


def scans(compiled: str, folder: Path) -> None:
    """Print the medians of importing torch and of the first row without and with Ray."""
    torch, walls, local, ray = [], [], [], []
    # The first round writes the byte code.
    for number in range(1 + SCANS):
        began = time.monotonic()
        torch.append(seconds(compiled, "-c", "import torch"))
        walls.append(time.monotonic() - began)
        local.append(first_row(compiled, folder / f"local{number}", "local"))
        ray.append(first_row(compiled, folder / f"ray{number}", "ray"))
    imported, wall = statistics.median(torch[1:]), statistics.median(walls[1:])
    print(f"{imported:.2f} s of processor, {wall:.2f} s on the clock  import torch")
    for name, row, base in (
        ("of processor to a first row's end", [each.processor for each in local], imported),
        ("to the first row", [each.wall for each in local], wall),
        ("to the first row from Ray's being up", [each.since_up for each in ray], wall),
    ):
        median = statistics.median(row[1:])
        print(f"{median:.2f} s {name}: torch's import and {median - base:.2f} s", end="")
        print(f" ({MOST_AFTER_TORCH} is wanted), {median / base:.2f} of it")


def main() -> None:
    """Run all in turn and print the medians."""
    with tempfile.TemporaryDirectory() as folder:
        script, home = Path(folder) / "empty.py", Path(folder) / "home"
        script.write_text(empty_app(), encoding="utf-8")
        open_home(home, create=True)
        times: dict[str, list[float]] = {text: [] for text in ("empty app", *COMMANDS)}
        # The first round writes the byte code.
        for _ in range(1 + ROUNDS):
            times["empty app"].append(seconds(folder, str(script), "--help"))
            for text, code in COMMANDS.items():
                arguments = [each.replace("_", " ") for each in text.split()]
                whole = ("-m", "jobs.entry", "--home", str(home), *arguments)
                times[text].append(seconds(folder, *whole, code=code))
        scans(folder, Path(folder))
    medians = {text: statistics.median(values[1:]) for text, values in times.items()}
    for text, median in medians.items():
        most = MOST["plan" if text.startswith("plan") else ""]
        print(f"{median:.3f} s of processor (at most {most} is wanted)  {text}")
    print(f"--help takes {medians['--help'] / medians['empty app']:.2f} of an empty app's")


if __name__ == "__main__":
    main()
