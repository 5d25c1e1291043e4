"""Settings of the answers: the table `[answers.model]`, empty unless a language model shall help."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, HttpUrl, SecretStr, model_validator

from bot.section import Section


class ModelSettings(Section):
    """Any endpoint that speaks OpenAI's protocol, a local one as well. It is given redacted lines only."""

    base_url: HttpUrl | None = None  # "http://127.0.0.1:8000/v1"
    model: str = Field(default="", max_length=200)
    api_key: SecretStr = SecretStr("")
    timeout_seconds: Annotated[float, Field(gt=0, le=120)] = 20

    @model_validator(mode="after")
    def _complete(self) -> ModelSettings:
        if (self.base_url is None) != (not self.model):
            raise ValueError("answers.model needs both base_url and model")
        return self

    @property
    def wanted(self) -> bool:
        """Whether a model shall help."""
        return self.base_url is not None


class Answers(Section):
    """How questions are answered."""

    model: ModelSettings = ModelSettings()
