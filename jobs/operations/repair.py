"""``survey doctor --repair``: a damaged home, made usable again with all that can be read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from catalog.files import set_aside
from catalog.home import Home, segment_paths
from catalog.open_home import making
from jobs.operations.doctor import Finding
from survey.errors import SettingsError, StoreError
from survey.text import counted, first_names

#: What follows from a loss.
_AGAIN = "the next survey run measures again what is lost"
_DECLARED_AGAIN = "survey run writes again those that a survey declares, survey tag any other"


def repair(path: Path) -> list[Finding]:
    """Repair the store, the spool and the registry of a home, and say what was kept and lost.

    What is whole is left as it is. A damaged file is set aside before anything is written, and is
    never removed.

    Parameters
    ----------
    path : pathlib.Path
        The home.

    Raises
    ------
    SettingsError
        If there is no home.
    StoreError
        If a scan is writing, a service has a damaged registry open, or the disk is full; the
        damaged files are where they were.
    """
    from catalog.registry.address import addressed
    from catalog.store.upgrade import upgrade_store
    from catalog.store.writer import Writer

    home = addressed(Home(path.absolute()))
    if not any(place.exists() for place in (home.signatures, home.registry, home.spool)):
        raise SettingsError(f"there is no home at {home.path}", hint="pass --home")
    home.spool.mkdir(exist_ok=True)
    with Writer.open(home) as writer, making(home):
        damage = _registry_damage(home)
        findings = [*_spool(home), *_store(home)]
        if segment_paths(home.spool):
            upgrade_store(home.signatures)
        merged = writer.merge()
        left = len(segment_paths(home.spool))
        findings.append(Finding("spool", "ok", f"{counted(merged, 'segment')} merged, {left} wait"))
        findings.append(Finding("signatures", "ok", f"now there: {_held(home)}"))
        findings += _registry(home, damage)
    return findings


def _spool(home: Home) -> Iterator[Finding]:
    from catalog.store.segments import read_segment

    for path in segment_paths(home.spool):
        try:
            read_segment(path)
        except StoreError as error:
            aside = set_aside(path)
            path.unlink()
            yield Finding("spool", "attention", f"{error.message}; set aside: {aside}", _AGAIN)


def _store(home: Home) -> Iterator[Finding]:
    from catalog.store.repair import repair_store, store_damage
    from catalog.store.undo import recover, undo_path

    damage = store_damage(home.signatures)
    if damage and undo_path(home.signatures).exists():
        # A writer that was killed may have left what makes the file whole.
        if not recover(home.signatures):
            raise StoreError(
                f"{home.signatures} is damaged, and other processes read it all the time",
                hint="end them, then run the same command again",
            )
        damage = store_damage(home.signatures)
    if damage is None:
        yield Finding("signatures", "ok", f"{home.signatures}: every row can be read")
        return
    done = repair_store(home)
    yield Finding("signatures", "attention", f"{home.signatures} was damaged: {damage}")
    if done.aside:
        yield Finding("signatures", "ok", f"the damaged file is kept as {done.aside}")
    for table, rows in done.kept.items():
        lost = done.lost[table]
        fewer = "nobody knows how many not" if lost is None else f"{lost:,} not"
        detail = f"{counted(rows, 'row')} read from it, {fewer}"
        yield Finding(table, "ok" if lost == 0 else "attention", detail)
    unread = f", {counted(done.unread, 'segment')} of it cannot be read" if done.unread else ""
    detail = f"{counted(done.merged, 'segment')} of the store's log merged again{unread}"
    yield Finding("log", "attention" if done.unread else "ok", detail)


def _registry_damage(home: Home) -> str | None:
    """Return what is wrong with the registry's file; a server's is left to its own tools."""
    from catalog.registry.repair import registry_damage
    from catalog.store.writer_lock import is_locked

    damage = None if home.registry_url else registry_damage(home)
    if damage and is_locked(home.driver_lock):
        raise StoreError(
            f"{home.registry} cannot be used ({damage}), and a service has it open",
            hint="stop the service, then run the same command again",
        )
    return damage


def _registry(home: Home, damage: str | None) -> Iterator[Finding]:
    from catalog.registry.repair import repair_registry

    runs = _runs(home)
    if damage is not None:
        done = repair_registry(home, runs)
        yield Finding("registry", "attention", f"{home.registry} was damaged: {damage}")
        if done.aside:
            yield Finding("registry", "ok", f"the damaged file is kept as {done.aside}")
        for table, rows in done.kept.items():
            torn = table in done.torn
            detail = f"{counted(rows, 'row')} read from it" + ", others are lost" * torn
            yield Finding(table, "attention" if torn else "ok", detail)
        detail = f"{counted(done.made, 'job')} made from the store"
        yield Finding("jobs", "ok", detail)
        if done.aside is None or not {"run_labels", "run_tags"}.isdisjoint(done.torn):
            yield Finding("labels", "attention", "labels and tags are lost", _DECLARED_AGAIN)
    elif home.registry_url:
        yield Finding("registry", "ok", f"{home.registry_url}: left to the tools of its database")
    else:
        yield Finding("registry", "ok", f"{home.registry}: every row can be read")
    yield from _missing_runs(home, {str(run["run_id"]) for run in runs if run["status"] == "done"})


def _missing_runs(home: Home, stored: set[str]) -> Iterator[Finding]:
    from catalog.registry.registry import Registry

    with Registry(home) as registry:
        known = {job.run_id for job in registry.jobs() if job.state == "done"}
    if lost := sorted(known - stored):
        names = first_names(lost, 10)
        detail = f"{counted(len(lost), 'finished run')} not whole any more: {names}"
        yield Finding("runs", "attention", detail, _AGAIN)


def _held(home: Home) -> str:
    from catalog.store.reader import query_rows

    counts = "(SELECT count(*) FROM runs) AS runs, (SELECT count(*) FROM batches) AS batches"
    (row,) = query_rows(home, f"SELECT {counts}")
    return f"{counted(row['runs'], 'run')}, {counted(row['batches'], 'batch', 'batches')}"


def _runs(home: Home) -> list[Mapping[str, Any]]:
    from catalog.store.reader import query

    return list(query(home, "SELECT * FROM runs").to_pylist())
