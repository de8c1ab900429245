"""A reader beside slow questions: a model's page once a second, while 60 clients ask about many.

``python -m bench.slow_questions [HOME] [SECONDS]`` makes a home of 3,000 runs where there is none
(``bench.large_home``), starts a service of it, and prints how long the pages took alone and beside
the questions, of which no two are the same, and what became of those.
"""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import requests

from bench.large_home import make_home
from bench.sql_service import served

RUNS, CLIENTS = 3000, 60

#: What clients ask, one after the other: answers, pages of them, and SQL. Every model matches, but
#: what was asked before is another question.
SLOW = (
    "/api/v1/questions/distances?family={}&model=*&model=*_{}",
    "/api/v1/questions/clusters?family={}&model=*&model=*_{}",
    "/questions/regressions?family={}&model=*&model=*_{}",
    "/map?family={}&model=*&model=*_{}",
    "/sql?query=SELECT sum(hash(range, '{}')) FROM range(100000000000) WHERE range > {}",
)
FAMILIES = ("ResNet", "VGG", "ViT", "ConvNeXt", "DenseNet", "EfficientNet", "Swin", "RegNet")


def page_seconds(url: str, ids: list[str], seconds: int, over: threading.Event) -> list[float]:
    """Return how long a model's page took, asked once a second."""
    taken = []
    with requests.Session() as session:
        for number in range(seconds):
            began = time.monotonic()
            address = f"{url}/models/{ids[number % len(ids)]}"
            session.get(address, timeout=600).raise_for_status()
            taken.append(time.monotonic() - began)
            over.wait(max(0.0, 1 - taken[-1]))
    return taken


def ask_slowly(url: str, place: int, over: threading.Event, answers: Counter[int]) -> None:
    """Ask one question after another, and count the answers by their status."""
    number = place
    while not over.is_set():
        asked = SLOW[number % len(SLOW)].format(FAMILIES[number % len(FAMILIES)], number % 200)
        try:
            answers[requests.get(url + asked, timeout=150).status_code] += 1
        except requests.Timeout:
            answers[0] += 1
        number += CLIENTS


def shown(taken: list[float]) -> str:
    """Return the median and the 95th percentile of some seconds."""
    ordered = sorted(taken)
    median, late = (ordered[int(share * (len(ordered) - 1))] * 1000 for share in (0.5, 0.95))
    return f"{len(ordered)} pages, median {median:.0f} ms, p95 {late:.0f} ms"


def main(path: Path, seconds: int = 60) -> None:
    """Print both."""
    over, answers = threading.Event(), Counter[int]()
    with served(make_home(path, RUNS)) as (url, _):
        listed = requests.get(f"{url}/api/v1/models?fields=run_id&limit=200", timeout=3600)
        ids = [each["run_id"] for each in listed.json()["items"]]
        requests.get(f"{url}/models/{ids[0]}", timeout=600).raise_for_status()
        print(f"alone: {shown(page_seconds(url, ids, seconds, over))}", flush=True)
        clients = [
            threading.Thread(target=ask_slowly, args=(url, place, over, answers))
            for place in range(CLIENTS)
        ]
        for client in clients:
            client.start()
        time.sleep(5)
        beside = page_seconds(url, ids, seconds, over)
        over.set()
        print(f"beside {CLIENTS} slow questions: {shown(beside)}")
        for client in clients:
            client.join()
        print(f"answers by status, 0 without one in time: {dict(sorted(answers.items()))}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        home = Path(sys.argv[1]) if sys.argv[1:] else Path(folder) / "home"
        main(home, *map(int, sys.argv[2:]))
