"""Benchmark of short verbs: processor time, and that of an empty typer app with the same options.

All are whole processes, run in turn, with their byte code written before and the libraries' facts
kept, as an installation has it. Processor time counts, which a busy machine changes least.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
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
}

#: Processor seconds that are wanted at most, of a plan and of everything else.
MOST = {"plan": 2.5, "": 0.7}


def seconds(compiled: str, *command: str, code: int = 0) -> float:
    """Return the processor time of a process whose byte code is in a folder."""
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": compiled}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    result = subprocess.run(
        [sys.executable, *command], env=environment, capture_output=True, check=False
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if result.returncode != code:
        raise SystemExit(f"{command} ended with {result.returncode}: {result.stderr.decode()}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


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
                whole = ("-m", "jobs.cli.main", "--home", str(home), *arguments)
                times[text].append(seconds(folder, *whole, code=code))
    medians = {text: statistics.median(values[1:]) for text, values in times.items()}
    for text, median in medians.items():
        most = MOST["plan" if text.startswith("plan") else ""]
        print(f"{median:.3f} s of processor (at most {most} is wanted)  {text}")
    print(f"--help takes {medians['--help'] / medians['empty app']:.2f} of an empty app's")


if __name__ == "__main__":
    main()
