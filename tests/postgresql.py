"""A PostgreSQL server of Debian's package for tests: in a temporary folder, on a socket alone."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

#: The user that the server runs as where these tests run as root, which it refuses.
UNPRIVILEGED = "postgres"

PASSWORD = "s3cret-of-the-registry"


@dataclass(frozen=True)
class Server:
    """A server that runs."""

    #: The folder of its data and its socket.
    folder: Path

    def url(self, database: str, user: str = "survey") -> str:
        return f"postgresql://{user}@/{database}?host={self.folder}"

    def sql(self, statement: str, database: str = "postgres") -> str:
        """Execute a statement as the server's superuser and return its result as text."""
        command = ["psql", "-X", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h", str(self.folder)]
        return run([*command, "-U", "admin", "-d", database, "-c", statement]).strip()


def run(command: list[str], folder: Path = Path("/")) -> str:
    """Run one of PostgreSQL's programs as an unprivileged user; return its output."""
    user = UNPRIVILEGED if os.getuid() == 0 else None
    found = shutil.which(command[0], path=os.pathsep.join(_places()))
    assert found, f"{command[0]} is not here: install Debian's package postgresql"
    ended = subprocess.run(
        [found, *command[1:]],
        user=user,
        cwd=folder,
        env={"PGPASSWORD": PASSWORD, "PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout
    return ended.stdout


def _places() -> list[str]:
    return [os.environ["PATH"], *map(str, sorted(Path("/usr/lib/postgresql").glob("*/bin")))]


@contextmanager
def serving() -> Iterator[Server]:
    """Start a server that asks for passwords, and stop it."""
    # Not below the tests' folder: its user may not enter that, and a socket's name is short.
    folder = Path(tempfile.mkdtemp(prefix="survey-pg-"))
    try:
        (folder / "password").write_text(PASSWORD)
        if os.getuid() == 0:
            owner = pwd.getpwnam(UNPRIVILEGED)
            for path in (folder, folder / "password"):
                os.chown(path, owner.pw_uid, owner.pw_gid)
        data = str(folder / "data")
        secret = ["-A", "scram-sha-256", "--pwfile", str(folder / "password")]
        run(["initdb", "-D", data, "-U", "admin", *secret, "--no-sync", "-E", "UTF8"])
        options = f"-c listen_addresses='' -c unix_socket_directories={folder} -c fsync=off"
        start = ["pg_ctl", "-D", data, "-o", options, "-l", str(folder / "log"), "-w", "start"]
        run(start)
        try:
            server = Server(folder)
            server.sql(f"CREATE ROLE survey LOGIN PASSWORD '{PASSWORD}'")
            yield server
        finally:
            run(["pg_ctl", "-D", data, "-m", "immediate", "-w", "stop"])
    finally:
        shutil.rmtree(folder, ignore_errors=True)
