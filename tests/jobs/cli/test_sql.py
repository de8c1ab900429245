"""``survey sql`` at the command line: statements from files, bounds, and the prompt."""

from __future__ import annotations

import os
import pty
import select
import sys
import threading
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from catalog.open_home import open_home
from jobs.cli.main import app
from jobs.cli.sql.prompt import _statements, is_complete
from jobs.cli.sql.statement import statement_of
from survey.errors import SettingsError
from tests.jobs.cli.streams import Terminal
from tests.style.repository import ROOT
from tests.waiting import PATIENCE_SECONDS, children_of, processor_seconds_of, until

#: One call of one function that goes on for hours.
ENDLESS = (
    "SELECT levenshtein(repeat('a', 4000000), repeat('b', 4000000 + range::INT)) FROM range(9);"
)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return open_home(tmp_path_factory.mktemp("sql") / "home", create=True).path


def sql(home: Path, *arguments: object, given: str = "") -> Result:
    command = ["--home", home, "sql", *arguments]
    return CliRunner().invoke(app, list(map(str, command)), input=given)


@pytest.mark.slow(seconds=3)
def test_a_statement_comes_from_a_file_or_from_standard_input(home: Path, tmp_path: Path) -> None:
    file = tmp_path / "numbers.sql"
    file.write_text("-- Two lines;\nSELECT 7 AS n;\n", encoding="utf-8")
    for arguments, given in (((), "SELECT 7 AS n"), (("-",), "SELECT 7 AS n;")):
        assert sql(home, *arguments, "--format", "csv", given=given).stdout == '"n"\n7\n'
    assert sql(home, "--file", file, "--format", "csv").stdout == '"n"\n7\n'
    ended = sql(home, "--file", tmp_path / "none.sql")
    assert (ended.exit_code, "none.sql" in ended.stderr) == (2, True)
    assert sql(home, "SELECT 1", "--file", file).exit_code == 2
    endless = sql(home, "--file", "/dev/zero")
    assert (endless.exit_code, "16,777,216 bytes" in endless.stderr) == (2, True)


def test_a_statement_comes_from_a_pipe_in_time_or_not_at_all(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    threading.Timer(0.2, lambda: (os.write(writing, b"SELECT 7"), os.close(writing))).start()
    assert statement_of(None, Path(f"/dev/fd/{reading}"), 30) == "SELECT 7"
    os.close(reading)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(SettingsError, match="did not come"):
        statement_of(None, tmp_path / "pipe", 0.1)


@pytest.mark.slow(seconds=2)
def test_a_limit_ends_any_result_and_what_was_rounded_is_printed_so(home: Path) -> None:
    values = "SELECT n, round(n / 7, 3) AS a, n / 7 AS b, n / 8 AS c FROM range(5) t(n)"
    lines = sql(home, f"{values} ORDER BY n DESC", "--limit", 2).stdout.splitlines()
    assert [line.split() for line in lines[2:]] == [
        ["4", "0.571", "0.5714", "0.500"],
        ["3", "0.429", "0.4286", "0.375"],
    ]
    described = sql(home, "DESCRIBE models", "--limit", 1, "--format", "csv").stdout
    assert len(described.splitlines()) == 2
    assert sql(home, "SELECT 1", "--limit", -1).exit_code == 2


def test_a_semicolon_ends_a_statement_unless_it_is_quoted(subtests: pytest.Subtests) -> None:
    for text, complete in {
        "SELECT 1;": True,
        "SELECT 1; -- done": True,
        "SELECT 1": False,
        "SELECT ';'": False,
        "SELECT 'it''s;": False,
        "SELECT 'it''s';": True,
        r"SELECT E'it\'s';": True,
        r"SELECT e'it\'s;'": False,
        r"SELECT E'it\'": False,
        r"SELECT E'it\';": False,
        r"SELECT 'it\';": True,
        'SELECT ";"': False,
        "SELECT 1 -- ;": False,
        "SELECT 1 -- it's\n;": True,
        "SELECT /* ;": False,
        "SELECT /* it's; */ 1;": True,
        "SELECT $$;": False,
        "SELECT $a$ ; $$ ; $a$;": True,
        "": False,
    }.items():
        with subtests.test(text=text):
            assert is_complete(text) == complete


@pytest.mark.parametrize("command", [".quit", ".quit;", ".exit ;"])
def test_a_command_ends_the_prompt(command: str) -> None:
    typed = iter(["SELECT", "1;", command, "SELECT 2;"])
    assert list(_statements(lambda _prompt: next(typed))) == ["SELECT\n1;"]


def test_a_service_has_no_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal())
    with pytest.raises(SystemExit) as ended:
        app(["sql", "--server", "http://127.0.0.1:1"])
    assert ended.value.code == 2


class PromptTerminal:
    """A terminal with ``survey sql`` on it."""

    def __init__(self, home: Path, state: Path) -> None:
        self.pid, self.file = pty.fork()
        if not self.pid:
            os.chdir(ROOT)
            os.environ |= {"XDG_STATE_HOME": str(state), "TERM": "dumb", "PYTHONPATH": str(ROOT)}
            os.execv(sys.executable, [sys.executable, "-m", "jobs.cli.main", "sql", "--home", home])

    def until(self, end: str) -> str:
        """Return what appears until a text does."""
        text, deadline = "", time.monotonic() + PATIENCE_SECONDS
        while end not in text and time.monotonic() < deadline:
            if select.select([self.file], [], [], 0.2)[0]:
                text += os.read(self.file, 65536).decode()
        assert end in text, text
        return text

    def until_asking(self) -> None:
        """Wait until a process answers a statement, so that an interruption is for the query."""
        until(lambda: children_of(self.pid))

    def answer(self, *lines: str) -> str:
        """Type lines and return what appears until the next prompt."""
        for line in lines[:-1]:
            os.write(self.file, f"{line}\n".encode())
            self.until("...> ")
        os.write(self.file, f"{lines[-1]}\n".encode())
        return self.until("survey> ")


@pytest.mark.slow(seconds=8)
def test_the_prompt_outlives_errors_and_interruptions(home: Path, tmp_path: Path) -> None:
    terminal = PromptTerminal(home, tmp_path)
    terminal.until("survey> ")
    assert "42" in terminal.answer("SELECT 6", "* 7 AS n;")
    assert "latest_signatures" in terminal.answer("FROM nothing;") + terminal.answer(".tables")
    assert "relative_depth" in terminal.answer(".schema latest_signatures")
    os.write(terminal.file, f"{ENDLESS}\n".encode())
    terminal.until("9);")
    terminal.until_asking()
    time.sleep(1.0)
    began = processor_seconds_of(terminal.pid)
    os.write(terminal.file, b"\x03")
    terminal.until("survey> ")
    # At once, by what was still computed: it has hours to go.
    assert processor_seconds_of(terminal.pid) - began < 5
    for seconds in (0.0, 0.001, 0.003, 0.01):
        # Before there is a process to end, and while it is made.
        os.write(terminal.file, f"{ENDLESS}\n".encode())
        terminal.until("9);")
        time.sleep(seconds)
        os.write(terminal.file, b"\x03")
        assert "Traceback" not in terminal.until("survey> ")
        time.sleep(0.1)
    os.write(terminal.file, b"SELECT half\n")
    terminal.until("...> ")
    os.write(terminal.file, b"\x03")
    terminal.until("survey> ")
    assert "43" in terminal.answer("SELECT 43 AS n;")
    os.write(terminal.file, b"\x04")
    assert os.waitstatus_to_exitcode(os.waitpid(terminal.pid, 0)[1]) == 0
    os.close(terminal.file)
    history = tmp_path / "model-zoo-survey" / "sql_history"
    assert "* 7 AS n;" in history.read_text(encoding="utf-8")
    assert history.stat().st_mode & 0o777 == 0o600
