"""Whatever a body claims to be, what comes out is bounded and whole."""

from __future__ import annotations

import gzip
import zlib

import pytest
import zstandard

from bot.intake.compression import decompress
from bot.intake.errors import IntakeError

PLAIN = b"step 41 loss 2.31\n" * 1000
LIMIT = 1 << 20

PACKED = {
    "identity": PLAIN,
    "gzip": gzip.compress(PLAIN),
    "zstd": zstandard.compress(PLAIN),
}
TWICE = {
    "gzip": gzip.compress(PLAIN[:500]) + gzip.compress(PLAIN[500:]),
    "zstd": zstandard.compress(PLAIN[:500]) + zstandard.compress(PLAIN[500:]),
}


@pytest.mark.parametrize("encoding", PACKED)
def test_bytes_come_out_as_they_went_in(encoding: str) -> None:
    assert decompress(PACKED[encoding], encoding, LIMIT, "limits.log_bytes") == PLAIN


@pytest.mark.parametrize("encoding", PACKED)
def test_nothing_is_nothing(encoding: str) -> None:
    assert decompress(b"", encoding, LIMIT, "limits.log_bytes") == b""


@pytest.mark.parametrize("encoding", TWICE)
def test_several_members_are_one_body(encoding: str) -> None:
    assert decompress(TWICE[encoding], encoding, LIMIT, "limits.log_bytes") == PLAIN


@pytest.mark.parametrize("encoding", PACKED)
def test_exactly_the_limit_is_allowed_and_one_more_byte_is_not(encoding: str) -> None:
    assert decompress(PACKED[encoding], encoding, len(PLAIN), "limits.log_bytes") == PLAIN
    with pytest.raises(IntakeError) as caught:
        decompress(PACKED[encoding], encoding, len(PLAIN) - 1, "limits.log_bytes")
    assert caught.value.status == 413
    assert "limits.log_bytes" in caught.value.message


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
@pytest.mark.parametrize("damage", ["cut", "garbage", "tail"])
def test_a_damaged_body_is_refused_not_half_taken(encoding: str, damage: str) -> None:
    packed = PACKED[encoding]
    body = {"cut": packed[:-3], "garbage": b"not compressed at all", "tail": packed + b"garbage"}[damage]
    with pytest.raises(IntakeError) as caught:
        decompress(body, encoding, LIMIT, "limits.log_bytes")
    assert caught.value.status == 400
    assert encoding in caught.value.message


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_a_bomb_is_stopped_early(encoding: str) -> None:
    with pytest.raises(IntakeError) as caught:
        decompress(_bomb(encoding), encoding, LIMIT, "limits.log_bytes")
    assert caught.value.status == 413


def test_a_frame_that_asks_for_much_memory_is_refused() -> None:
    parameters = zstandard.ZstdCompressionParameters.from_level(3, window_log=27)
    compressor = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    body = compressor.compress(PLAIN) + compressor.flush()
    with pytest.raises(IntakeError) as caught:
        decompress(body, "zstd", LIMIT, "limits.log_bytes")
    assert caught.value.status == 400


def _bomb(encoding: str) -> bytes:
    """64 MiB of zeros, compressed."""
    compressor = (
        zlib.compressobj(9, wbits=31) if encoding == "gzip" else zstandard.ZstdCompressor(level=3).compressobj()
    )
    zeros = bytes(1 << 20)
    return b"".join(compressor.compress(zeros) for _ in range(64)) + compressor.flush()
