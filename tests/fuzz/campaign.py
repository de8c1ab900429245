"""A campaign: ``python -m tests.fuzz.campaign SECONDS [TARGET ...]`` fuzzes targets in turn.

With atheris (not among the dependencies: it has wheels for few systems) mutation is guided by the
coverage of the product's Python and of the standard library's readers; without it, and under
``--plain``, bytes are mutated blindly. Each target runs in a process of its own, whose memory is
bounded. A finding is written to ``--out``, one file and one traceback each, and the campaign goes
on. The same command again goes on from the inputs that ``--out`` keeps, and prints the sum of all
sittings.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
import traceback
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType

from tests.fuzz.mutation import mutated, mutated_document

#: Bytes of the address space beyond what the process has at first; see ``Target.most_mib``.
MOST_BYTES = 3200 * 2**20
#: Seconds of processor time that one input may take, and seconds in all: others may be at work.
MOST_SECONDS, MOST_SECONDS_WAITING = 10, 600
#: What is guided by: the product, and what it reads with that is Python.
_INSTRUMENTED = (
    *("catalog", "jobs", "analysis.report.folder", "survey.text", "cronsim"),
    *("tarfile", "zipfile", "pickletools", "tomllib", "gzip"),
)


class TooMuch(BaseException):
    """An input takes more memory or time than it may.

    It is no ``Exception``: readers catch those, and would take it for a damaged file.
    """


class Campaign:
    """Runs one target, and keeps what it finds."""

    def __init__(self, name: str, out: Path, pause: Path | None = None) -> None:
        from tests.fuzz.readers import TARGETS, kept

        warnings.simplefilter("ignore")
        self.name, self.out, self.target, self.pause = name, out, TARGETS[name], pause
        right = self.target.right()
        # The first of these load libraries, whose memory is not theirs.
        self.seeds, self.loading = right + kept(name), len(right)
        self.folder = _folder_in_memory()
        # Those of earlier sittings are written down.
        written = out.glob(f"{name}-*.txt")
        self.executions = 0
        self.findings = {path.stem.removeprefix(f"{name}-").rpartition("-")[0] for path in written}
        self.known = frozenset(self.findings)
        for data in self.seeds:
            self.one(data)
        size, self.resident = _memory()
        # What would take far more is refused by the system, and not the machine brought down.
        limit = size + MOST_BYTES
        resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))

    def one(self, data: bytes) -> None:
        """Run the target on some bytes; write them down where that is a finding."""
        from tests.fuzz.readers import TARGETS, run

        while self.pause is not None and self.pause.exists():
            time.sleep(5)
        self.executions += 1
        # What is killed, or ends the process, has left its input here.
        (self.out / f"{self.name}.last").write_bytes(data)
        (_, resident), peak = _memory(), _peak()
        # The first inputs load what the reader needs, which takes time and memory.
        loaded = self.executions > self.loading
        if loaded:
            signal.setitimer(signal.ITIMER_PROF, MOST_SECONDS)
        signal.alarm(MOST_SECONDS_WAITING)
        try:
            run(self.name, data, Path(self.folder.name))
            # What inputs before it left is not its own; the most is beyond what was there.
            taken = _peak() - resident if _peak() > peak else 0
            if loaded and taken > TARGETS[self.name].most_mib * 2**20:
                raise TooMuch(f"{taken // 1024:,} kB")
        except (Exception, TooMuch) as problem:  # noqa: BLE001 - whatever it is, it is a finding
            self._keep(data, problem)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.alarm(0)

    def _keep(self, data: bytes, problem: BaseException) -> None:
        frames = traceback.extract_tb(problem.__traceback__)
        place = next((f for f in reversed(frames) if "/tests/" not in f.filename), frames[-1])
        key = f"{type(problem).__name__}-{Path(place.filename).stem}-{place.lineno}"
        if key in self.findings:
            return
        self.findings.add(key)
        digest = hashlib.sha256(data).hexdigest()[:8]
        stem = self.out / f"{self.name}-{key}-{digest}"
        stem.with_suffix(".input").write_bytes(data)
        stem.with_suffix(".txt").write_text("".join(traceback.format_exception(problem)))

    def tally(self, seconds: float) -> None:
        """Add a line about what was done."""
        grown = (_memory()[1] - self.resident) // 2**20
        line = {"target": self.name, "executions": self.executions, "seconds": round(seconds, 1)}
        line["grown_mib"] = grown
        with (self.out / "tally.jsonl").open("a") as file:
            file.write(json.dumps(line | {"findings": sorted(self.findings - self.known)}) + "\n")


def _folder_in_memory() -> TemporaryDirectory[str]:
    """Return a folder for a target's files, in memory where the machine has such a place."""
    memory = Path("/dev/shm")
    return TemporaryDirectory(dir=memory if memory.is_dir() else None)


def worked() -> float:
    """Return the seconds of processor time that this process and its children took so far."""
    return sum(os.times()[:4])


def _peak() -> int:
    """Return the most memory that this process had at any time, in bytes."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _memory() -> tuple[int, int]:
    """Return the size of this process and what of it is resident, in bytes."""
    size, resident = Path("/proc/self/statm").read_text().split()[:2]
    return int(size) * resource.getpagesize(), int(resident) * resource.getpagesize()


def _too_long(number: int, _frame: FrameType | None) -> None:
    seconds = MOST_SECONDS if number == signal.SIGPROF else MOST_SECONDS_WAITING
    raise TooMuch(f"{seconds} seconds")


def blind(campaign: Campaign, seconds: float, seed: int = 0) -> None:
    """Mutate seeds and what came of them, without coverage."""
    started = worked()
    generator, pool = random.Random(seed), list(campaign.seeds)
    while worked() - started < seconds:
        data = generator.choice(pool)
        if campaign.target.document and generator.random() < 0.5:
            data = mutated_document(data, generator)
        else:
            data = mutated(data, generator, pool)
        campaign.one(data)
        if generator.random() < 0.02:
            pool.append(data[:20_000])
    campaign.tally(worked() - started)


def guided(name: str, out: Path, seconds: int, pause: Path | None) -> None:
    """Mutate by coverage; libFuzzer ends the process, so that the tally is written as it goes."""
    import atheris

    with atheris.instrument_imports(include=list(_INSTRUMENTED)):
        campaign, started = Campaign(name, out, pause), worked()
    corpus = out / f"{name}.corpus"
    corpus.mkdir(exist_ok=True)
    for number, data in enumerate(campaign.seeds):
        (corpus / f"seed-{number}").write_bytes(data)

    def one(data: bytes) -> None:
        campaign.one(data)
        if worked() - started > seconds:
            campaign.tally(worked() - started)
            campaign.folder.cleanup()
            os._exit(0)

    options = [
        "-max_len=65536",
        "-timeout=0",
        "-rss_limit_mb=0",
        # Those go by the clock, and others may be at work.
        "-report_slow_units=86400",
        "-verbosity=0",
        "-print_final_stats=0",
    ]

    def change(data: bytes, most: int, seed: int) -> bytes:
        generator = random.Random(seed)
        if generator.random() < 0.5:
            return mutated_document(data, generator)[:most]
        changed: bytes = atheris.Mutate(data, most)
        return changed

    custom = {"custom_mutator": change} if campaign.target.document else {}
    atheris.Setup([sys.argv[0], *options, str(corpus)], one, **custom)
    atheris.Fuzz()


def totals(out: Path) -> str:
    """Return what was done in all sittings that wrote into a folder, a line a target."""
    sums: dict[str, list[float]] = {}
    for line in (out / "tally.jsonl").read_text().splitlines():
        done = json.loads(line)
        for name in (done["target"], "all"):
            sums.setdefault(name, [0, 0, 0])
            each = (done["executions"], done["seconds"], len(done["findings"]))
            sums[name] = [before + more for before, more in zip(sums[name], each, strict=True)]
    rows = (f"{name}: {n:,.0f} inputs, {s:,.0f} s, {new:.0f}" for name, (n, s, new) in sums.items())
    return "\n".join(f"{row} findings" for row in rows)


def _all_targets() -> list[str]:
    from tests.fuzz.readers import TARGETS

    return list(TARGETS)


def main() -> None:
    """Run the targets named, or all, in turn and each in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seconds", type=int, help="of processor time, for each target")
    parser.add_argument("targets", nargs="*")
    parser.add_argument("--out", type=Path, default=Path("fuzzing"))
    parser.add_argument("--plain", action="store_true", help="mutate blindly")
    parser.add_argument("--pause", type=Path, help="while this file is there, nothing runs")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--here",
        action="store_true",
        help="in this process; without coverage any number of targets",
    )
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    if not given.here:
        for name in given.targets or _all_targets():
            options = ["--out", str(given.out), "--seed", str(given.seed), "--here"]
            options += ["--plain"] if given.plain else []
            options += ["--pause", str(given.pause)] if given.pause else []
            command = [sys.executable, "-m", "tests.fuzz.campaign", str(given.seconds), name]
            ended = subprocess.run([*command, *options], check=False)
            if ended.returncode:
                last = given.out / f"{name}.last"
                last.rename(given.out / f"{name}-exit{ended.returncode}-{time.time_ns()}.input")
        sys.stdout.write(f"{totals(given.out)}\n")
        return
    for number in (signal.SIGALRM, signal.SIGPROF):
        signal.signal(number, _too_long)
    try:
        import atheris  # noqa: F401

        plain = given.plain
    except ImportError:
        plain = True
    if plain:
        for name in given.targets:
            blind(Campaign(name, given.out, given.pause), given.seconds, given.seed)
    else:
        guided(given.targets[0], given.out, given.seconds, given.pause)


if __name__ == "__main__":
    main()
