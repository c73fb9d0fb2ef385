"""Looks for planted secrets in what a run wrote: texts, files, Valkey's contents, every row of the database.

One rule: it only reads, and what it found is told by place and shape, never by value.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import psycopg
import redis
from psycopg import sql

from lockservice.embedded import postgres, valkey
from lockservice.embedded.local import LocalDirectory
from tests.support.marked import Marks

_WORD = re.compile(rb"\w{12,}")
_CHUNK = 8 * 2**20
_OVERLAP = 4096


@dataclass(frozen=True)
class Leak:
    """A planted secret in a place where none may be. `around` is the text about it with the secret left out."""

    place: str
    around: str

    def __str__(self) -> str:
        return f"{self.place}: {self.around}"


def in_text(marks: Marks, exact: frozenset[str], text: str | bytes, place: str) -> list[Leak]:
    """Looks into one text."""
    data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    spans = [found.span() for found in marks.compiled.finditer(data)]
    if exact:
        by_word, others = _split(exact)
        for word in _WORD.finditer(data):
            for value in by_word.get(word[0], ()):
                start = data.find(value, max(0, word.start() - len(value)), word.end() + len(value))
                spans += [(start, start + len(value))] if start >= 0 else []
        spans += [(start, start + len(value)) for value in others if (start := data.find(value)) >= 0]
    return [Leak(place, _around(data, *span)) for span in spans[:5]]


@lru_cache(maxsize=4)
def _split(exact: frozenset[str]) -> tuple[Mapping[bytes, tuple[bytes, ...]], tuple[bytes, ...]]:
    """Return values by the longest word in them, and those without one: to look for thousands of values one by one in all that a
    run wrote takes minutes."""
    by_word: dict[bytes, list[bytes]] = defaultdict(list)
    others = []
    for value in sorted({value.encode() for value in exact}):
        if words := _WORD.findall(value):
            by_word[max(words, key=len)].append(value)
        else:
            others.append(value)
    return {word: tuple(values) for word, values in by_word.items()}, tuple(others)


def in_file(marks: Marks, exact: frozenset[str], file: Path, start: int = 0) -> tuple[list[Leak], int]:
    """Looks into a file from an offset on; returns what was found and how many bytes were read."""
    found, size = [], 0
    with file.open("rb") as handle:
        handle.seek(start)
        tail = b""
        while chunk := handle.read(_CHUNK):
            size += len(chunk)
            found += in_text(marks, exact, tail + chunk, file.name)
            tail = chunk[-_OVERLAP:]
    return list(dict.fromkeys(found)), size


def in_valkey(marks: Marks, exact: frozenset[str], local: LocalDirectory) -> tuple[list[Leak], int]:
    """Looks into every key of every database; returns what was found and how many keys there are."""
    found, count = [], 0
    for number in range(16):
        client = redis.Redis.from_url(valkey.endpoint(local).url(number))
        for key in client.scan_iter(count=1000):
            count += 1
            for text in (key, *_values(client, key)):
                found += in_text(marks, exact, text, f"valkey {number} {key[:60]!r}")
        client.close()
    return found, count


def _values(client: redis.Redis, key: bytes) -> Iterator[bytes]:
    kind = client.type(key)
    if kind == b"string":
        yield client.get(key) or b""
    elif kind == b"list":
        yield from client.lrange(key, 0, -1)
    elif kind == b"set":
        yield from client.smembers(key)
    elif kind == b"zset":
        yield from client.zrange(key, 0, -1)
    elif kind == b"hash":
        for name, value in client.hgetall(key).items():
            yield name
            yield value
    elif kind == b"stream":
        for _, fields in client.xrange(key):
            yield b" ".join(part for pair in fields.items() for part in pair)


def in_database(marks: Marks, local: LocalDirectory, name: str) -> tuple[list[Leak], Mapping[str, int]]:
    """Looks into every row of every table, as the superuser; returns what was found and how many rows each table has."""
    found: list[Leak] = []
    rows: dict[str, int] = {}
    with psycopg.connect(postgres.endpoint(local).superuser_dsn(name), autocommit=True) as connection:
        tables = connection.execute(
            "SELECT c.relname FROM pg_class c WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace ORDER BY 1"
        ).fetchall()
        for (table,) in tables:
            hits, rows[str(table)] = _in_table(connection, str(table), marks.pattern)
            found += [Leak(f"table {table}, column {column}", f"{count} rows") for column, count in hits]
    return found, rows


def _in_table(
    connection: psycopg.Connection[tuple[object, ...]], table: str, pattern: str
) -> tuple[list[tuple[str, int]], int]:
    name = sql.Identifier(table)
    (counted,) = connection.execute(
        sql.SQL("SELECT count(*) FILTER (WHERE t::text ~ %s), count(*) FROM {} t").format(name), [pattern]
    ).fetchall()
    hits, total = int(str(counted[0])), int(str(counted[1]))
    if not hits:
        return [], total
    columns = connection.execute(
        sql.SQL(
            "SELECT c.key, count(*) FROM {} t, LATERAL jsonb_each_text(to_jsonb(t)) c WHERE c.value ~ %s GROUP BY 1 ORDER BY 1"
        ).format(name),
        [pattern],
    ).fetchall()
    return [(str(column), int(str(count))) for column, count in columns], total


def told(leaks: Iterable[Leak], limit: int = 40) -> list[str]:
    """Returns lines for people, the same place once."""
    lines = list(dict.fromkeys(str(leak) for leak in leaks))
    return lines[:limit] + ([f"… and {len(lines) - limit} more"] if len(lines) > limit else [])


def _around(data: bytes, start: int, end: int) -> str:
    before = data[max(0, start - 50) : start].decode("utf-8", "replace")
    after = data[end : end + 30].decode("utf-8", "replace")
    return f"…{before}[{end - start} characters]{after}…".replace("\n", " ")
