"""Processes that fetch one file at once.

``python -m tests.catalog.downloads.fetch_file ROOT URL COUNT``.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from catalog.downloads import FileStore
from catalog.models.base import RemoteFile


def main() -> int:
    root, url, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    children = []
    for _ in range(count):
        child = os.fork()
        if child == 0:
            path = FileStore(root).get(RemoteFile(url=url, name="weights.pth"))
            os._exit(0 if path.is_file() else 1)
        children.append(child)
    return sum(os.waitpid(child, 0)[1] != 0 for child in children)


if __name__ == "__main__":
    sys.exit(main())
