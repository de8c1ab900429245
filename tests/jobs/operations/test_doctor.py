"""The doctor's look at a home while a scan changes it."""

from __future__ import annotations

import threading
from pathlib import Path

from catalog.open_home import open_home
from jobs.operations.doctor import CHECKS


def test_files_that_vanish_from_the_caches_are_no_error(tmp_path: Path) -> None:
    home = open_home(tmp_path / "home", create=True)
    home.cache.mkdir(exist_ok=True)
    (home.cache / "kept").write_bytes(bytes(1000))
    ended = threading.Event()

    def download() -> None:
        while not ended.is_set():
            for number in range(50):
                (home.cache / f"{number}.json").touch()
            for number in range(50):
                (home.cache / f"{number}.json").unlink()

    thread = threading.Thread(target=download)
    thread.start()
    try:
        looks = [list(CHECKS["home"](home.path)) for _ in range(20)]
    finally:
        ended.set()
        thread.join()
    for findings in looks:
        (caches,) = (finding for finding in findings if finding.check == "caches")
        assert caches.state == "ok"
        assert caches.detail.endswith(": 1 kB")
