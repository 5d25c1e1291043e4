"""How the intake says no: a code for programs, a message and a hint for people."""

from __future__ import annotations

from collections.abc import Mapping


class IntakeError(Exception):
    """An answer that is not a success. Picklable, because workers raise it too."""

    def __init__(
        self, status: int, code: str, message: str, hint: str, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(status, code, message, hint, headers)
        self.status = status
        self.code = code
        self.message = message
        self.hint = hint
        self.headers = headers

    def document(self) -> dict[str, object]:
        """Return the body of the answer."""
        return {"error": {"code": self.code, "message": self.message, "hint": self.hint}}


def too_large(limit: str, value: int, what: str) -> IntakeError:
    """Return the 413 that names the limit. `value` is in bytes unless the limit counts things."""
    return IntakeError(
        413,
        "too-large",
        f"{what}: {limit} is {value}",
        f"send less, or raise {limit} in the service's settings",
    )
