"""How far a cause reaches: whose failures may stand in one message."""

from __future__ import annotations

from storage.folding import Reach

_NODE = frozenset({"gpu-hardware", "driver"})
_SITE = frozenset({"network", "storage", "kubernetes"})
_BY_CAUSE = {
    "node-failure": Reach.NODE,
    "prolog-failed": Reach.NODE,
    "gpu-fault": Reach.NODE,
    "nic-fault": Reach.NODE,
    "link-down": Reach.NODE,
    "disk-full": Reach.NODE,
    "preempted": Reach.SITE,
    "hub-unavailable": Reach.SITE,
    "service-unavailable": Reach.SITE,
    "certificate-or-clock": Reach.SITE,
    "name-not-resolved": Reach.SITE,
    # One person's settings or code, whatever the layer says.
    "wrong-interface": Reach.OWNER,
    "collective-timeout": Reach.OWNER,
    "nccl-error": Reach.OWNER,
    "nccl-version-mismatch": Reach.OWNER,
    "file-not-found": Reach.OWNER,
    "permission-denied": Reach.OWNER,
    "quota-exceeded": Reach.OWNER,
    "pod-config": Reach.OWNER,
    "init-failed": Reach.OWNER,
    "sidecar-failed": Reach.OWNER,
    "probe-killed": Reach.OWNER,
}


def reach(cause: str, layer: str) -> Reach:
    """Return how far `cause`, of `layer`, reaches.

    >>> reach("stale-file-handle", "storage").value, reach("gpu-lost", "gpu-hardware").value, reach("data-error", "data").value
    ('site', 'node', 'owner')
    """
    if cause in _BY_CAUSE:
        return _BY_CAUSE[cause]
    if layer in _SITE:
        return Reach.SITE
    return Reach.NODE if layer in _NODE else Reach.OWNER
