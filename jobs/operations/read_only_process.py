"""A process that can change no file, by Landlock, which is a part of Linux.

https://docs.kernel.org/userspace-api/landlock.html
"""

from __future__ import annotations

import ctypes
import os
import struct

#: Numbers of the system's calls, the same on x86 and ARM.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_NO_NEW_PRIVILEGES = 38
#: A rule of what is allowed below a folder; asking for the version alone.
_BELOW, _VERSION = 1, 1
#: Rights to files by their bits, and the rights that each version of Landlock has.
_EXECUTE, _READ_FILE, _READ_FOLDER = 1 << 0, 1 << 2, 1 << 3
_RIGHTS = {1: 2**13 - 1, 2: 2**14 - 1, 3: 2**15 - 1}


def landlock_version() -> int:
    """Return the version of Landlock that this system has; 0 where it has none, or forbids it."""
    return max(0, _call(_CREATE_RULESET, None, ctypes.c_size_t(0), _VERSION))


def give_up_changes() -> bool:
    """Give up making, removing, renaming, cutting and writing files, in this thread and later ones.

    Files can be read as before. It cannot be undone.

    Returns
    -------
    bool
        Whether the system does it: Linux from 5.13, and from 6.2 for cutting a file by its name.
    """
    if not (version := landlock_version()):
        return False
    rights = struct.pack("=Q", _RIGHTS[min(version, max(_RIGHTS))])
    if (rules := _call(_CREATE_RULESET, rights, ctypes.c_size_t(len(rights)), 0)) < 0:
        return False
    root = None
    try:
        root = os.open("/", os.O_PATH | os.O_DIRECTORY)
        below = struct.pack("=Qi", _EXECUTE | _READ_FILE | _READ_FOLDER, root)
        added = _call(_ADD_RULE, rules, _BELOW, below, 0)
        ctypes.CDLL(None).prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        return not added and not _call(_RESTRICT_SELF, rules, 0)
    finally:
        for descriptor in (rules, root):
            if descriptor is not None:
                os.close(descriptor)


def _call(number: int, *arguments: object) -> int:
    """Return the result of a call of the system; below 0 if it fails."""
    return int(ctypes.CDLL(None).syscall(number, *arguments))
