"""The contract on the stub."""

from __future__ import annotations

from tests.kubernetes.contract import TestFailures, TestLease, TestNoFailure, TestTrouble

__all__ = ["TestFailures", "TestLease", "TestNoFailure", "TestTrouble"]
