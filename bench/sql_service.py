"""A service under hostile statements, while 20 clients ask it once a second whether it is there.

``python bench/sql_service.py`` sends each statement below to a service of an empty home, two at
once, and prints those that were answered, the longest time that one took over its limit, the
memory of the processes, and how long /healthz took meanwhile. It takes about two minutes.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path

import requests

from catalog.home import Home
from catalog.open_home import open_home

ROOT = Path(__file__).resolve().parents[1]

#: What a query may take in a campaign: seconds and GB.
SECONDS, MEMORY_GB = 3.0, 0.5

#: Clients that ask /healthz, each once a second.
HEALTH_CLIENTS = 20

#: Reach for files, programs, networks, settings, secrets or another statement: each is refused.
FORBIDDEN = (
    # Files, under every spelling.
    "FROM '/etc/passwd'",
    "FROM '/var/x.csv'",
    'FROM "/var/x.parquet"',
    "FROM 'x.csv'",
    "SELECT * FROM '../signatures.duckdb'",
    "FROM read_text('/etc/passwd')",
    "FROM \"read_text\"('/etc/passwd')",
    "FROM read_blob('/proc/self/environ')",
    "FROM ReAd_CsV_AuTo('/etc/passwd')",
    "SELECT * FROM read_csv(['/etc/passwd'], header := false)",
    "FROM read_json('/etc/passwd')",
    "FROM read_json_objects('/etc/passwd')",
    "FROM read_parquet('/etc/*')",
    "FROM parquet_scan('/etc/passwd')",
    "FROM parquet_metadata('/etc/passwd')",
    "FROM sniff_csv('/etc/passwd')",
    "FROM glob('/etc/*')",
    "FROM main.\"glob\"('/**')",
    "FROM seq_scan('/etc/passwd')",
    "FROM query('FROM read_text(''/etc/passwd'')')",
    "FROM query_table('/etc/passwd')",
    "SELECT (SELECT content FROM read_text('/etc/passwd'))",
    "WITH t AS MATERIALIZED (FROM read_csv('/etc/passwd')) FROM t",
    "FROM read_text(concat('/etc', '/passwd'))",
    # The network.
    "FROM 'https://example.org/x.csv'",
    "FROM read_csv('http://169.254.169.254/latest/meta-data/')",
    "FROM 's3://bucket/x.parquet'",
    "FROM read_parquet('hf://datasets/owner/name/x.parquet')",
    "ATTACH 'https://example.org/x.duckdb'",
    # Other databases, extensions, and what writes.
    "ATTACH '/var/other.duckdb' AS other",
    "ATTACH ':memory:' AS other",
    "DETACH signatures",
    "USE temp",
    "INSTALL httpfs",
    "INSTALL x FROM 'http://example.org'",
    "LOAD '/var/x.duckdb_extension'",
    "COPY runs TO '/var/stolen.csv'",
    "COPY (SELECT 1) TO '/dev/stdout'",
    "COPY runs FROM '/etc/passwd'",
    "EXPORT DATABASE '/var/all'",
    "IMPORT DATABASE '/var/all'",
    "DELETE FROM signatures.main.runs",
    "DROP TABLE signatures.main.runs",
    "INSERT INTO signatures.main.runs SELECT * FROM signatures.main.runs",
    "UPDATE signatures.main.runs SET status = 'done'",
    "CREATE TABLE signatures.main.mine AS SELECT 1",
    # Settings, secrets and the environment.
    "SET enable_external_access = true",
    "SET memory_limit = '100GB'",
    "RESET lock_configuration",
    "PRAGMA threads = 64",
    "SELECT getenv('HOME')",
    "SELECT \"getenv\"('HOME')",
    "CREATE SECRET s (TYPE s3, KEY_ID 'a', SECRET 'b')",
    "CREATE PERSISTENT SECRET s (TYPE http)",
    "DROP SECRET s",
    # Several statements, none, and no text at all.
    "SELECT 1; SELECT 2",
    "SELECT 1; COPY runs TO '/var/stolen.csv'",
    "",
    "-- nothing",
    "SELECT '\0",
)

#: Take time or memory without an end: each is stopped at its limits.
ENDLESS = (
    "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT count(*) FROM t",
    "SELECT sum(hash(range)) FROM range(1000000000000)",
    "FROM range(1000000000000)",
    "SELECT list(range) FROM range(1000000000000)",
    "SELECT repeat('x', 10000000000)",
    "SELECT repeat('x', 1000000000) FROM range(100)",
    "SELECT length(repeat(repeat('x', 100000), 100000))",
    "SELECT count(*) FROM range(1000000) a, range(1000000) b, range(1000000) c WHERE a > b + c",
    "SELECT * FROM range(10000000) ORDER BY hash(range), random()",
    "FROM range(1000000000) WHERE regexp_matches(repeat('ab', 9999) || range, '(a|b|ab)*c$')",
    "SELECT regexp_replace(repeat('ab', 50000000), '(a|b|ab)*?c', '', 'g')",
    "SELECT levenshtein(repeat('a', 4000000), repeat('b', 4000000 + range::INT)) FROM range(9)",
    "SELECT list_sort(range(200000000))",
    "SELECT string_agg(range::VARCHAR, ',') FROM range(1000000000)",
    "SELECT approx_quantile(a.range + b.range, 0.5) FROM range(1000000) a, range(1000000) b",
    "SELECT " + "(" * 20_000 + "1" + ")" * 20_000,
    "SELECT " + " + ".join(["1"] * 45_000),
    "SELECT " + "[" * 20_000 + "]" * 20_000,
    "PIVOT (FROM range(1000000)) ON range USING count(*)",
    "SELECT " + ",".join(["1"] * 500_000),
    "SELECT " + ",".join(["1"] * 1_000_000),
)


@dataclass
class Campaign:
    """What a service did with each statement, and how quick it was for others."""

    #: By statement: the status, and the seconds until it came.
    answers: dict[str, tuple[int, float]] = field(default_factory=dict)
    #: Seconds of each answer of /healthz.
    health: list[float] = field(default_factory=list)
    #: The most bytes that a query's process held, and those of one that asks for nothing.
    peak_bytes: int = 0
    idle_bytes: int = 0

    def health_quantile(self, share: float) -> float:
        """Return the seconds within which a share of the clients were answered."""
        ordered = sorted(self.health)
        return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


@contextmanager
def served(home: Home, *options: str) -> Iterator[tuple[str, int]]:
    """Give the address and the process of a service of a home."""
    command = [sys.executable, "-m", "jobs.cli.main", "--home", str(home.path), "serve"]
    with subprocess.Popen(
        [*command, "--port", "0", "--runner", "local", *options],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        lines = process.stderr or ()
        try:
            yield next(x for x in lines if x.startswith("listening at ")).split()[-1], process.pid
        finally:
            process.terminate()
            # It ends once what it says is taken.
            for _ in lines:
                pass


def ask(url: str, sql: str, ending: str = "") -> requests.Response:
    """Return the answer to a statement."""
    return requests.post(f"{url}/api/v1/sql{ending}", json={"sql": sql}, timeout=60)


def run_campaign(home: Home) -> Campaign:
    """Ask a service every statement, two at once, while others ask /healthz."""
    statements = (*FORBIDDEN, *ENDLESS)
    limits = ("--sql-timeout", f"{SECONDS:g}", "--sql-memory", f"{MEMORY_GB:g}")
    campaign, over = Campaign(), threading.Event()
    with served(home, *limits) as (url, pid):
        watch = threading.Thread(target=_watch_memory, args=(campaign, pid, over))
        watch.start()
        _wait_for_answer(url)
        campaign.idle_bytes, campaign.peak_bytes = campaign.peak_bytes, 0
        clients = [
            threading.Thread(target=_ask_health, args=(campaign, url, over, n / HEALTH_CLIENTS))
            for n in range(HEALTH_CLIENTS)
        ]
        for client in clients:
            client.start()
        try:
            with ThreadPoolExecutor(2) as pool:
                answers = pool.map(lambda sql: _timed(url, sql), statements)
                campaign.answers = dict(zip(statements, answers, strict=True))
        finally:
            over.set()
            for thread in (watch, *clients):
                thread.join()
    return campaign


def _wait_for_answer(url: str) -> None:
    """Ask until a query is answered: the first ones run beside what loads libraries."""
    until = time.monotonic() + 120
    while (answer := ask(url, "SELECT 1")).status_code != HTTPStatus.OK:
        assert time.monotonic() < until, answer.text


def _timed(url: str, sql: str) -> tuple[int, float]:
    began = time.monotonic()
    return ask(url, sql).status_code, time.monotonic() - began


def _ask_health(campaign: Campaign, url: str, over: threading.Event, delay: float) -> None:
    while not over.wait(delay):
        began = time.monotonic()
        assert requests.get(f"{url}/healthz", timeout=60).status_code == 200
        campaign.health.append(time.monotonic() - began)
        delay = max(0.0, 1.0 - campaign.health[-1])


def _watch_memory(campaign: Campaign, pid: int, over: threading.Event) -> None:
    while not over.wait(0.01):
        # Each is a child of the thread that waits for it.
        for children in Path(f"/proc/{pid}/task").glob("*/children"):
            with suppress(OSError):
                for child in children.read_text().split():
                    campaign.peak_bytes = max(campaign.peak_bytes, _peak_of_query(child))


def _peak_of_query(pid: str) -> int:
    with suppress(OSError):
        if b"sql_worker" in Path(f"/proc/{pid}/cmdline").read_bytes():
            status = Path(f"/proc/{pid}/status").read_text().split()
            if "VmHWM:" in status:
                return int(status[status.index("VmHWM:") + 1]) * 1024
    return 0


def main() -> None:
    """Print what the service did."""
    with tempfile.TemporaryDirectory() as folder:
        campaign = run_campaign(open_home(Path(folder) / "home", create=True))
    answered = [sql[:70] for sql, (status, _) in campaign.answers.items() if status < 400]
    slowest = max(seconds for _, seconds in campaign.answers.values())
    times = ", ".join(
        f"{name} {campaign.health_quantile(share) * 1000:.0f} ms"
        for name, share in (("median", 0.5), ("p99", 0.99), ("longest", 1.0))
    )
    print(f"{len(campaign.answers)} statements, answered: {answered or 'none'}")
    print(f"the slowest was over after {slowest:.2f} s, the limit is {SECONDS:g} s")
    print(f"the largest process had {campaign.peak_bytes / 1e6:.0f} MB,", end=" ")
    print(f"of which {campaign.idle_bytes / 1e6:.0f} MB before it was given {MEMORY_GB:g} GB")
    print(f"{len(campaign.health)} answers of /healthz: {times}")


if __name__ == "__main__":
    main()
