"""How jobs stand: all are counted, the most urgent are shown."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from catalog.registry.registry import Registry
from catalog.registry.rows import JobEntry
from jobs.operations.status import standing
from tests.catalog.homes import new_home
from tests.catalog.records import begin, end


def entry(number: int) -> JobEntry:
    key = f"k{number:02}"
    return JobEntry(key, f"r{number:02}", "net", "small", f"file:{9 + number}.pth", "digits", {})


def test_the_most_urgent_are_shown_and_all_are_counted(tmp_path: Path) -> None:
    home = new_home(tmp_path / "home")
    with Registry(home) as registry:
        registry.add_jobs(registry.record_survey("s", {}), [entry(n) for n in range(6)])
        for number, outcome in ((3, "failed"), (1, "done")):
            key = f"k{number:02}"
            end(registry, key, begin(registry, key), outcome, error="broken")
        # Begun by a scan that is gone.
        begin(registry, "k05")
    # Numbers in names count as numbers: 9.pth comes before 11.pth.
    whole, part = standing(home), standing(home, 2)
    assert [job.state for job in whole.items] == ["interrupted", "failed", *["todo"] * 3, "done"]
    assert [job.run_id for job in whole.items] == ["r05", "r03", "r00", "r02", "r04", "r01"]
    assert whole.items[1].error == "broken"
    assert part.items == whole.items[:2]
    assert part.jobs == whole.jobs == 6
    assert part.summary == whole.summary
    assert whole.summary == "1 interrupted, 1 failed, 3 todo, 1 done; no scan is writing"


def test_looking_imports_nothing_that_takes_long(tmp_path: Path) -> None:
    """Half of a short verb's time is imports: those of tables are for verbs that make them."""
    home = new_home(tmp_path / "home")
    looking = (
        "import sys\n"
        "from jobs.cli.main import app\n"
        f"app(['status', '--home', {str(home.path)!r}], standalone_mode=False)\n"
        "sys.exit(' '.join({'torch', 'ray', 'numpy', 'pandas', 'pyarrow'} & set(sys.modules)) or 0)"
    )
    command = [sys.executable, "-c", looking]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr.endswith("no jobs; no scan is writing\n")
