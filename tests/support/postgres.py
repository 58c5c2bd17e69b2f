"""A PostgreSQL server of our own, for as long as a test runs."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

USER = "postgres"  # PostgreSQL refuses to run as root; Debian makes this user for it


@contextmanager
def running_server() -> Iterator[str]:
    """Start a server with an empty database on a free port; yield its URL, then stop it."""
    folder = Path(tempfile.mkdtemp(prefix="rankwise-postgres-"))
    try:
        if os.getuid() == 0:
            owner = pwd.getpwnam(USER)
            os.chown(folder, owner.pw_uid, owner.pw_gid)
        data, port = folder / "data", free_port()
        flags = ["--username", USER, "--auth", "trust", "--encoding", "UTF8", "--no-sync"]
        initdb = [*as_user(), program("initdb"), "-D", str(data), *flags]
        subprocess.run(initdb, check=True, cwd=folder, stdout=subprocess.DEVNULL)
        with serve(data, port):
            yield f"postgresql+psycopg://{USER}@127.0.0.1:{port}/postgres"
    finally:
        shutil.rmtree(folder)


@contextmanager
def serve(data: Path, port: int) -> Iterator[None]:
    """The server process; it also ends if this one is killed."""
    settings = {
        "listen_addresses": "127.0.0.1",
        "port": port,
        "unix_socket_directories": "",
        "fsync": "off",  # the data need not survive the machine
    }
    words = [word for key, value in settings.items() for word in ("-c", f"{key}={value}")]
    command = [*as_user("--pdeathsig", "INT"), program("postgres"), "-D", str(data), *words]
    with (data.parent / "log").open("w") as log:
        process = subprocess.Popen(command, cwd=data.parent, stdout=log, stderr=log)
    try:
        wait_until_ready(process, port, data.parent / "log")
        yield
    finally:
        process.send_signal(signal.SIGINT)  # ends the sessions that are still open
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGQUIT)  # at once
            process.wait(30)


def wait_until_ready(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    import psycopg

    end = time.monotonic() + 600
    while process.poll() is None and time.monotonic() < end:
        try:
            psycopg.connect(host="127.0.0.1", port=port, user=USER, dbname="postgres").close()
        except psycopg.OperationalError:
            time.sleep(0.1)
        else:
            return
    raise RuntimeError(f"PostgreSQL did not start; its log:\n{log.read_text()}")


def as_user(*flags: str) -> list[str]:
    """Words before a command that must not run as root."""
    if os.getuid() == 0:
        owner = pwd.getpwnam(USER)
        ids = [f"--reuid={owner.pw_uid}", f"--regid={owner.pw_gid}", "--clear-groups"]
        return ["setpriv", *ids, *flags]
    return ["setpriv", *flags]


def program(name: str) -> str:
    """Its path; Debian does not put the server's programs on PATH."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda p: float(p.parent.name))
    found = shutil.which(name, path=os.pathsep.join(map(str, reversed(folders))))
    found = found or shutil.which(name)
    if found is None:
        raise RuntimeError(f"PostgreSQL's {name!r} is missing: `make test-postgres` installs it")
    return found


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
