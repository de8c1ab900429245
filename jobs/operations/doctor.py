"""The checks of ``survey doctor``: what works on this machine, and how to repair the rest."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from survey import SurveyError
from survey.text import counted, format_bytes

if TYPE_CHECKING:
    from catalog.home import Home

#: Free disk below which a scan may not finish, in bytes.
LITTLE_DISK_BYTES = 2 * 10**9


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check."""

    #: What was checked.
    check: str
    #: Whether it can be used.
    state: Literal["ok", "attention", "broken"]
    #: The result in a clause.
    detail: str
    #: What to do; empty where there is nothing to do.
    hint: str = ""


def checkup(home: Path) -> list[Finding]:
    """Return the findings of all checks.

    Parameters
    ----------
    home : pathlib.Path
        The home to check; it is not made if it does not exist.
    """
    findings: list[Finding] = []
    for name, check in CHECKS.items():
        try:
            findings += check(home)
        except SurveyError as error:
            findings.append(Finding(name, "broken", error.message, error.hint or ""))
        except (ImportError, OSError, RuntimeError) as error:
            findings.append(
                Finding(name, "broken", f"{type(error).__name__}: {error}", "install it again")
            )
    return findings


def _home(home: Path) -> Iterator[Finding]:
    from catalog.home import Home, segment_paths
    from catalog.open_home import open_home
    from catalog.store.writer_lock import writing_process

    if not Home(home.absolute()).signatures.is_file():
        place = next(p for p in (home.absolute(), *home.absolute().parents) if p.exists())
        if not os.access(place, os.W_OK) or not place.is_dir():
            hint = "pass --home with a directory that can be written"
            yield Finding("home", "broken", f"{home} cannot be made in {place}", hint)
        else:
            yield Finding("home", "ok", f"nothing at {home} yet", "survey run or demo makes it")
        return
    opened = open_home(home, create=False)
    if not os.access(opened.path, os.W_OK):
        hint = "queries work; to measure, check the permissions or pass --home with another one"
        yield Finding("home", "attention", f"{opened.path} cannot be written", hint)
    writer = writing_process(opened)
    yield from _stores(opened, busy=writer is not None)
    yield Finding("caches", "ok", f"{opened.cache}: {format_bytes(_bytes_below(opened.cache))}")
    waiting = len(segment_paths(opened.spool))
    if writer:
        yield Finding("spool", "ok", f"{counted(waiting, 'segment')}, a scan is writing ({writer})")
    elif waiting:
        hint = "the next survey run merges them; queries see them already"
        segments = counted(waiting, "segment")
        yield Finding("spool", "attention", f"not merged yet: {segments}", hint)
    else:
        yield Finding("spool", "ok", "nothing waits")


def _stores(home: Home, *, busy: bool) -> Iterator[Finding]:
    from catalog.home import REPAIR_HINT
    from catalog.registry.registry import Registry
    from catalog.registry.repair import registry_damage
    from catalog.store.reader import query
    from catalog.store.repair import store_damage

    # A store that a scan writes, or that this user may not, is opened and not read through.
    readable = not busy and os.access(home.signatures, os.R_OK | os.W_OK)
    if readable and (damage := store_damage(home.signatures)):
        yield Finding("signatures", "broken", f"{home.signatures}: {damage}", REPAIR_HINT)
    else:
        runs = query(home, "SELECT count(*) AS runs FROM runs").column("runs")[0].as_py()
        yield Finding("signatures", "ok", f"{home.signatures}: {counted(runs, 'run')}")
    if home.registry_url is None and (damage := registry_damage(home)):
        yield Finding("registry", "broken", f"{home.registry}: {damage}", REPAIR_HINT)
    else:
        with Registry(home) as registry:
            jobs = registry.jobs()
        where = home.registry_url or home.registry
        yield Finding("registry", "ok", f"{where}: {counted(len(jobs), 'job')}")


def _bytes_below(folder: Path) -> int:
    """Return the bytes of a folder's files; one that a scan removes meanwhile counts nothing."""
    total = 0
    for below, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                total += Path(below, name).lstat().st_size
    return total


def _disk(home: Path) -> Iterator[Finding]:
    existing = next(place for place in (home, *home.absolute().parents) if place.exists())
    free = shutil.disk_usage(existing).free
    detail = f"{format_bytes(free)} free at {existing}"
    if free < LITTLE_DISK_BYTES:
        yield Finding("disk", "attention", detail, "make room, or use --home on another disk")
    else:
        yield Finding("disk", "ok", detail)


def _torch(_home: Path) -> Iterator[Finding]:
    from importlib.metadata import version

    import torch

    from survey.cores import local_cores

    versions = f"torch {version('torch')}, torchvision {version('torchvision')}"
    yield Finding("torch", "ok", f"{versions}, {counted(local_cores(), 'CPU core')}")
    gpus = torch.cuda.device_count()
    if gpus:
        names = ", ".join(torch.cuda.get_device_name(number) for number in range(gpus))
        yield Finding("gpu", "ok", f"{gpus}: {names}")
    else:
        yield Finding("gpu", "ok", "none seen by torch: the CPU is used")


def _models(_home: Path) -> Iterator[Finding]:
    from catalog.checkpoint_references import resolve
    from catalog.model_loading import load_model
    from catalog.models import find

    bundled = [architecture for architecture in find("small:*") if architecture.bundled]
    for architecture in bundled:
        load_model(architecture, resolve("bundled", architecture, Path()))
    yield Finding("models", "ok", f"{counted(len(bundled), 'bundled network')} can be loaded")


def _ray(_home: Path) -> Iterator[Finding]:
    from jobs.runners.ray.runner import RayRunner

    with RayRunner() as runner:
        devices = runner.devices
    # How many threads a worker has depends on the options and the environment of a run.
    workers = f"{counted(devices.workers, 'worker')} on {devices.kind}"
    yield Finding("ray", "ok", f"a local Ray starts: {workers}")


def _token(_home: Path) -> Iterator[Finding]:
    from jobs.runners.ray.cluster import exposed_token, token_source

    source = token_source()
    if source is None:
        hint = "a cluster on the network needs one: `ray get-auth-token --generate` makes it"
        yield Finding("token", "ok", "none here: only a local Ray, which makes its own", hint)
    elif path := exposed_token():
        yield Finding("token", "attention", f"other users can read {path}", f"chmod 600 {path}")
    else:
        yield Finding("token", "ok", f"a token for clusters comes from {source}")


def _extensions(_home: Path) -> Iterator[Finding]:
    from catalog.datasets import installed_kinds
    from catalog.models import installed_sources
    from jobs.runners import installed_runners
    from survey import metrics
    from survey.extensions import GROUPS, announced

    broken = [
        *metrics.broken(),
        *installed_kinds().broken,
        *installed_sources().broken,
        *installed_runners().broken,
    ]
    for extension in broken:
        hint = "update or uninstall its package; everything else works without it"
        yield Finding("extensions", "attention", str(extension), hint)
    usable = sum(len(announced(kind)) for kind in GROUPS) - len(broken)
    yield Finding("extensions", "ok", f"{counted(usable, 'extension')} of installed packages")


def _sql(_home: Path) -> Iterator[Finding]:
    from jobs.operations.read_only_process import landlock_version

    if version := landlock_version():
        yield Finding("sql", "ok", f"queries change no file: DuckDB and Landlock {version}")
    else:
        yield Finding("sql", "ok", "queries change no file: DuckDB alone, without Landlock here")


#: The checks by name. Each yields findings, or raises what makes its subject unusable.
CHECKS: dict[str, Callable[[Path], Iterator[Finding]]] = {
    "home": _home,
    "disk": _disk,
    "torch": _torch,
    "models": _models,
    "extensions": _extensions,
    "ray": _ray,
    "token": _token,
    "sql": _sql,
}
