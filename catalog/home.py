"""The home: the directory that holds one installation's state, and the names of what is in it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

#: How the name of a whole segment in the spool ends.
SEGMENT_ENDING = ".arrow"

#: What to do about a damaged file of a home.
REPAIR_HINT = (
    "`survey doctor --repair` sets the damaged file aside and keeps what can be read of it"
)


@dataclass(frozen=True, slots=True)
class Home:
    """Where one installation's state lies. Naming it touches no file; ``open_home`` does.

    Parameters
    ----------
    path : Path
        The directory.
    registry_url : str, optional
        A database for the registry other than the SQLite file in the home.
    """

    path: Path
    registry_url: str | None = None

    @property
    def signatures(self) -> Path:
        """The signature store's file."""
        return self.path / "signatures.duckdb"

    @property
    def registry(self) -> Path:
        """The registry's file, where no URL names another database."""
        return self.path / "registry.sqlite"

    @property
    def registry_address(self) -> Path:
        """The file that names another database for the registry, where there is one."""
        return self.path / "registry.toml"

    @property
    def spool(self) -> Path:
        """The folder of segments that are not merged yet."""
        return self.path / "spool"

    @property
    def merged(self) -> Path:
        """The folder of segments that were merged: the store's log, from which it is repaired."""
        return self.path / "merged"

    @property
    def logs(self) -> Path:
        """The folder of logs."""
        return self.path / "logs"

    @property
    def cache(self) -> Path:
        """The folder of what can be made again, such as decoded images."""
        return self.path / "cache"

    @property
    def files(self) -> Path:
        """The folder of files fetched from elsewhere, by their content."""
        return self.path / "files"

    @property
    def pixels(self) -> Path:
        """The folder of decoded images."""
        return self.cache / "pixels"

    @property
    def datasets(self) -> Path:
        """The folder where datasets lie that users must obtain themselves."""
        return self.path / "datasets"

    @property
    def linearisations(self) -> Path:
        """The folder of trainings that make networks linear: their states and results."""
        return self.path / "linearisations"

    @property
    def progress(self) -> Path:
        """The file in which the last scan says how far it is."""
        return self.path / "scan.json"

    @property
    def downloads(self) -> Path:
        """The file in which a scan says how far it is with the files that it fetches first."""
        return self.path / "fetching.json"

    @property
    def making_lock(self) -> Path:
        """The file whose lock a process holds that makes or repairs the home's files."""
        return self.path / "home.lock"

    @property
    def writer_lock(self) -> Path:
        """The file whose lock the one writer holds."""
        return self.path / "writer.lock"

    @property
    def writer_note(self) -> Path:
        """The text that names the process which holds the writer's lock."""
        return self.path / "writer.txt"

    @property
    def driver_lock(self) -> Path:
        """The file whose lock the one driver of a service holds."""
        return self.path / "driver.lock"

    @property
    def driver_state(self) -> Path:
        """The file in which that driver tells what it does."""
        return self.path / "driver.json"


def segment_paths(folder: Path) -> list[Path]:
    """Return the whole segments in a folder, in the order they were written."""
    return sorted(folder.glob(f"*{SEGMENT_ENDING}"))
