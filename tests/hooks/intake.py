"""A small intake that remembers what hooks sent, and fails on demand. It speaks the wire of docs/architecture.md."""

from __future__ import annotations

import gzip
import json
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TOKEN = "hook-test-not-a-token"


@dataclass
class Seen:
    """One incident as the hooks told it."""

    key: tuple[str, int]
    openings: list[dict[str, Any]] = field(default_factory=list)
    closings: list[dict[str, Any]] = field(default_factory=list)
    logs: dict[str, bytes] = field(default_factory=dict)

    @property
    def reporters(self) -> set[str]:
        return {body["reporter"] for body in self.closings}


class Intake:
    """Incidents by (job id, attempt).

    `troubles` are (status, headers) to answer with before anything else, after `delay` seconds each.
    """

    def __init__(self) -> None:
        self.incidents: dict[tuple[str, int], Seen] = {}
        self.requests: list[tuple[str, str]] = []
        self.troubles: list[tuple[int, dict[str, str]]] = []
        self.in_between: tuple[int, dict[str, Any]] | None = None  # what answers in our stead
        self.refused_logs: set[str] = set()
        self.refused_jobs: set[tuple[str, int]] = set()  # (job id, attempt)
        self.away = False  # refuses every token
        self.delay = 0.0
        self.date: str | None = None  # what it takes for the time
        self.url = ""

    def job(self, job_id: str, attempt: int = 0) -> Seen | None:
        return self.incidents.get((job_id, attempt))

    def wait_for_reports(self, job_id: str, count: int, attempt: int = 0, seconds: float = 60) -> Seen:
        """The incident once `count` reporters have completed. Fails the test after `seconds`."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            seen = self.job(job_id, attempt)
            if seen and len(seen.reporters) >= count:
                return seen
            time.sleep(0.1)
        raise AssertionError(f"job {job_id}.{attempt} has no {count} reports; requests: {self.requests}")

    def answer(self, method: str, path: str, headers: Any, body: bytes) -> tuple[int, dict[str, str], dict[str, Any]]:
        self.requests.append((method, path))
        time.sleep(self.delay)
        if method == "GET" and not re.fullmatch(r"/v1/incidents/[0-9a-f]+", path):
            return 404, {}, {}  # as the service's router says, before anybody has looked at the token
        if self.in_between:
            return self.in_between[0], {}, self.in_between[1]
        if self.troubles:
            status, extra = self.troubles.pop(0)
            return status, extra, {"error": {"code": "trouble", "message": "on demand", "hint": ""}}
        if self.away or headers.get("Authorization") != f"Bearer {TOKEN}":
            return 401, {}, {"error": {"code": "unknown-token", "message": "no such token", "hint": ""}}
        if headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        if method == "POST" and path == "/v1/incidents":
            opening = json.loads(body)
            key = (opening["job_id"], opening["attempt"])
            if key in self.refused_jobs:
                return 400, {}, {"error": {"code": "bad-body", "message": "not so", "hint": "send another"}}
            self.incidents.setdefault(key, Seen(key)).openings.append(opening)
            return 202, {}, {"id": f"inc-{key[0]}-{key[1]}", "url": f"/v1/incidents/inc-{key[0]}-{key[1]}"}
        found = re.fullmatch(r"/v1/incidents/inc-([\w-]+)-(\d+)/(complete|logs/(.+))", path)
        if not found:
            return 404, {}, {"error": {"code": "no-incident", "message": "no such incident", "hint": ""}}
        if method != ("POST" if found[3] == "complete" else "PUT"):
            return 405, {}, {"error": {"code": "method_not_allowed", "message": "not so", "hint": ""}}
        seen = self.incidents[found[1], int(found[2])]
        if found[3] == "complete":
            seen.closings.append(json.loads(body))
        elif found[4] in self.refused_logs:
            return 413, {}, {"error": {"code": "too_large", "message": "log over 1 byte", "hint": ""}}
        else:
            seen.logs[found[4]] = body
        return 202, {}, {}


@contextmanager
def running_intake(port: int = 0) -> Iterator[Intake]:
    """An Intake that listens on 127.0.0.1 until the block ends."""
    intake = Intake()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _handle(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, headers, answer = intake.answer(self.command, self.path, self.headers, body)
            text = json.dumps(answer).encode()
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(text))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(text)

        def date_time_string(self, timestamp: float | None = None) -> str:
            return intake.date or super().date_time_string(timestamp)

        do_GET = do_POST = do_PUT = _handle  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            return

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    intake.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield intake
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
