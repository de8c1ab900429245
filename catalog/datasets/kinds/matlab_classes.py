"""MATLAB's list of ImageNet's classes, from stdin to stdout as JSON: a script, run apart.

scipy ends the process on some damaged files, and makes whatever one declares. Neither is to happen
to a scan: ``catalog.datasets.kinds.imagenet_devkit`` runs this in a process of its own, which has
little memory and time. Of the product nothing is imported here.
"""

from __future__ import annotations

import io
import json
import resource
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

#: Memory beyond what the libraries take, in bytes; seconds of processor time.
MOST_BYTES = 2**29
MOST_SECONDS = 20


def main() -> None:
    """Print number, wnid and number of children of each class."""
    from scipy.io import loadmat

    read: Callable[..., dict[str, Any]] = loadmat  # its stubs know paths alone
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    most = pages * resource.getpagesize() + MOST_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    resource.setrlimit(resource.RLIMIT_CPU, (MOST_SECONDS, MOST_SECONDS))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    warnings.simplefilter("ignore")
    content = io.BytesIO(sys.stdin.buffer.read())
    synsets = read(content, variable_names=("synsets",), squeeze_me=True)["synsets"]
    numbers, wnids = synsets["ILSVRC2012_ID"].tolist(), synsets["WNID"].tolist()
    children = synsets["num_children"].tolist()
    rows = [
        (int(number), str(wnid), int(count))
        for number, wnid, count in zip(numbers, wnids, children, strict=True)
    ]
    sys.stdout.write(json.dumps(rows))


if __name__ == "__main__":
    main()
