"""Each kind on a real API server, which has them all installed."""

from __future__ import annotations

import pytest

from tests.kubernetes.conftest import world
from tests.kubernetes.real import running, server
from tests.kubernetes.test_kinds import (
    test_it_is_told_once_when_it_fails_with_its_reason_and_the_rank,
    test_success_suspension_and_deletion_are_no_failures,
)

__all__ = [
    "running",
    "server",
    "test_it_is_told_once_when_it_fails_with_its_reason_and_the_rank",
    "test_success_suspension_and_deletion_are_no_failures",
    "world",
]

pytestmark = pytest.mark.kubernetes
