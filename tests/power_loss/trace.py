"""The system calls of a process on the files of a home, recorded by strace."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path, PurePosixPath

from tests.power_loss.disk import Disk

#: The calls that change files or make changes last.
CALLS = (
    *("open", "openat", "creat", "lseek", "close"),
    *("write", "pwrite64", "writev", "pwritev", "pwritev2", "copy_file_range", "sendfile"),
    *("truncate", "ftruncate", "fallocate", "rename", "renameat", "renameat2"),
    *("link", "linkat", "symlink", "symlinkat", "unlink", "unlinkat", "mkdir", "mkdirat", "rmdir"),
    *("fsync", "fdatasync", "sync_file_range", "msync"),
)

_LINE = re.compile(r"(\d+) +(\w+)\((.*)\) += (-?\d+)(?:<.*>)?.*", re.DOTALL)
_UNFINISHED = re.compile(r"(\d+) +(.*) <unfinished \.\.\.>\n?", re.DOTALL)
_RESUMED = re.compile(r"(\d+) +<\.\.\. \w+ resumed>(.*)", re.DOTALL)
_TEXT = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')
_OPENED = re.compile(r"(\d+)<((?:\\x[0-9a-f]{2})*)>")


def recorded(command: list[str], home: Path, record: Path) -> Disk:
    """Run a Python module under strace and return what it did to a new home's disk.

    Parameters
    ----------
    command : list of str
        The module and its arguments. What it prints is acknowledged.
    home : pathlib.Path
        The folder whose files count, but for its cache, which holds nothing that was measured.
    record : pathlib.Path
        Where strace writes.
    """
    traced = ("strace", "-f", "-qq", "-xx", "-y", "-s", str(1 << 26), "-e", "signal=none")
    options = ("-e", f"trace={','.join(CALLS)}", "-o", str(record))
    subprocess.run([*traced, *options, sys.executable, "-m", *command], check=True, timeout=600)
    return _Replay(PurePosixPath(home)).of(record)


class _Replay:
    """Does a process's calls again, on a ``Disk``."""

    def __init__(self, home: PurePosixPath) -> None:
        self._home = home
        self._disk = Disk()
        #: Where each open file's next write goes, by its number and path.
        self._positions: dict[tuple[str, PurePosixPath], int] = {}

    def of(self, record: Path) -> Disk:
        """Return the disk after the calls that succeeded, in the order in which they returned."""
        begun: dict[str, str] = {}
        marks = (_encoded(str(self._home.parent)), "write(1<", "unfinished", "resumed")
        with record.open(encoding="ascii") as lines:
            for line in lines:
                if not any(mark in line[:9000] for mark in marks):
                    continue
                if unfinished := _UNFINISHED.fullmatch(line):
                    begun[unfinished[1]] = unfinished[2]
                    continue
                if resumed := _RESUMED.fullmatch(line):
                    line = f"{resumed[1]} {begun.pop(resumed[1])}{resumed[2]}"  # noqa: PLW2901
                if (call := _LINE.fullmatch(line)) and (result := int(call[4])) >= 0:
                    self._do(call[2], call[3], result)
        return self._disk

    def _do(self, call: str, arguments: str, result: int) -> None:
        texts = [_decoded(each) for each in _TEXT.findall(arguments)]
        opened = _OPENED.match(arguments)
        paths = [PurePosixPath(os.fsdecode(each)) for each in texts if each.startswith(b"/")]
        if opened and not arguments.startswith("AT_FDCWD"):
            paths = [PurePosixPath(os.fsdecode(_decoded(opened[2])))]
            # Other programs that it starts print too, such as those that ask for the machine.
            if call == "write" and opened[1] == "1" and texts[0].startswith(b"{"):
                self._disk.acknowledge(texts[0].decode())
        # Of the folder that the home lies in, whether its name there lasts.
        synced = call == "fsync" and paths == [self._home.parent]
        within = bool(paths) and paths[0].is_relative_to(self._home)
        if not (synced or within) or "cache" in paths[0].parts:
            return
        key = (opened[1] if opened else "", paths[0])
        if call in ("open", "openat"):
            self._open(paths[0], arguments, str(result))
        elif call in ("mkdir", "rename", "unlink"):
            getattr(self._disk, call)(*paths)
        elif call in ("fsync", "fdatasync"):
            self._disk.sync(paths[0])
        elif call != "close":
            self._change(call, key, arguments, texts[0][:result] if texts else b"", result)

    def _change(
        self,
        call: str,
        key: tuple[str, PurePosixPath],
        arguments: str,
        data: bytes,
        result: int,
    ) -> None:
        last = arguments.rpartition(", ")[2]
        if call == "lseek":
            self._positions[key] = result
        elif call == "write":
            self._disk.write(key[1], self._positions[key], data)
            self._positions[key] += result
        elif call == "pwrite64":
            self._disk.write(key[1], int(last), data)
        elif call == "ftruncate":
            self._disk.truncate(key[1], int(last))
        else:
            raise NotImplementedError(f"{call}({arguments[:200]})")

    def _open(self, path: PurePosixPath, arguments: str, number: str) -> None:
        if path in self._disk.folders:
            return
        if "O_CREAT" in arguments:
            self._disk.create(path)
        if "O_TRUNC" in arguments:
            self._disk.truncate(path, 0)
        end = self._disk.size(path) if "O_APPEND" in arguments else 0
        self._positions[number, path] = end


def _decoded(text: str) -> bytes:
    return bytes.fromhex(text.replace("\\x", ""))


def _encoded(text: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in text.encode())
