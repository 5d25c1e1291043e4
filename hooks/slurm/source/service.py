"""The service: one report told over HTTP, piece by piece, and what went wrong on the way."""

import contextlib
import email.utils
import http.client
import json
import random
import re
import socket
import ssl
import sys
import tarfile
import threading
import time
import urllib.parse
from typing import IO, Dict, List, Optional, Sequence, Tuple, Type

from hooks.slurm.source.jobs import Job
from hooks.slurm.source.leaving import VERSION
from hooks.slurm.source.noting import note
from hooks.slurm.source.settings import Settings
from hooks.slurm.source.words import whole

TRIES = 4
SLOWEST = 50000  # bytes per second of a way that is still one
LONGEST = 300  # seconds that all of a delivery may take beyond the patience with a service that is away
SAME_END = 3  # seconds between what JobComp is told as the end and the start of EpilogSlurmctld
# What OpenSSL's versions say of an answer that is no TLS.
NOT_TLS = ("WRONG_VERSION_NUMBER", "UNKNOWN_PROTOCOL", "HTTP_REQUEST", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG")

Answer = Dict[str, object]  # what JSON holds
Log = Tuple[str, bytes]  # its name, and its text as gzip bytes


class Away(Exception):
    """The service cannot take it now; it may later."""


class Unknown(Away):
    """The service does not know our token. It may later, for somebody will put it right."""


class InBetween(Away):
    """Something between us and the service says no, which may or may not be about this one."""


class Refused(Exception):
    """The service will never take this one; `code` is its own word for why, "" where it gave none."""

    def __init__(self, text: str, code: str = "") -> None:
        super().__init__(text)
        self.code = code


class TooLong(Exception):
    """Reporting takes more time than it may."""


class BytesReader:
    """The one method of a file that tarfile asks for."""

    def __init__(self, text: bytes) -> None:
        self.text, self.at = text, 0

    def read(self, size: int = -1) -> bytes:
        """At most so many of the bytes that come next; all of them for a negative number."""
        piece = self.text[self.at : self.at + size if size >= 0 else None]
        self.at += len(piece)
        return piece


class Service:
    """The intake of Firstfault, over one connection that is kept."""

    def __init__(self, settings: Settings, patience: float = 120) -> None:
        self.settings = settings
        self.url = urllib.parse.urlsplit(settings.url)
        self.connection: Optional[http.client.HTTPConnection] = None
        self.until = time.time() + patience
        self.over = self.until + LONGEST
        # seconds that our clock is ahead of the service's, once it has answered
        self.clock_ahead: Optional[float] = None

    def __enter__(self) -> "Service":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def call(self, method: str, path: str, body: bytes = b"", headers: Optional[Dict[str, str]] = None) -> Answer:
        """The answer's JSON. Tries again with growing pauses; raises Away or Refused.

        A refusal is one only in the service's own words: an ingress says 404 too while the service is exchanged.
        """
        trouble = ""
        kind: Type[Away] = Away
        for attempt in range(TRIES):
            pause = 2**attempt * (0.5 + random.random())
            try:
                status, answer, after = self._once(method, path, body, headers or {})
            except (OSError, http.client.HTTPException, ValueError) as error:
                self.close()
                kind = Away
                trouble = "%s: %s" % (type(error).__name__, str(error).replace(self.settings.token, "[token]"))
                if getattr(error, "reason", None) in NOT_TLS:
                    trouble += "; what listens there speaks plain HTTP, as the service does: TLS is the proxy's"
            else:
                if 200 <= status < 300:
                    return answer
                said = self._said(answer)
                trouble, kind = "HTTP %d %s" % (status, said), Away
                if status == 401 and said:
                    raise Unknown(trouble)
                if status in (401, 403) or 300 <= status < 400:
                    raise Away(trouble)  # a wrong token or address: someone will put it right, asking again does not
                if status not in (408, 425, 429) and status < 500:
                    if said or (status == 413 and method == "PUT"):  # a log too large for whoever it is will stay so
                        raise Refused(trouble, said.partition(" ")[0])
                    trouble, kind = "HTTP %d, and not from the service itself" % status, InBetween
                pause = max(pause, min(after, 60))
            if attempt + 1 == TRIES or time.time() + pause > self.until:
                break
            time.sleep(pause)
        raise kind(trouble)

    def greet(self) -> None:
        """Return once the service has shown that it knows our token; raises Away where it has not.

        It looks at the token before it looks for the incident, of which there is none.
        """
        try:
            self.call("GET", "/v1/incidents/" + "0" * 32)
        except Refused as why:
            if why.code == "no-incident":
                return
            raise Away(str(why)) from None
        raise Away("what answers there is no Firstfault")

    def _once(self, method: str, path: str, body: bytes, headers: Dict[str, str]) -> Tuple[int, Answer, int]:
        if self.connection is None:
            self.connection = self._connect()
        headers = dict(headers, Authorization="Bearer " + self.settings.token)
        headers["User-Agent"] = "firstfault-hook/" + VERSION
        left = self.over - time.time()
        if left <= 0:
            raise OSError("all of it takes more than %d s" % LONGEST)
        # The timeout of a socket is one for each read, so that an answer of drops has no end.
        limit = threading.Timer(
            min(left, 2 * self.settings.timeout + len(body) / SLOWEST), self._cut, (self.connection,)
        )
        limit.daemon = True
        limit.start()
        try:
            self.connection.request(method, self.url.path.rstrip("/") + path, body, headers)
            response = self.connection.getresponse()
            with contextlib.suppress(TypeError, ValueError, OverflowError):
                told = email.utils.parsedate_tz(response.getheader("Date"))
                if told is not None:
                    self.clock_ahead = time.time() - email.utils.mktime_tz(told)
            text = response.read(1 << 20)
        finally:
            limit.cancel()
        if response.will_close or not response.isclosed():
            self.close()
        after = response.getheader("Retry-After") or ""
        try:
            answer = json.loads(text.decode("utf-8"))
        except ValueError:
            answer = {}
        return response.status, answer if isinstance(answer, dict) else {}, whole(after) or 0

    @staticmethod
    def _cut(connection: http.client.HTTPConnection) -> None:
        """End what goes on, seen from another thread: whoever waits for the answer reads its end."""
        with contextlib.suppress(OSError, AttributeError):
            connection.sock.shutdown(socket.SHUT_RDWR)

    def _connect(self) -> http.client.HTTPConnection:
        secure = self.url.scheme == "https"
        port = self.url.port or (443 if secure else 80)
        proxy = urllib.parse.urlsplit(self.settings.proxy) if self.settings.proxy else None
        host = (proxy.hostname or "", proxy.port or 3128) if proxy else (self.url.hostname or "", port)
        connection: http.client.HTTPConnection
        if secure:
            trust = ssl.create_default_context(cafile=self.settings.ca_file or None)
            if sys.version_info < (3, 10):  # newer ones have it so by themselves
                trust.options |= ssl.OP_NO_TLSv1 | ssl.OP_NO_TLSv1_1
            connection = http.client.HTTPSConnection(host[0], host[1], timeout=self.settings.timeout, context=trust)
        else:
            connection = http.client.HTTPConnection(host[0], host[1], timeout=self.settings.timeout)
        if proxy:
            connection.set_tunnel(self.url.hostname or "", port)
        return connection

    def _said(self, answer: Answer) -> str:
        """The service's own words in an answer that is no success; empty where the answer is somebody else's."""
        error = answer.get("error")
        words = [error.get(key) for key in ("code", "message", "hint")] if isinstance(error, dict) else []
        texts = [word for word in words if isinstance(word, str)]
        said = " ".join(texts).strip() if len(texts) == len(words) else ""
        return said.replace(self.settings.token, "[token]")

    def close(self) -> None:
        """Close the connection; the next call makes another one."""
        if self.connection is not None:
            self.connection.close()
        self.connection = None


class Report:
    """What one reporter says about one attempt of a job, ready to be sent or to wait on disk."""

    def __init__(self, opening: Dict[str, object], closing: Dict[str, object], logs: List[Log]) -> None:
        self.opening, self.closing, self.logs = opening, closing, logs  # the bodies of two calls
        self.path = ""  # in the spool

    @classmethod
    def about(cls, job: Job, facts: Dict[str, object], reporter: str, role: str, logs: Sequence[Log] = ()) -> "Report":
        """The report of this node or controller, whose name is `reporter`, on the job with these `facts`."""
        expected = 1 if job.alone else max(1, len(job.nodes))
        opening = {"schema": 1, "scheduler": "slurm", "job_id": facts["job_id"], "attempt": facts["attempt"],
                   "reporter": reporter, "role": role, "job": facts, "expected_reporters": expected}  # fmt: skip
        return cls(opening, {"reporter": reporter, "role": role, "job": facts}, list(logs))

    def open(self, service: Service) -> str:
        """Tell the service of the incident; its id."""
        body = json.dumps(self.opening).encode()
        answer = service.call("POST", "/v1/incidents", body, {"Content-Type": "application/json"})
        if not re.match(r"^[A-Za-z0-9_.-]{1,100}$", str(answer.get("id", ""))):
            raise Away("the service answered without an incident id")
        return str(answer["id"])

    def send(self, service: Service) -> str:
        """Open, logs, complete; sending the same report twice changes nothing at the service. Returns the id."""
        incident, until = self.open(service), time.time() + LONGEST / 3
        for number, (name, packed) in enumerate(self.logs):
            if time.time() > until:  # a slow service has what matters most, and other reports wait
                self._leave_out(len(self.logs) - number)
                break
            headers = {"Content-Encoding": "gzip", "Content-Type": "application/octet-stream"}
            try:
                path = "/v1/incidents/%s/logs/%s" % (incident, urllib.parse.quote(name, safe="/"))
                service.call("PUT", path, packed, headers)
            except Refused as why:
                note("log %s of incident %s was refused: %s" % (name, incident, why))
        body = json.dumps(self.closing).encode()
        service.call("POST", "/v1/incidents/%s/complete" % incident, body, {"Content-Type": "application/json"})
        return incident

    def _leave_out(self, count: int) -> None:
        job, who = self.closing.get("job"), self.closing.get("reporter")
        facts: Dict[str, object] = dict(job) if isinstance(job, dict) else {}
        unread = facts.get("unread")
        told = "%s: %d logs: not sent, for the service was slow" % (who, count)
        facts["unread"] = (list(unread) if isinstance(unread, list) else []) + [told]
        self.closing = dict(self.closing, job=facts)
        note("job %s: %s" % (self.opening.get("job_id"), told))

    def write(self, target: IO[bytes]) -> None:
        """As a tar archive: report.json, then the logs by number."""
        names = [name for name, _ in self.logs]
        described = {"opening": self.opening, "closing": self.closing, "names": names}
        with tarfile.open(fileobj=target, mode="w") as archive:
            members = [("report.json", json.dumps(described).encode())]
            members += [("logs/%d.gz" % number, packed) for number, (_, packed) in enumerate(self.logs)]
            for name, text in members:
                member = tarfile.TarInfo(name)
                member.size = len(text)
                archive.addfile(member, BytesReader(text))

    @classmethod
    def read(cls, source: IO[bytes]) -> "Report":
        """What `write` has written. Raises tarfile.TarError, KeyError or ValueError for anything else."""
        with tarfile.open(fileobj=source, mode="r:") as archive:
            described = json.loads(_member(archive, "report.json").decode("utf-8"))
            logs = [(name, _member(archive, "logs/%d.gz" % n)) for n, name in enumerate(described["names"])]
        return cls(described["opening"], described["closing"], logs)


def _member(archive: tarfile.TarFile, name: str) -> bytes:
    found = archive.extractfile(name)
    if found is None:
        raise ValueError("%s is no file" % name)
    return found.read()
