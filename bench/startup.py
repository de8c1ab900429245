"""Benchmark of `survey --help` beside an empty typer app with the same commands and options.

Both are whole processes, run in turn, with their byte code written before, as an installation has
it. Compare the ratio of their medians: single times on a shared machine vary.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROUNDS = 15

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


def seconds(compiled: str, *command: str) -> float:
    """Return how long a process takes whose byte code is in a folder."""
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": compiled}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    began = time.perf_counter()
    subprocess.run([sys.executable, *command], env=environment, check=True, capture_output=True)
    return time.perf_counter() - began


def main() -> None:
    """Time both in turn and print the ratio."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "empty.py"
        script.write_text(empty_app(), encoding="utf-8")
        ours, empty = [], []
        # The first round writes the byte code.
        for _ in range(1 + ROUNDS):
            empty.append(seconds(folder, str(script), "--help"))
            ours.append(seconds(folder, "-m", "jobs.cli.main", "--help"))
    whole, bare = statistics.median(ours[1:]), statistics.median(empty[1:])
    print(f"survey --help {whole:.3f} s, empty app {bare:.3f} s")
    print(f"ratio {whole / bare:.2f} (at most 1.30 is wanted)")


if __name__ == "__main__":
    main()
