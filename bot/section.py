"""The base of a table of settings."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A table of the settings file. Unknown names are refused, and no value is repeated in an error: it may be secret."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)
