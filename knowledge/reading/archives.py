"""Archives and packings that nobody unpacked: read as logs, they would seem to say that all is well."""

from __future__ import annotations

from pathlib import Path

from knowledge.reading.compressed import first_bytes, is_packed, open_log

_HEAD = 512  # bytes; a tar names itself in the first block
_BEGINNINGS = {
    b"PK\x03\x04": "zip",
    b"PK\x05\x06": "zip",
    b"BZh": "bzip2",
    b"\xfd7zXZ\x00": "xz",
    b"7z\xbc\xaf\x27\x1c": "7z",
    b"Rar!\x1a\x07": "rar",
    b"\x04\x22\x4d\x18": "lz4",
}
_TAR, _TAR_AT = b"ustar", 257


def archive_kind(path: Path) -> str | None:
    """Return the name of the format, such as "zip", of a file that has to be unpacked before it can be read as a log.

    None for logs, gzip and zstd among them unless they hold a tar. Raises UnreadableEvidence.
    """
    head = first_bytes(path, _HEAD)
    for beginning, kind in _BEGINNINGS.items():
        if head.startswith(beginning) and (kind != "bzip2" or head[4:10] == b"1AY&SY"):
            return kind
    if is_packed(head):
        with open_log(path) as stream:
            head = stream.read(_HEAD)
    return "tar" if head.startswith(_TAR, _TAR_AT) else None
