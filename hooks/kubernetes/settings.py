"""How the watcher is told what to do: by options, each of which has an environment variable."""

from __future__ import annotations

import argparse
import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


class SettingError(Exception):
    """A setting is wrong; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that can be set."""

    service: str
    token: str = ""
    token_file: Path | None = None
    namespaces: tuple[str, ...] = ()  # empty: all
    kubeconfig: Path | None = None
    context: str | None = None
    lease: tuple[str, str] | None = None  # namespace and name
    lease_seconds: float = 15.0
    identity: str = "watcher"
    listen: tuple[str, int] | None = None
    pod_bytes: int = 2 << 20  # of logs a pod, before packing
    job_bytes: int = 64 << 20  # of logs a workload, packed
    memory_bytes: int = 256 << 20  # of logs that wait, packed
    max_age_seconds: float = 24 * 3600.0  # older failures are not told
    stuck_seconds: float = 600.0  # for which a pod may fail to start; 0: for ever
    settle_seconds: float = 3.0  # after a failure, until its last pods have said how they ended
    first_pod: bool = False  # tell at a workload's first failed pod
    watch_seconds: int = 120
    rediscover_seconds: float = 300.0
    retry_seconds: float = 5.0  # after which a report that broke off is begun anew, at first

    def read_token(self) -> str:
        """The token as it is now. Raises SettingError where its file cannot be read."""
        if self.token_file is None:
            return self.token
        try:
            return self.token_file.read_text("ascii").strip()
        except (OSError, ValueError) as error:
            raise SettingError(f"cannot read the token in {self.token_file}: {error}") from error


def parse(arguments: Sequence[str], environment: Mapping[str, str] = os.environ) -> Settings:
    """Read options, and the environment for those not given. Raises SettingError; leaves for --help and unknown options."""

    def told(name: str, otherwise: str = "") -> str:
        return environment.get(f"FIRSTFAULT_WATCHER_{name}", otherwise)

    parser = argparse.ArgumentParser(
        prog="firstfault-watcher",
        description="Watch a Kubernetes cluster and tell the service of training jobs that fail.",
        epilog="Each option has an environment variable: --pod-bytes is FIRSTFAULT_WATCHER_POD_BYTES.",
    )
    add = parser.add_argument
    add("--service", default=told("SERVICE"), metavar="URL", help="the service, such as http://firstfault")
    add("--token-file", default=told("TOKEN_FILE"), metavar="FILE",
        help="holds the cluster's token; or set FIRSTFAULT_WATCHER_TOKEN")  # fmt: skip
    add("--namespace", action="append", metavar="NAME", help="watch this one; repeat for more; without it, all")
    add("--kubeconfig", default=told("KUBECONFIG"), metavar="FILE", help="as for kubectl; in a pod, not needed")
    add("--context", default=told("CONTEXT"), help="of the kubeconfig")
    add("--lease", default=told("LEASE"), metavar="NAMESPACE/NAME", help="a Lease by which several replicas agree")
    add("--listen", default=told("LISTEN"), metavar="HOST:PORT", help="where to answer /healthz, /readyz and /metrics")
    add("--pod-bytes", default=told("POD_BYTES", str(2 << 20)), help="of logs to keep of each pod (%(default)s)")
    add("--job-bytes", default=told("JOB_BYTES", str(64 << 20)), help="of packed logs to send of a job (%(default)s)")
    add("--memory-bytes", default=told("MEMORY_BYTES", str(256 << 20)),
        help="of packed logs to hold, for pods that may go (%(default)s)")  # fmt: skip
    add("--max-age-hours", default=told("MAX_AGE_HOURS", "24"), help="older failures are not told (%(default)s)")
    add("--stuck-seconds", default=told("STUCK_SECONDS", "600"),
        help="for which a pod may fail to start before it is told; 0: for ever (%(default)s)")  # fmt: skip
    add("--first-pod", action="store_true", default=told("FIRST_POD") in ("1", "true", "yes"),
        help="tell at the first failed pod, not when the job gives up")  # fmt: skip
    given = parser.parse_args(arguments)
    if not given.service.startswith(("http://", "https://")):
        raise SettingError("name the service: --service http://firstfault (or FIRSTFAULT_WATCHER_SERVICE)")
    token = told("TOKEN")
    if not token and not given.token_file:
        raise SettingError(
            "no token: --token-file FILE, or FIRSTFAULT_WATCHER_TOKEN; `firstfault cluster add` makes one"
        )
    namespaces = given.namespace or [name for name in told("NAMESPACE").split(",") if name.strip()]
    return Settings(
        service=given.service,
        token=token,
        token_file=Path(given.token_file) if given.token_file else None,
        namespaces=tuple(name.strip() for name in namespaces),
        kubeconfig=Path(given.kubeconfig) if given.kubeconfig else None,
        context=given.context or None,
        lease=_pair(given.lease, "/", "--lease NAMESPACE/NAME") if given.lease else None,
        identity=told("IDENTITY") or socket.gethostname(),
        listen=_address(given.listen) if given.listen else None,
        pod_bytes=int(_number(given.pod_bytes, "--pod-bytes", 64 << 10)),
        job_bytes=int(_number(given.job_bytes, "--job-bytes", 64 << 10)),
        memory_bytes=int(_number(given.memory_bytes, "--memory-bytes", 1 << 20)),
        max_age_seconds=3600 * _number(given.max_age_hours, "--max-age-hours", 0),
        stuck_seconds=_number(given.stuck_seconds, "--stuck-seconds", 0),
        first_pod=given.first_pod,
    )


def _number(text: str, option: str, least: float) -> float:
    try:
        number = float(text)
    except ValueError:
        number = -1
    if not least <= number < 1e15:
        raise SettingError(f"{option} must be a number of at least {least:g}, not {text!r}")
    return number


def _pair(text: str, mark: str, form: str) -> tuple[str, str]:
    first, found, second = text.rpartition(mark)
    if not (first and found and second):
        raise SettingError(f"write {form}, not {text!r}")
    return first, second


def _address(text: str) -> tuple[str, int]:
    host, port = _pair(text, ":", "--listen HOST:PORT")
    return host, int(_number(port, "--listen: the port", 0))
