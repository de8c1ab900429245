"""A disk that may lose power: what was written, and every state that it could be left in.

An operation changes the bytes of a file, or the names in a folder. It is certain once its file or
folder was synced; before that, and in any order, it may be lost, and a write may be torn.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, takewhile
from pathlib import PurePosixPath

#: Bytes that a disk writes at once.
SECTOR = 512

#: What the name of a folder means, where others mean the number of a file.
_FOLDER = -1

#: Whether a sector of a change lasts, for each change by its moment.
Lasting = dict[int, Callable[[int], bool]]


@dataclass(frozen=True, slots=True)
class Change:
    """One operation on a file's bytes or a folder's names."""

    #: When it was done.
    moment: int
    #: The number of the file, or the path of the folder.
    target: int | PurePosixPath
    #: Where bytes are written; the file ends here if there are none.
    offset: int = 0
    data: bytes | None = None
    #: The file that each name means from now on; None for a name that is gone.
    names: tuple[tuple[str, int | None], ...] = ()


@dataclass
class Disk:
    """The record of a disk's operations, in order.

    Time counts changes, syncs and acknowledgements. A file is lost with the folder it lies in.
    """

    now: int = 0
    changes: list[Change] = field(default_factory=list)
    #: For each change, by its moment, when it became certain; none if it never did.
    certain: dict[int, int] = field(default_factory=dict)
    folders: set[PurePosixPath] = field(default_factory=set)
    #: What was acknowledged, and when.
    acknowledged: list[tuple[int, str]] = field(default_factory=list)
    _names: dict[PurePosixPath, int] = field(default_factory=dict)
    _uncertain: defaultdict[int | PurePosixPath, list[int]] = field(
        default_factory=lambda: defaultdict(list)
    )
    _sizes: dict[int, int] = field(default_factory=dict)

    def mkdir(self, path: PurePosixPath) -> None:
        """Make a folder."""
        self.folders |= {path.parent, path}
        self._rename(path.parent, {path.name: _FOLDER})

    def create(self, path: PurePosixPath) -> None:
        """Make a file where there is none."""
        if path not in self._names:
            number = len(self._sizes)
            self._sizes[number] = 0
            self._rename(path.parent, {path.name: number})

    def size(self, path: PurePosixPath) -> int:
        """Return how long a file is."""
        return self._sizes[self._names[path]]

    def write(self, path: PurePosixPath, offset: int, data: bytes) -> None:
        """Write bytes into a file."""
        number = self._names[path]
        self._sizes[number] = max(self._sizes[number], offset + len(data))
        self._add(Change(self.now, number, offset, data))

    def truncate(self, path: PurePosixPath, size: int) -> None:
        """Cut or lengthen a file."""
        number = self._names[path]
        self._sizes[number] = size
        self._add(Change(self.now, number, size))

    def rename(self, old: PurePosixPath, new: PurePosixPath) -> None:
        """Rename a file; in another folder it may appear before it is gone, or the reverse."""
        number = self._names[old]
        if old.parent == new.parent:
            self._rename(old.parent, {old.name: None, new.name: number})
        else:
            self._rename(new.parent, {new.name: number})
            self._rename(old.parent, {old.name: None})

    def unlink(self, path: PurePosixPath) -> None:
        """Remove a name."""
        self._rename(path.parent, {path.name: None})

    def sync(self, path: PurePosixPath) -> None:
        """Make a file's bytes, or a folder's names, certain."""
        target = path if path in self.folders else self._names.get(path)
        if target is not None:
            self.certain |= dict.fromkeys(self._uncertain.pop(target, ()), self.now)
        self.now += 1

    def acknowledge(self, line: str) -> None:
        """Note that something was promised to last."""
        self.acknowledged.append((self.now, line))
        self.now += 1

    def _rename(self, folder: PurePosixPath, names: dict[str, int | None]) -> None:
        for name, number in names.items():
            if number is None:
                del self._names[folder / name]
            else:
                self._names[folder / name] = number
        self._add(Change(self.now, folder, names=tuple(names.items())))

    def _add(self, change: Change) -> None:
        self._uncertain[change.target].append(change.moment)
        self.changes.append(change)
        self.now += 1


@dataclass(frozen=True)
class Crash:
    """A loss of power at a moment, and what of the changes that were not certain lasts."""

    moment: int
    #: Per change, by its moment, the sectors of it that last; absent where all do.
    lasting: Lasting

    def files(self, disk: Disk) -> dict[PurePosixPath, bytes]:
        """Return the files that are left, by their path."""
        contents: defaultdict[int, bytearray] = defaultdict(bytearray)
        names: defaultdict[PurePosixPath, dict[str, int | None]] = defaultdict(dict)
        for change in takewhile(lambda each: each.moment < self.moment, disk.changes):
            lasts = self.lasting.get(change.moment)
            if isinstance(change.target, PurePosixPath):
                if lasts is None or lasts(0):
                    names[change.target].update(change.names)
            elif change.data is not None:
                _write(contents[change.target], change.offset, change.data, lasts)
            elif lasts is None or lasts(0):
                content = contents[change.target]
                content[change.offset :] = bytes(max(0, change.offset - len(content)))

        def is_left(folder: PurePosixPath) -> bool:
            above = folder.parent
            made = names.get(above, {}).get(folder.name) == _FOLDER and is_left(above)
            return made or above not in disk.folders

        return {
            folder / name: bytes(contents[number])
            for folder, entries in names.items()
            if is_left(folder)
            for name, number in entries.items()
            if number is not None and number != _FOLDER
        }


def crashes(disk: Disk, chance: random.Random) -> Iterator[Crash]:
    """Yield losses of power without end, drawn over all moments and manners of losing."""
    while True:
        yield crash_at(disk, chance.randrange(disk.now + 1), chance)


def crash_at(disk: Disk, moment: int, chance: random.Random) -> Crash:
    """Return a loss of power at a moment, in a drawn manner of losing."""
    before = takewhile(lambda each: each.moment < moment, disk.changes)
    uncertain = [each for each in before if disk.certain.get(each.moment, moment) >= moment]
    return Crash(moment, chance.choice(MANNERS)(uncertain, chance))


def _all_lost(changes: Sequence[Change], chance: random.Random) -> Lasting:
    return {each.moment: _lost for each in changes}


def _none_lost(changes: Sequence[Change], chance: random.Random) -> Lasting:
    return {}


def _some_lost(changes: Sequence[Change], chance: random.Random) -> Lasting:
    share = chance.random()
    return {each.moment: _lost for each in changes if chance.random() < share}


def _last_lost(changes: Sequence[Change], chance: random.Random) -> Lasting:
    return _all_lost(changes[chance.randint(0, len(changes)) :], chance)


def _bytes_lost(changes: Sequence[Change], chance: random.Random) -> Lasting:
    return _all_lost([each for each in changes if isinstance(each.target, int)], chance)


def _names_lost(changes: Sequence[Change], chance: random.Random) -> Lasting:
    return _all_lost([each for each in changes if not isinstance(each.target, int)], chance)


def _torn(changes: Sequence[Change], chance: random.Random) -> Lasting:
    """Lose some sectors of some writes: those after a drawn one, or anywhere."""
    lasting = {}
    for each in changes:
        if each.data and chance.random() < 0.5:
            sectors = range(len(each.data) // SECTOR + 2)
            kept = sectors[: chance.randrange(len(sectors))]
            if chance.random() < 0.5:
                kept = [sector for sector in sectors if chance.random() < 0.5]
            lasting[each.moment] = frozenset(kept).__contains__
    return lasting


#: The ways in which what is not certain may be lost.
MANNERS = (_all_lost, _none_lost, _some_lost, _last_lost, _bytes_lost, _names_lost, _torn)


def _lost(sector: int) -> bool:
    return False


def _write(
    content: bytearray, offset: int, data: bytes, lasts: Callable[[int], bool] | None
) -> None:
    if lasts is None:
        pieces = [(0, len(data))]
    else:
        # Sectors lie on the disk, not in the write.
        edges = [0, *range(SECTOR - offset % SECTOR, len(data), SECTOR), len(data)]
        pieces = [pair for sector, pair in enumerate(pairwise(edges)) if lasts(sector)]
    for start, stop in pieces:
        place = offset + start
        content.extend(bytes(max(0, place - len(content))))
        content[place : place + stop - start] = data[start:stop]
