"""One table, four ways to write it."""

import csv
import datetime
import io
import json
import math
import os
import threading

import pyarrow as pa
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

from catalog.open_home import open_home
from jobs.cli.main import app
from jobs.cli.output import emit
from survey import SettingsError
from tests.jobs.cli.streams import Terminal

TABLE = pa.Table.from_pylist(
    [
        {"name": "a", "score": 0.12345678901, "count": 3, "flags": ["ridge", "dead"], "none": None},
        {"name": "b", "score": None, "count": 40, "flags": [], "none": None},
    ]
)


def as_text(table, folder):
    emit(table, "table", folder / "out.txt")
    return (folder / "out.txt").read_text()


def test_text_is_aligned_and_says_null_as_a_dash(tmp_path):
    lines = as_text(TABLE, tmp_path).splitlines()
    assert lines[0].split() == ["name", "score", "count", "flags", "none"]
    assert lines[2].split() == ["a", "0.1235", "3", "ridge,", "dead", "-"]
    assert lines[3].split() == ["b", "-", "40", "-", "-"]


def test_columns_of_one_name_are_all_kept(tmp_path):
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2]), pa.array([3])], ["a", "a", "b"])
    emit(twice, "json", tmp_path / "out.json")
    assert json.loads((tmp_path / "out.json").read_text()) == [{"a": 1, "a_1": 2, "b": 3}]


@pytest.mark.parametrize(
    ("flag", "options"),
    [
        ("--format", ("sql", "-o", "m.xlsx", "SELECT 1")),
        # The address is wrong too, so that nothing would listen.
        ("--port", ("serve", "--port", "65536", "--webhook", "nowhere")),
    ],
)
def test_an_ending_of_no_format_and_a_port_beyond_all_are_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path, flag, options
):
    monkeypatch.chdir(tmp_path)
    refused = CliRunner().invoke(app, ["--home", str(tmp_path / "home"), *options])
    assert (refused.exit_code, flag in refused.output) == (2, True)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("file", ["nowhere/x.csv", "taken"])
@pytest.mark.parametrize(
    "verb",
    [
        # What else is wrong is known later.
        ("sql", "SELECT 1", "--home", "no-home"),
        ("drift", "--home", "no-home"),
        ("activations", "no-study"),
        ("linearise", "--model", "no-model"),
    ],
)
def test_a_table_s_file_is_refused_before_any_work(monkeypatch, tmp_path, verb, file):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").mkdir()
    refused = CliRunner().invoke(app, [*verb, "--format", "csv", "-o", file])
    assert (refused.exit_code, file in refused.stderr) == (2, True)


def test_a_dash_is_standard_output(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    home = open_home(tmp_path / "home", create=True)
    asked = ["--home", str(home.path), "sql", "SELECT 7 AS n", "--format", "csv", "-o", "-"]
    assert CliRunner().invoke(app, asked).stdout == '"n"\n7\n'
    assert [each.name for each in tmp_path.iterdir()] == ["home"]


def test_links_are_followed_and_pipes_are_written_to(tmp_path):
    target, link, pipe = (tmp_path / name for name in ("target.json", "link.json", "pipe.json"))
    target.write_text("[]")
    link.symlink_to(target)
    emit(TABLE, "json", link)
    assert link.is_symlink()
    assert len(json.loads(target.read_text())) == 2
    os.mkfifo(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    emit(TABLE, "json", pipe)
    reader.join(10)
    assert pipe.is_fifo()
    assert read == [target.read_text()]
    assert {each.name for each in tmp_path.iterdir()} == {target.name, link.name, pipe.name}


def test_small_numbers_are_not_shown_as_zero(tmp_path):
    text = as_text(pa.table({"x": [3e-6, 0.0, 123456.0]}), tmp_path)
    assert [line.strip() for line in text.splitlines()[2:]] == ["3e-06", "0.0000", "1.235e+05"]


@pytest.mark.parametrize("terminal", [False, True])
def test_a_terminal_s_width_is_kept_and_a_pipe_has_none(monkeypatch, tmp_path, terminal):
    class Stream(io.BytesIO):
        buffer = property(lambda self: self)

        def isatty(self) -> bool:
            return terminal

    monkeypatch.setenv("COLUMNS", "40")
    wide = pa.table({f"column{n}": [f"{n} a long name of something", f"{n}"] for n in range(8)})
    # A file is no terminal, whatever standard output is.
    monkeypatch.setattr("sys.stdout", stream := Stream())
    assert as_text(wide, tmp_path).count("a long name of something") == 8
    emit(wide)
    written = stream.getvalue().decode()
    assert written.count("a long name of something") == (0 if terminal else 8)
    assert (max(map(len, written.splitlines())) <= 40) == terminal


def test_json_is_json_even_with_nan_and_times(tmp_path):
    when = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)
    table = pa.Table.from_pylist([{"x": math.nan, "when": when, "deep": {"a": [math.inf]}}])
    emit(table, "json", tmp_path / "out.json")
    read = json.loads((tmp_path / "out.json").read_text())
    assert read == [{"x": None, "when": when.isoformat(), "deep": {"a": [None]}}]


def test_csv_writes_lists_as_json_text(tmp_path):
    emit(TABLE, "csv", tmp_path / "out.csv")
    assert '"[""ridge"", ""dead""]"' in (tmp_path / "out.csv").read_text()


def test_csv_holds_nothing_that_a_spreadsheet_runs(tmp_path):
    texts = ["=1+2", "+cmd", "-1+1", "@sum", "\t=1", "\uff1d1", "plain", "-1.5", None]
    table = pa.table({"text": texts, "number": [-1.5] * 9}).append_column(
        "coded", pa.array(texts).dictionary_encode()
    )
    emit(table, "csv", tmp_path / "out.csv")
    with (tmp_path / "out.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    safe = ["'=1+2", "'+cmd", "'-1+1", "'@sum", r"\t=1", "'\uff1d1", "plain", "-1.5", ""]
    assert [row["text"] for row in rows] == [row["coded"] for row in rows] == safe
    assert {row["number"] for row in rows} == {"-1.5"}
    emit(table, "json", tmp_path / "out.json")
    assert [row["text"] for row in json.loads((tmp_path / "out.json").read_text())] == texts


@pytest.mark.parametrize("kind", ["table", "csv"])
def test_names_can_do_nothing_in_a_terminal_or_a_spreadsheet(tmp_path, kind):
    name = "a\x1b[31m\u202e\r\nb\u2028"
    table = pa.table({name: [name, "c"], "list": [[name], []]})
    emit(table, kind, tmp_path / "out")
    text = (tmp_path / "out").read_bytes().decode()
    assert len(text.rstrip("\n").split("\n")) == (4 if kind == "table" else 3)
    assert all(each.isprintable() for each in text if each != "\n")
    assert text.count(r"a\x1b[31m\u202e\r\nb\u2028") >= 2
    emit(table, "json", tmp_path / "out.json")
    assert json.loads((tmp_path / "out.json").read_text())[0] == {name: name, "list": [name]}


def test_headings_in_csv_are_harmless_too(tmp_path):
    emit(pa.table({"=1+2": ["a"], "@b": [1], "c": [2]}), "csv", tmp_path / "out.csv")
    with (tmp_path / "out.csv").open(newline="") as stream:
        assert next(csv.reader(stream)) == ["'=1+2", "'@b", "c"]


def test_parquet_comes_back_whole(tmp_path):
    emit(TABLE, "parquet", tmp_path / "out.parquet")
    assert pyarrow.parquet.read_table(tmp_path / "out.parquet").to_pylist() == TABLE.to_pylist()


def test_a_file_that_cannot_be_written_is_named_and_leaves_nothing(tmp_path):
    with pytest.raises(SettingsError, match="cannot be written"):
        emit(TABLE, "csv", tmp_path / "none" / "out.csv")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("verb", "takes_file"),
    [(("run", "-m", "small:digits_vgg7", "--runner", "local"), False), (("sql", "SELECT 1"), True)],
)
def test_parquet_for_a_terminal_is_refused_before_any_work(
    monkeypatch, capsys, tmp_path, verb, takes_file
):
    monkeypatch.setattr("sys.stdout", Terminal())
    with pytest.raises(SystemExit) as ended:
        app(["--home", str(tmp_path / "home"), "--format", "parquet", *verb])
    assert ended.value.code == 2
    assert ("--output" in capsys.readouterr().err) is takes_file
    assert not (tmp_path / "home").exists()
