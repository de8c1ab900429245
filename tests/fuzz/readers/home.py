"""Files of a home that came from somebody else, or from a disk that failed."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa

from analysis.report.folder import KIND, MARKER, _written_by_us
from catalog.files import checksum
from catalog.home import Home
from catalog.registry.label_file import labels_in_file
from catalog.store.arrow_rows import BATCH_SCHEMA, RUN_SCHEMA
from catalog.store.segments import joined, read_segment
from catalog.store.staging import score_rows
from catalog.store.writer_lock import holder
from jobs.operations.watch import Look
from jobs.operations.watch_screen import json_line, plain_line, screen
from jobs.scan.job_log import read_log
from jobs.scan.scan_progress import JobFailure, ScanProgress, WorkerProgress, as_json, read_progress
from tests.fuzz.readers.base import Target


def _progress(data: bytes, folder: Path) -> None:
    """What a scan wrote about itself, and all that is shown of it."""
    path = folder / "scan.json"
    path.write_bytes(data)
    progress = read_progress(path)
    for state in ("waiting", "running", "ended", "killed"):
        look = Look(state, 2e9, progress)
        json_line(look)
        plain_line(look)
        screen(folder, look, 120)


def _segment(data: bytes, folder: Path) -> None:
    """A segment of the spool, as it is and with its checksum put right."""
    path = folder / "segment.arrow"
    for content in (data, data[:-4] + checksum(data[:-4])):
        path.write_bytes(content)
        score_rows(joined([read_segment(path)]).batches)


def _labels(data: bytes, folder: Path) -> None:
    """The registry's file, of which labels and tags are read."""
    home = Home(folder)
    home.registry.write_bytes(data)
    for labels in labels_in_file(home).values():
        json.dumps([labels.label, dict(labels.tags)])


def _texts(data: bytes, folder: Path) -> None:
    """Texts that are shown: the note of who writes, a job's log; and what marks a report."""
    home = Home(folder)
    home.writer_note.write_bytes(data)
    holder(home).encode()
    (folder / "run.log").write_bytes(data)
    read_log(folder, "run").encode()
    (folder / MARKER).write_bytes(data)
    _written_by_us(folder)


def _scans() -> list[bytes]:
    failure = JobFailure("id", "small:net", "load", "no file")
    workers = (
        WorkerProgress("host", 1, "cpu"),
        WorkerProgress("host", 2, "cpu", "id", "net", 3, 9),
    )
    running = ScanProgress(
        *("1 on host", 1e9, 3, 1, 1, 1, (failure,), 64, 128, 0.5, 1e9, 64, 1e9, 2, "cpu", 1),
        working=workers,
    )
    ended = ScanProgress(
        "1 on host", 1e9, 1, 0, ended_at=1e9, end="error", error="no", error_code=2
    )
    return [as_json(each).encode() for each in (running, ended)]


def _segments() -> list[bytes]:
    files = []
    for schemas in ((RUN_SCHEMA,), (BATCH_SCHEMA,), (RUN_SCHEMA, BATCH_SCHEMA)):
        stream = pa.BufferOutputStream()
        for schema in schemas:
            with pa.ipc.new_stream(stream, schema) as opened:
                rows = [dict.fromkeys(schema.names) | {"run_id": "a"}]
                opened.write_table(pa.Table.from_pylist(rows, schema))
        content = stream.getvalue().to_pybytes()
        files.append(content + checksum(content))
    return files


def _registries() -> list[bytes]:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "registry"
        with closing(sqlite3.connect(path)) as connection:
            connection.executescript("""
                PRAGMA page_size = 512;
                CREATE TABLE run_labels (run_id VARCHAR NOT NULL PRIMARY KEY,
                  model VARCHAR, checkpoint VARCHAR, dataset VARCHAR);
                CREATE TABLE run_tags (run_id VARCHAR NOT NULL, name VARCHAR NOT NULL,
                  value JSON NOT NULL, PRIMARY KEY (run_id, name));
                INSERT INTO run_labels VALUES ('aa', 'VGG', NULL, 'photographs');
                INSERT INTO run_tags VALUES ('aa', 'lr', '0.1'), ('bb', 'kind', '"x"');
            """)
        return [path.read_bytes()]


def _marked() -> list[bytes]:
    return [json.dumps({"kind": KIND, "files": ["index.html"]}).encode(), "1 on höst".encode()]


TARGETS = {
    "progress": Target(_progress, _scans, document=True),
    "segment": Target(_segment, _segments),
    "labels": Target(_labels, _registries),
    "texts": Target(_texts, _marked, document=True),
}
