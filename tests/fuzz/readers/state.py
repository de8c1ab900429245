"""What a home keeps beside its stores, and backups: each may have come from somebody else."""

from __future__ import annotations

import contextlib
import json
from dataclasses import asdict
from pathlib import Path
from unittest import mock

import torch
from filelock import FileLock

from catalog.backup.manifest import FORMAT, NAME, _hash_of, read_manifest
from catalog.copies import contents_of
from catalog.files import checksum
from catalog.home import Home
from catalog.linearisations import read_result
from catalog.registry.address import recorded_url
from catalog.store.undo import undoing
from catalog.training_checkpoints import load_training, save_training
from jobs.linearisation import Linearisation, linearisation_table
from jobs.service.driver_state import DriverState, driver_state
from jobs.service.pages.scan import SurveyForm
from survey.errors import SurveyError
from survey.linearising.results import Pass, TrainingState
from survey.linearising.settings import LinearisationSettings
from tests.fuzz.readers.base import Target

_SITE = {"name": "relu", "active": 3, "channels": 8}
_RESULT = {
    "run_id": "run",
    "top1": 0.9,
    "path_length_normalised": 0.4,
    "seconds_a_pass": 1.5,
    "sites": [_SITE, _SITE],
}


def _result(data: bytes, folder: Path) -> None:
    """The result of a linearisation, and the table that shows it."""
    home = Home(folder)
    home.linearisations.mkdir(exist_ok=True)
    (home.linearisations / "run.json").write_bytes(data)
    job = mock.Mock(run_id="run", beginning="late", settings=LinearisationSettings())
    job.trained.full_name = "small:net"
    linearisation_table([Linearisation(job, 0, read_result(home, "run"))])


def _training(data: bytes, folder: Path) -> None:
    """The state of a training, of which the length of the header is right."""
    path = folder / "state.safetensors"
    size = int.from_bytes(data[:8], "little")
    for content in (data, (len(data) - 8 - 32).to_bytes(8, "little", signed=True) + data[8:]):
        path.write_bytes(content)
        state = load_training(path) if size < 1 << 40 else None
        if state is not None:
            json.dumps([asdict(each) for each in state.passes])


def _backup(data: bytes, folder: Path) -> None:
    """The manifest of a backup, as it is and with its hash put right."""
    (folder / "signatures.duckdb").write_bytes(b"x")
    contents = [data]
    try:
        facts = json.loads(data)
        facts.pop("sha256", None)
        contents.append(json.dumps({**facts, "sha256": _hash_of(facts)}).encode())
    except (ValueError, AttributeError, TypeError, RecursionError):
        pass
    for content in contents:
        (folder / NAME).write_bytes(content)
        manifest = read_manifest(folder)
        f"{manifest.made_at} {manifest.made_by}".encode()


def _toml(data: bytes, folder: Path) -> None:
    """Where a home says that its registry is; and the text of a survey in the service's form."""
    home = Home(folder)
    home.registry_address.write_bytes(data)
    with contextlib.suppress(SurveyError):
        recorded_url(home)
    SurveyForm(form_token="", survey=data.decode("utf-8", "replace"), models="a").tables()


def _driver(data: bytes, folder: Path) -> None:
    """What the driver of a home says that it does."""
    home = Home(folder)
    home.driver_state.write_bytes(data)
    with FileLock(home.driver_lock):
        state = driver_state(home)
    f"{state.doing} {state.reason} {state.since:.1f}".encode(errors="replace")


def _undo(data: bytes, folder: Path) -> None:
    """The file that undoes a checkpoint which was cut off, with its checksum put right."""
    store = folder / "signatures.duckdb"
    store.write_bytes(bytes(3 * 4096 + 64))
    store.with_name(store.name + ".undo").write_bytes(checksum(data) + data)
    with undoing(store):
        pass
    store.unlink()


def _trainings() -> list[bytes]:
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        path = Path(folder) / "state"
        tensors = {"weight": torch.arange(8.0)}
        save_training(path, TrainingState("origin", (Pass(0.5, 3),), tensors))
        return [path.read_bytes()]


def _manifests() -> list[bytes]:
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        (file := Path(folder) / "signatures.duckdb").write_bytes(b"x")
        files = {file.name: asdict(contents_of(file))}
    facts = {"format": FORMAT, "made_at": "2026-01-01", "made_by": "0.1.0", "files": files}
    return [json.dumps({**facts, "sha256": _hash_of(facts)}).encode()]


_BLOCK = (3 * 4096).to_bytes(8, "little") + (8).to_bytes(8, "little") + bytes(8)

TARGETS = {
    "result": Target(_result, lambda: [json.dumps(_RESULT).encode()], document=True),
    "training": Target(_training, _trainings),
    "backup": Target(_backup, _manifests, document=True),
    "address_file": Target(
        _toml,
        lambda: [b'url = "postgresql://me@host:5432/zoo?sslmode=require"\n', b"a.b.c.d = [[1]]"],
    ),
    "driver": Target(
        _driver,
        lambda: [json.dumps(asdict(DriverState("process 1 on a", "idle", "x", "y", 1e9))).encode()],
        document=True,
    ),
    "undo": Target(_undo, lambda: [bytes(3 * 4096) + _BLOCK * 2]),
}
