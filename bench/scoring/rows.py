"""Scores of an earlier revision beside those of the code here, row by row.

    OMP_NUM_THREADS=1 python -m bench.scoring.rows DATA 4dff0b7

Both measure 512 images with three networks of the digits, CIFAR ResNet-20 and ResNet-44, and
SqueezeNet, in homes of their own and with the packages installed here. DATA holds the trained
weights in ``checkpoints``, and images in ``cifar10-sample`` and ``imagenet-sample``. Prints how
many rows either has and, for each column, the greatest difference of two numbers and the rows that
differ.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import duckdb

ROOT = Path(__file__).parents[2]

#: A network, its weights and the images that it measures, by their names in the data.
SURVEYS = (
    ("small:digits_vgg7", "bundled", "digits"),
    ("small:digits_resnet14", "bundled", "digits"),
    ("small:digits_plain14", "bundled", "digits"),
    ("small:cifar_resnet20", "resnet20-12fca82f.th", "cifar10-sample"),
    ("small:cifar_resnet44", "resnet44-014dd654.th", "cifar10-sample"),
    ("squeezenet1_0", "squeezenet1_0-imagenet-deepcompression.pth", "imagenet-sample"),
)

#: A view of either home's scores with the architecture in place of the run's id, which a new
#: measuring version changes.
_ROWS = """
CREATE VIEW {name}_rows AS
SELECT * EXCLUDE (run_id)
FROM {name}.batch_scores JOIN (SELECT run_id, architecture FROM {name}.runs) USING (run_id)
"""

#: The columns beside those that name a row, and whether both homes have them.
_COLUMNS = """
SELECT column_name, any_value(data_type), count(*) = 2 FROM duckdb_columns()
WHERE table_name IN ('before_rows', 'after_rows')
  AND column_name NOT IN ('architecture', 'batch', 'site')
GROUP BY column_name ORDER BY max(column_index)
"""

_PAIRS = "before_rows AS b JOIN after_rows AS a USING (architecture, batch, site)"


def main() -> None:
    """Measure with both, and print a line a column."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.scoring.rows", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("data", type=Path, help="a folder of trained weights and images")
    parser.add_argument("revision", help="the earlier revision, as git names it")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        place = Path(made)
        measure(checked_out(given.revision, place / "code"), place / "before", given.data)
        measure(ROOT, place / "after", given.data)
        with duckdb.connect() as connection:
            for name in ("before", "after"):
                store = place / name / "signatures.duckdb"
                connection.execute(f"ATTACH '{store}' AS {name} (READ_ONLY)")
                connection.execute(_ROWS.format(name=name))
            print_differences(connection)


def checked_out(revision: str, folder: Path) -> Path:
    """Return the folder, with the files of a revision."""
    archive = folder.with_suffix(".tar")
    subprocess.run(["git", "archive", revision, "-o", archive], cwd=ROOT, check=True)
    with tarfile.open(archive) as files:
        files.extractall(folder, filter="data")
    return folder


def measure(code: Path, home: Path, data: Path) -> None:
    """Measure every network with the code of a folder."""
    # These runs are no part of a registry elsewhere.
    environment = {name: value for name, value in os.environ.items() if name != "SURVEY_REGISTRY"}
    for model, checkpoint, dataset in SURVEYS:
        of_data = checkpoint != "bundled"
        weights = f"file:{data.resolve() / 'checkpoints' / checkpoint}" if of_data else checkpoint
        images = f"folder:{data.resolve() / dataset}" if of_data else dataset
        how = ("--limit", "512", "--runner", "local", "--device", "cpu")
        asked = ("--home", home, "run", "-m", model, "-c", weights, "-d", images, *how)
        subprocess.run(
            [sys.executable, "-m", "jobs.entry", *asked],
            cwd=code,
            env=environment | {"PYTHONPATH": str(code)},
            stdout=sys.stderr,
            check=True,
        )


def print_differences(connection: duckdb.DuckDBPyConnection) -> None:
    """Print a table of what both homes measured."""
    rows = [
        connection.execute(f"SELECT count(*) FROM {each}").fetchall()[0][0]
        for each in ("before_rows", "after_rows", _PAIRS)
    ]
    print("{} rows before, {} after, {} of both\n".format(*rows))
    print("| column | greatest difference | rows that differ |\n|---|---|---|")
    for name, kind, of_both in connection.execute(_COLUMNS).fetchall():
        if not of_both:
            print(f"| {name} | of one revision alone | |")
            continue
        change = f"max(abs(b.{name} - a.{name}))" if kind == "DOUBLE" else "NULL"
        greatest, count = connection.execute(
            f"SELECT {change}, count(*) FILTER (b.{name} IS DISTINCT FROM a.{name}) FROM {_PAIRS}"
        ).fetchall()[0]
        print(f"| {name} | {'' if greatest is None else format(greatest, '.1g')} | {count} |")


if __name__ == "__main__":
    main()
