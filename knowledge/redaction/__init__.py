"""Take secrets and e-mail addresses out of log text, before it is stored, posted or given to a model.

Each secret becomes `[redacted:KIND:xxxx]`. The four hexadecimal digits are a keyed hash, so that the same secret is
recognised wherever it stands. They are deliberately few: whoever tests guesses against 16 bits is left with one guess
in 65,536, which is still too many for a weak password, so a service passes a `salt` of its own that it keeps to
itself. Without a salt the digits are zeros: they say nothing, and the command line's answers are repeatable.

Lines are never joined or split, so that line numbers stay true.
"""

from __future__ import annotations

from knowledge.redaction.lines import redact, redact_bytes
from knowledge.redaction.names_of_files import redact_name
from knowledge.redaction.placeholder import PLACEHOLDER

__all__ = ["PLACEHOLDER", "redact", "redact_bytes", "redact_name"]
