"""A service at its users' size: 50 readers, while a scan writes, of 30,000 runs.

``python -m bench.size_service HOME [RUNS] [SECONDS]`` makes the home where there is none
(``bench.large_home``), starts a service of it, and prints what requests take of the processor, how
long they take 50 readers, each of which asks once in two seconds for the page or the signature of
some run, beside /healthz, which reads nothing, and how many segments wait once they have left. What
is about all runs is asked one at a time while the scan writes, with the age of what is given.
"""

from __future__ import annotations

import os
import random
import sys
import threading
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import requests

from bench.large_home import BATCHES, RUNS, batches_of, make_home, run_record
from bench.sql_service import served
from bench.writer import record, scores
from catalog.home import Home, segment_paths
from catalog.store.arrow_rows import batch_table, run_table
from catalog.store.segments import write_segment
from catalog.store.writer import SECONDS_DUE, Writer
from jobs.service.renderer import FRESH_SECONDS

READERS, PERIOD = 50, 2.0

#: Requests of a run by what they are.
ASKED = {
    "model page": "/models/{}",
    "signature": "/api/v1/latest_signatures?run_id={}",
    "healthz": "/healthz",
}

#: Others, asked one at a time.
ALONE = {
    **ASKED,
    "list of models": "/models",
    "models by affinity": "/api/v1/models?sort=-affinity&limit=100",
    "facets": "/api/v1/models/facets?by=family&by=dataset",
    "figure of a signature": "/models/{}/signature",
    "nearest models": "/models/{}/nearest",
}

#: What is about all runs, and how often each is asked.
ABOUT_ALL = {"correlations": "/api/v1/questions/correlations", "overview": "/"}
ROUNDS = 5

#: How many of each of those that readers ask for are asked alone.
OFTEN = 50

#: Seconds between two segments of the scan, and within which its backlog must be merged.
SEGMENT_SECONDS, MERGE_SECONDS = 0.5, 60.0


@dataclass
class Load:
    """What readers met."""

    #: Seconds of the answers by what was asked.
    seconds: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    failed: list[str] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)

    def quantile(self, what: str, share: float) -> float:
        """Return the seconds within which a share of the requests were answered."""
        ordered = sorted(self.seconds[what])
        return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


def read(load: Load, url: str, ids: list[str], number: int) -> None:
    """Ask once in a period, for one thing after the other."""
    session, drawn = requests.Session(), random.Random(number)
    load.over.wait(PERIOD * number / READERS)
    while not load.over.is_set():
        began = time.monotonic()
        what = drawn.choice(list(ASKED))
        answer = session.get(url + ASKED[what].format(drawn.choice(ids)), timeout=60)
        load.seconds[what].append(time.monotonic() - began)
        if answer.status_code != 200:
            load.failed.append(f"{what}: {answer.status_code}")
        load.over.wait(max(0.0, PERIOD - (time.monotonic() - began)))


def scan(load: Load, home: Home, first: int) -> None:
    """Write a finished run as a segment now and then, until it is over and all is merged."""
    drawn = batch_table([record(n, [scores(n)]) for n in range(BATCHES)])
    with Writer.open(home) as writer:
        tried = time.monotonic()
        while not load.over.wait(SEGMENT_SECONDS):
            runs = [run_record(first)]
            write_segment(home.spool, run_table(runs), batches_of(runs, drawn))
            first += 1
            if time.monotonic() - tried > SECONDS_DUE:
                writer.merge()
                tried = time.monotonic()
        deadline = time.monotonic() + MERGE_SECONDS
        while len(segment_paths(home.spool)) > 1 and time.monotonic() < deadline:
            writer.merge()
            time.sleep(0.1)


def busy_seconds(pid: int) -> float:
    """Return the seconds of the processor that a process and those below it took."""
    times = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    ticks = sum(map(int, times)) / os.sysconf("SC_CLK_TCK")
    return ticks + sum(busy_seconds(int(child)) for child in children(pid))


def children(pid: int) -> list[str]:
    """Return the processes that a process started."""
    lists = Path(f"/proc/{pid}/task").glob("*/children")
    return [child for each in lists for child in each.read_text().split()]


def resident_bytes(pid: int) -> int:
    """Return the memory that a process and those below it hold."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    below = sum(resident_bytes(int(child)) for child in children(pid))
    return pages * os.sysconf("SC_PAGE_SIZE") + below


def alone(url: str, pid: int, ids: list[str]) -> None:
    """Print what each request takes when there is no other."""
    for what, address in ALONE.items():
        number = OFTEN if what in ASKED else 5
        # The first of its kind loads libraries.
        requests.get(url + address.format(ids[0]), timeout=600).raise_for_status()
        times, size, before = [], 0, busy_seconds(pid)
        for run in random.sample(ids, number):
            began = time.monotonic()
            answer = requests.get(url + address.format(run), timeout=600)
            answer.raise_for_status()
            times.append(time.monotonic() - began)
            size = max(size, len(answer.content))
        # The kernel counts in ticks of 10 ms: one request's could not be told.
        busy = (busy_seconds(pid) - before) / number * 1000
        cost = f"{busy:.1f} ms of the processor, {sorted(times)[number // 2] * 1000:.0f} ms"
        print(f"  {what}: {cost}, {size / 1000:.0f} kB", flush=True)


def about_all(url: str, pid: int, home: Home) -> None:
    """Print what answers about all runs take, where nothing is new and while a scan writes."""
    for what, address in ABOUT_ALL.items():
        # The first of its kind loads libraries, and reads what is kept.
        requests.get(url + address, timeout=600).raise_for_status()
        began, before = time.monotonic(), busy_seconds(pid)
        requests.get(url + address, timeout=600).raise_for_status()
        taken, busy = time.monotonic() - began, busy_seconds(pid) - before
        print(f"  {what}, nothing new: {taken:.1f} s, {busy:.1f} s of the processor", flush=True)
    load = Load()
    first = 20 * RUNS + os.getpid() * 1000
    # It ends with this process, also where a request fails.
    scanning = threading.Thread(target=scan, args=(load, home, first), daemon=True)
    scanning.start()
    for what, address in ABOUT_ALL.items():
        times, ages, before = list[float](), list[int](), busy_seconds(pid)
        for _ in range(ROUNDS):
            # An answer is kept while the home is not looked at again.
            time.sleep(FRESH_SECONDS + 1)
            began = time.monotonic()
            answer = requests.get(url + address, timeout=600)
            answer.raise_for_status()
            times.append(time.monotonic() - began)
            ages.append(int(answer.headers.get("Age", 0)))
        busy = (busy_seconds(pid) - before) / ROUNDS
        cost = f"{min(times):.2f} to {max(times):.2f} s, {busy:.1f} s of the processor"
        print(f"  {what}: {cost}, of {min(ages)} to {max(ages)} s before", flush=True)
    load.over.set()
    scanning.join()


def loaded(url: str, pid: int, home: Home, ids: list[str], seconds: float) -> None:
    """Print what 50 readers meet while a scan writes, and the backlog that they leave."""
    load, held, busy = Load(), [resident_bytes(pid)], busy_seconds(pid)
    readers = [
        threading.Thread(target=read, args=(load, url, ids, number)) for number in range(READERS)
    ]
    scanning = threading.Thread(target=scan, args=(load, home, 10 * RUNS + os.getpid() * 1000))
    for thread in (scanning, *readers):
        thread.start()
    for _ in range(4):
        time.sleep(seconds / 4)
        held.append(resident_bytes(pid))
    busy = busy_seconds(pid) - busy
    load.over.set()
    for thread in readers:
        thread.join()
    waiting, left = len(segment_paths(home.spool)), time.monotonic()
    scanning.join()
    for what in ASKED:
        p50, p95 = (load.quantile(what, share) * 1000 for share in (0.5, 0.95))
        ratio = p95 / load.quantile("healthz", 0.95) / 1000
        number = len(load.seconds[what])
        print(f"  {what}: {number}, median {p50:.0f} ms, p95 {p95:.0f} ms, {ratio:.1f} x healthz")
    print(f"  failed: {load.failed or 'none'}")
    number = sum(map(len, load.seconds.values()))
    print(f"  the service took {busy / number * 1000:.1f} ms of the processor a request")
    quarters = ", ".join(f"{each / 1e6:.0f}" for each in held)
    print(f"  memory of the service before, and after each quarter: {quarters} MB")
    after = f"{len(segment_paths(home.spool))} after {time.monotonic() - left:.0f} s"
    print(f"  segments that waited when the readers left: {waiting}, {after}")


def main(path: str, runs: int = RUNS, seconds: int = 60) -> None:
    """Print both."""
    home = make_home(Path(path), runs)
    with served(home) as (url, pid):
        began = time.monotonic()
        listed = requests.get(f"{url}/api/v1/models?fields=run_id&limit=10000", timeout=3600)
        ids = [each["run_id"] for each in listed.json()["items"]]
        print(f"{runs:,} runs, the first list after {time.monotonic() - began:.1f} s")
        print("one request at a time:")
        alone(url, pid, ids)
        print("what is about all runs, at last while a scan writes:")
        about_all(url, pid, home)
        print(f"{READERS} readers for {seconds} s, while a scan writes:")
        loaded(url, pid, home, ids, seconds)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
