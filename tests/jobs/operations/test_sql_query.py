"""Anyone's SQL: bounded in time and memory, ended at once, and every value a value."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet
import pytest

from catalog.home import Home
from catalog.registry.registry import Registry
from catalog.tags import RunLabels
from jobs.operations.sql_query import LIMITS, QueryLimits, SqlQuery, query_process
from jobs.operations.sql_worker import write_result
from survey.errors import SettingsError, StoreError
from tests.catalog.homes import new_home
from tests.style.repository import ROOT

pytestmark = pytest.mark.slow(seconds=7)

#: One call of one function that goes on for hours, and takes no memory.
ENDLESS = (
    "SELECT levenshtein(repeat('a', 4000000), repeat('b', 4000000 + range::INT)) FROM range(9)"
)

#: More than the memory that it is allowed, were it ever held whole.
LARGE = "SELECT repeat('x', 1000) AS x FROM range(150000)"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    return new_home(tmp_path_factory.mktemp("sql") / "home")


def result(home: Home, sql: str, form: Any = "json", limits: QueryLimits | None = None) -> bytes:
    return b"".join(SqlQuery(home, sql, form, limits))


def formatted(sql: str, form: Any = "json") -> bytes:
    stream = io.BytesIO()
    with duckdb.connect() as connection:
        write_result(connection.sql(sql), form, stream, 10)
    return stream.getvalue()


def children(pid: int) -> list[int]:
    return [int(n) for n in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def survey_sql(home: Home, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "jobs.cli.main", "--home", home.path, "sql", *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def test_a_call_that_cannot_be_interrupted_ends_at_its_time(home: Home) -> None:
    others, began = children(os.getpid()), time.monotonic()
    with pytest.raises(SettingsError, match=r"1\.5") as caught:
        result(home, ENDLESS, limits=QueryLimits(seconds=1.5))
    assert time.monotonic() - began < 10
    assert "--timeout" in str(caught.value.hint)
    # What tests before this one started may end meanwhile.
    assert set(children(os.getpid())) <= set(others)


def test_a_querys_time_begins_once_its_libraries_are_loaded(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # In the place of a library: it loads that one if no time runs yet.
    (tmp_path / "resource.py").write_text(
        "import signal, sys\nassert signal.getitimer(signal.ITIMER_REAL)[0] == 0\n"
        "sys.path.pop(0)\ndel sys.modules['resource']\nimport resource\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert json.loads(result(home, "SELECT 1 AS n")) == [{"n": 1}]


def test_a_process_that_waits_answers_one_query_and_ends(home: Home) -> None:
    process = query_process()
    query = SqlQuery(home, "SELECT 1 AS n", "json", process=process)
    for _ in range(2):
        assert json.loads(b"".join(query)) == [{"n": 1}]
        assert process.poll() == 0


def test_a_process_that_waits_ends_with_who_started_it() -> None:
    process = query_process()
    with process:
        process.communicate(timeout=60)
    assert process.returncode != 0


def test_damaged_labels_are_missing_from_a_result_and_that_is_told(tmp_path: Path) -> None:
    home = new_home(tmp_path / "home")
    with Registry(home) as registry:
        registry.labels.set({"r1": RunLabels("VGG")})
    query = SqlQuery(home, "SELECT count(*) AS n FROM models", "json")
    assert (json.loads(b"".join(query)), query.damage) == ([{"n": 0}], None)
    with closing(sqlite3.connect(home.registry)) as connection, connection:
        connection.execute("UPDATE run_labels SET model = x'ff00fe'")
    assert json.loads(b"".join(query)) == [{"n": 0}]
    assert "--repair" in str(query.damage)


def test_ctrl_c_ends_query_and_process_at_once(home: Home) -> None:
    with survey_sql(home, ENDLESS) as process:
        deadline = time.monotonic() + 60
        while not (found := children(process.pid)) and time.monotonic() < deadline:
            time.sleep(0.02)
        time.sleep(0.7)
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 130
        assert time.monotonic() - began < 3
    assert not Path(f"/proc/{found[0]}").exists()


def test_a_query_whose_reader_goes_away_ends(home: Home) -> None:
    others = children(os.getpid())
    pieces = iter(SqlQuery(home, LARGE, "csv"))
    next(pieces)
    assert children(os.getpid()) != others
    pieces.close()
    assert set(children(os.getpid())) <= set(others)


def test_a_result_larger_than_the_memory_is_given_whole(home: Home, tmp_path: Path) -> None:
    # Neither process holds the result: 150 MB, of 100 MB allowed.
    code = f"""
import resource, sys
from catalog.home import Home
from pathlib import Path
from jobs.operations.sql_query import QueryLimits, SqlQuery, query_process
def answered(sql):
    query = SqlQuery(Home(Path(sys.argv[1])), sql, "csv", QueryLimits(memory_gb=0.1))
    size = sum(map(len, query))
    return size, query.rows, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
*_, idle = answered("SELECT 1")
size, rows, peak = answered({LARGE!r})
status = dict(line.split(":") for line in open("/proc/self/status"))
print(size, rows, status["VmHWM"].split()[0], idle, peak)
"""
    ended = subprocess.run(
        [sys.executable, "-c", code, home.path],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    size, rows, own_kib, idle_kib, child_kib = map(int, ended.stdout.split())
    assert (size, rows) == (150_000 * 1003 + 4, 150_000)
    assert own_kib < 100_000
    # Beside its libraries, which take what they take on a machine.
    assert child_kib < idle_kib + 100_000


def test_a_value_larger_than_the_memory_is_refused(home: Home) -> None:
    sql = "SELECT repeat('x', 10000000 + range::INT) FROM range(50)"
    with pytest.raises(SettingsError, match="200 MB") as caught:
        result(home, sql, "csv", QueryLimits(memory_gb=0.2))
    assert "--memory" in str(caught.value.hint)


def test_a_table_shows_its_first_rows_and_counts_all(home: Home) -> None:
    query = SqlQuery(home, "FROM range(3000000)", "table")
    lines = b"".join(query).decode().split()
    assert lines[2:] == [str(number) for number in range(1000)]
    assert (query.shown, query.rows) == (1000, 3_000_000)


#: Values that Python or Arrow cannot hold, with the text that DuckDB's own manual writes.
AWKWARD = {
    "timestamp 'infinity'": "infinity",
    "timestamptz '-infinity'": "-infinity",
    "date 'infinity'": "infinity",
    "date '294247-01-10'": "294247-01-10",
    "timestamp '2026-01-02 03:04:05'": "2026-01-02 03:04:05",
    "340282366920938463463374607431768211455::UHUGEINT": str(2**128 - 1),
    f"{10**60}::BIGNUM": str(10**60),
    "INTERVAL 14 MONTH": "1 year 2 months",
    r"'\xAA'::BLOB": r"\xAA",
    "'101'::BIT": "101",
    "'b'::ENUM('a', 'b')": "b",
    "'12:00:00+02'::TIMETZ": "12:00:00+02",
    "MAP {1: 2}": "{1=2}",
    "union_value(a := 1)": "1",
    "1::VARIANT": "1",
}


def test_values_beyond_pythons_are_values_in_every_format(tmp_path: Path) -> None:
    sql = "SELECT " + ", ".join(f"{value} AS c{n}" for n, value in enumerate(AWKWARD))
    expected = list(AWKWARD.values())
    (row,) = json.loads(formatted(sql))
    assert list(row.values()) == expected
    (row,) = csv.DictReader(io.StringIO(formatted(sql, "csv").decode()))
    assert list(row.values()) == expected
    shown = formatted(sql, "table").decode().splitlines()[2]
    assert " ".join(shown.split()) == " ".join(expected)
    (tmp_path / "x.parquet").write_bytes(formatted(sql, "parquet"))
    assert pyarrow.parquet.read_metadata(tmp_path / "x.parquet").num_rows == 1


def test_numbers_and_what_holds_them_stay_numbers() -> None:
    sql = """SELECT 1::UTINYINT AS a, 1.5 AS a, 'nan'::DOUBLE AS b, true AS c, NULL AS d,
      [1, NULL] AS e, {'f': [0.25::FLOAT], 'g': date 'infinity'} AS h, [['x']] AS i,
      MAP {'j': 'k=l, m'} AS n"""
    deep = {"f": [0.25], "g": "infinity"}
    assert json.loads(formatted(sql)) == [
        {"a": 1, "a_1": 1.5, "b": None, "c": True, "d": None, "e": [1, None], "h": deep,
         "i": [["x"]], "n": {"j": "k=l, m"}}
    ]  # fmt: skip


def test_sums_and_decimals_are_numbers_in_every_format(tmp_path: Path) -> None:
    sql = """SELECT sum(range) AS a, max(170141183460469231731687303715884105727::HUGEINT) AS b,
      1.50::DECIMAL(38, 2) AS c, 2.0 AS d, [sum(range)] AS e, {'f': [0.0000001]} AS g
      FROM range(5)"""
    (row,) = json.loads(formatted(sql))
    assert row == {"a": 10, "b": 2**127 - 1, "c": 1.5, "d": 2, "e": [10], "g": {"f": [1e-7]}}
    assert isinstance(row["d"], int)
    (exact,) = json.loads(formatted("SELECT 12345678901234567890.25::DECIMAL(38, 2) AS a"))
    assert exact == {"a": "12345678901234567890.25"}
    written = formatted(sql, "csv").decode().splitlines()[1]
    assert written.startswith(f"10,{2**127 - 1},1.50,2.0,")
    shown = formatted(f"{sql} UNION ALL SELECT 7, 7, 7, 7, [], NULL", "table").decode().splitlines()
    assert shown[2].split()[:5] == ["10", str(2**127 - 1), "1.50", "2.0", "10"]
    # Numbers end where their columns end.
    assert shown[3].startswith(f"{7:2}  {7:39}  7.00  7.0")
    assert "0.0000001" in shown[2]
    (tmp_path / "x.parquet").write_bytes(formatted(sql, "parquet"))
    kept = pyarrow.parquet.read_table(tmp_path / "x.parquet")
    assert kept["b"].to_pylist() == [2**127 - 1]


def test_an_empty_structure_is_text(tmp_path: Path) -> None:
    sql = "SELECT {} AS a, {'b': {}} AS c, [{}] AS d, MAP {'f': {}} AS e"
    (row,) = json.loads(formatted(sql))
    assert row == {"a": "{}", "c": {"b": "{}"}, "d": ["{}"], "e": {"f": "{}"}}
    (tmp_path / "x.parquet").write_bytes(formatted(sql, "parquet"))
    kept = pyarrow.parquet.read_table(tmp_path / "x.parquet")
    assert kept["a"].to_pylist() == ["{}"]


def test_columns_of_one_name_are_numbered_beside_names_that_look_so() -> None:
    (row,) = json.loads(formatted("SELECT 1 AS a, 2 AS a, 3 AS a_1, 4 AS a"))
    assert row == {"a": 1, "a_2": 2, "a_1": 3, "a_3": 4}


def test_errors_of_a_query_come_back_from_its_process(home: Home, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="twelve"):
        result(home, "SELECT CAST(if(range = 9999, 'twelve', '1') AS INT) FROM range(10000)")
    with pytest.raises(SettingsError) as caught:
        result(home, "SELECT afinity FROM signatures")
    assert "affinity" in str(caught.value.hint)
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "signatures.duckdb").write_bytes(b"x" * 9000)
    with pytest.raises(StoreError, match=str(broken)):
        result(Home(broken), "SELECT 1")


@pytest.mark.parametrize("form", ["table", "csv"])
def test_a_terminal_obeys_no_text_of_a_query(home: Home, form: Any) -> None:
    # The process that writes it can open no file, such as that of a codec.
    written = result(home, "SELECT 'a' || chr(27) || '[2J' AS x", form).decode()
    assert r"a\x1b[2J" in written
    assert "\x1b" not in written


@pytest.mark.parametrize("value", [0.0, -1.0, LIMITS[1] * 2, float("inf"), float("nan")])
def test_limits_that_are_none_are_refused(value: float) -> None:
    with pytest.raises(SettingsError):
        QueryLimits(seconds=value)
    with pytest.raises(SettingsError):
        QueryLimits(memory_gb=value)


def printed_by(code: str) -> list[str]:
    """Return the words that a program of its own prints, which imports the product."""
    ended = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    return ended.stdout.split()


def test_the_process_of_a_query_can_reach_nothing_by_itself(tmp_path: Path) -> None:
    # Beneath DuckDB: whatever ran in that process, the kernel would refuse it.
    code = f"""
import socket, os
from jobs.operations.sql_worker import bound_memory, lock_down
kept = open({str(tmp_path / "kept")!r}, "wb", buffering=0)
bound_memory(50_000_000)
lock_down()
def refused(action):
    try:
        action()
    except (OSError, MemoryError):
        return True
print(*map(refused, [lambda: open("/etc/passwd"), lambda: socket.socket(), lambda: os.pipe(),
      lambda: kept.write(b"x"), lambda: os.listdir("/"), lambda: bytearray(100_000_000)]))
bytearray(20_000_000)
"""
    printed = printed_by(code)
    assert printed == ["True"] * 6


def test_the_process_of_a_query_can_change_no_file_by_its_name(tmp_path: Path) -> None:
    kept, empty = tmp_path / "kept", tmp_path / "empty"
    kept.write_text("as before")
    empty.mkdir()
    changes = [
        "os.truncate(kept, 0)",
        "os.unlink(kept)",
        "os.rename(kept, kept + '2')",
        "os.link(kept, kept + '2')",
        "os.symlink(kept, kept + '2')",
        "os.mkdir(kept + '2')",
        "os.rmdir(empty)",
        "open(kept, 'r+')",
        "open(kept + '2', 'w')",
    ]
    # In a thread that begins later, as DuckDB's do.
    code = f"""
import os, threading
from jobs.operations.read_only_process import give_up_changes
kept, empty = {str(kept)!r}, {str(empty)!r}
def change():
    for each in {changes!r}:
        try:
            eval(each)
        except PermissionError:
            print("refused")
print(give_up_changes())
thread = threading.Thread(target=change)
thread.start()
thread.join()
"""
    printed = printed_by(code)
    if printed[0] == "False":
        pytest.skip("this system has no Landlock")
    assert printed == ["True", *["refused"] * len(changes)]
    assert sorted(tmp_path.iterdir()) == [empty, kept]
    assert kept.read_text() == "as before"
