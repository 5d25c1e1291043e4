"""Settings: the environment (FIRSTFAULT_…) over one TOML file over the defaults. A wrong one stops the start."""

from __future__ import annotations

import os
import re
import tomllib
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    Field,
    HttpUrl,
    SecretStr,
    StringConstraints,
    ValidationError,
    model_validator,
)
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
    TomlConfigSettingsSource,
)

from bot.answers.settings import Answers
from bot.digest.settings import Digest
from bot.routing.settings import Route, Routing
from bot.section import Section
from storage.folding import Folding as FoldingRules
from storage.incidents import Pace

PREFIX = "FIRSTFAULT_"
CONFIG_VARIABLE = "FIRSTFAULT_CONFIG"
DEFAULT_FILE = Path("firstfault.toml")

# Not ours: the hook's, and those by which Kubernetes describes a Service that is named "firstfault" to each pod.
_OF_OTHERS = re.compile(r"FIRSTFAULT_(SERVICE_(HOST|PORT(_.*)?)|PORT(_\d+_(TCP|UDP).*)?|HOOK_CONFIG)")

Seconds = Annotated[float, Field(ge=0, le=86_400)]
Count = Annotated[int, Field(ge=1)]
ClusterName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=100)]
SchedulerUser = Annotated[str, StringConstraints(min_length=1, max_length=100)]
KIBI, MEBI = 1 << 10, 1 << 20


def _person(value: str) -> str:
    if not re.fullmatch(r"[UW][A-Z0-9]{2,}|[^@\s]+@[^@\s]+", value):
        raise ValueError("give the member id (U…, in the person's profile under More) or the e-mail address")
    return value


Person = Annotated[str, StringConstraints(max_length=200), AfterValidator(_person)]


class SettingsInvalidError(Exception):
    """Settings are wrong; the message is one line for each, made for people."""


class CannotStartError(Exception):
    """The service cannot start here, whatever its settings; the message says what to do."""


class Listen(Section):
    """Where the service listens. TLS is for the proxy in front of it."""

    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65_535)] = 8642


class ClusterToken(Section):
    """The token of one cluster, given here or in a file."""

    token: SecretStr | None = None
    token_file: Path | None = None

    @model_validator(mode="after")
    def _one_of_two(self) -> ClusterToken:
        if (self.token is None) == (self.token_file is None):
            raise ValueError("give either token or token_file")
        return self

    def read(self) -> str:
        """Return the token. Raises SettingsInvalidError where the file cannot be read or the token is too short."""
        try:
            token = self.token.get_secret_value() if self.token else (self.token_file or Path()).read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsInvalidError(f"cannot read token_file {self.token_file}: {error}") from error
        token = token.strip()
        if not re.fullmatch(r"[!-~]{16,200}", token):
            raise SettingsInvalidError("a cluster's token needs 16 to 200 visible ASCII characters")
        return token


class SlackMode(StrEnum):
    """How the service talks with Slack: a socket it opens, HTTP it is called by, or a terminal in Slack's place."""

    SOCKET = "socket"
    HTTP = "http"
    CONSOLE = "console"


class Slack(Section):
    """The Slack app and the channel to post in."""

    mode: SlackMode = SlackMode.SOCKET
    channel: str = Field(default="", max_length=80)
    bot_token: SecretStr = SecretStr("")
    app_token: SecretStr = SecretStr("")
    signing_secret: SecretStr = SecretStr("")
    api_url: HttpUrl = HttpUrl("https://slack.com/api/")
    people: dict[SchedulerUser, Person] = Field(default_factory=dict)  # who is who
    email_domain: Annotated[str, StringConstraints(pattern=r"^([A-Za-z0-9-]+\.)+[A-Za-z]{2,}$")] | None = None

    @model_validator(mode="after")
    def _complete(self) -> Slack:
        if self.mode is SlackMode.CONSOLE:
            self.channel = self.channel or "console"
            return self
        needed: dict[str, str | SecretStr] = {"slack.channel": self.channel, "slack.bot_token": self.bot_token}
        if self.mode is SlackMode.SOCKET:
            needed["slack.app_token"] = self.app_token
        else:
            needed["slack.signing_secret"] = self.signing_secret
        names = ", ".join(name for name, value in needed.items() if not value)
        if names:
            raise ValueError(
                f"{names} must be set where slack.mode is {self.mode.value!r}; slack.mode 'console' needs no Slack"
            )
        if not re.fullmatch(r"[CGD][A-Z0-9]{2,}", self.channel):
            raise ValueError("slack.channel must be the channel's id (C…, G… or D…), not its name")
        return self


class Limits(Section):
    """What is taken in at most; bytes are counted after decompression."""

    json_bytes: Count = 512 * KIBI
    log_bytes: Count = 32 * MEBI
    incident_bytes: Count = 1024 * MEBI
    logs: Count = 4096
    uploads_at_once: Count = 8  # held in memory
    upload_workers: Annotated[int, Field(ge=1, le=64)] = 2  # processes that decompress and redact
    upload_seconds: Seconds = 120


class Pipeline(Section):
    """When and how incidents are diagnosed."""

    first_post_seconds: Seconds = 3  # from the first complete report to the first diagnosis
    quiet_seconds: Seconds = 2  # between later ones
    patience_seconds: Seconds = 60  # where no report ever completes
    timeout_seconds: Annotated[float, Field(gt=0, le=3600)] = 120  # for one diagnosis
    workers: Annotated[int, Field(ge=1, le=64)] = 1

    @property
    def pace(self) -> Pace:
        """How long to wait for more evidence."""
        first, quiet, patience = self.first_post_seconds, self.quiet_seconds, self.patience_seconds
        return Pace(timedelta(seconds=first), timedelta(seconds=quiet), timedelta(seconds=patience))


class Folding(Section):
    """Which failures share one message."""

    window_hours: Annotated[float, Field(gt=0, le=24 * 90)] = 24  # the same failure, since the first of them
    storm_jobs: Annotated[int, Field(ge=2)] = 5  # this many jobs of one cause …
    storm_minutes: Annotated[float, Field(gt=0, le=24 * 60)] = 10  # … within this time are a storm

    @property
    def rules(self) -> FoldingRules:
        """The same for the database."""
        return FoldingRules(
            window=timedelta(hours=self.window_hours),
            storm=timedelta(minutes=self.storm_minutes),
            storm_jobs=self.storm_jobs,
        )


class Outbox(Section):
    """How messages are sent."""

    channel_interval_seconds: Seconds = 1.0  # Slack allows about one message a second in a channel
    settle_seconds: Seconds = 15.0  # how long a post whose answer was lost may take to appear
    longest_wait_seconds: Seconds = 300.0  # between tries while Slack is away
    refused_wait_seconds: Seconds = 600.0  # between tries while somebody has to act
    late_seconds: Seconds = 30.0  # a message that has waited longer says so


class Logging(Section):
    """The service's own log, on standard error."""

    format: Literal["json", "console"] = "json"
    level: Literal["debug", "info", "warning", "error"] = "info"


class Settings(BaseSettings):
    """All settings of the service. `FIRSTFAULT_SLACK__MODE` is `mode` in the table `[slack]` of the file."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_nested_delimiter="__", extra="forbid", hide_input_in_errors=True
    )

    data_dir: Path = Path("var")
    database_url: str | None = None  # default: SQLite in data_dir
    public_url: HttpUrl | None = None  # how this service is reached from outside
    listen: Listen = Listen()
    clusters: dict[ClusterName, ClusterToken] = Field(default_factory=dict)
    slack: Slack = Field(default_factory=Slack)
    routes: tuple[Route, ...] = ()
    routing: Routing = Routing()
    digest: Digest = Digest()
    answers: Answers = Answers()
    limits: Limits = Limits()
    pipeline: Pipeline = Pipeline()
    folding: Folding = Folding()
    outbox: Outbox = Outbox()
    logging: Logging = Logging()

    @property
    def database(self) -> str:
        """The database's URL."""
        return self.database_url or f"sqlite+aiosqlite:///{self.data_dir.absolute() / 'firstfault.db'}"

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Read the environment, then the file that `load` found."""
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls)


def load(config: Path | None = None, *, for_slack: bool = True) -> Settings:
    """Return the settings from the environment and the file `config`, FIRSTFAULT_CONFIG or ./firstfault.toml.

    Not `for_slack`: nothing will be said there, so tokens may be missing, as in the shell of whoever is on call.

    Raises:
        SettingsInvalidError: a setting is unknown or wrong, or the file cannot be read.
    """
    file = _file(config)
    unknown = [name for name in os.environ if name.upper().startswith(PREFIX) and not _is_known(name.upper())]
    if unknown:
        known = ", ".join(Settings.model_fields)
        raise SettingsInvalidError(
            f"unknown setting {', '.join(sorted(unknown))} in the environment; known are {known}"
        )

    over: dict[str, Any] = {} if for_slack else {"slack": {"mode": SlackMode.CONSOLE}}

    class FromFile(Settings):
        model_config = SettingsConfigDict(toml_file=file)

    try:
        return FromFile(**over)
    except ValidationError as error:
        raise SettingsInvalidError("\n".join(_line(found) for found in error.errors())) from None
    except SettingsError as error:
        raise SettingsInvalidError(str(error)) from None
    except tomllib.TOMLDecodeError as error:
        raise SettingsInvalidError(f"{file} is not valid TOML: {error}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsInvalidError(f"cannot read {file}: {error}") from None


def _file(config: Path | None) -> Path | None:
    named = config or (Path(os.environ[CONFIG_VARIABLE]) if CONFIG_VARIABLE in os.environ else None)
    if named is None:
        return DEFAULT_FILE if DEFAULT_FILE.is_file() else None
    if not named.is_file():
        raise SettingsInvalidError(f"the settings file {named} does not exist")
    return named


def _is_known(variable: str) -> bool:
    if variable == CONFIG_VARIABLE or _OF_OTHERS.fullmatch(variable):
        return True
    return variable.removeprefix(PREFIX).partition("__")[0].lower() in Settings.model_fields


def _line(error: Any) -> str:
    path = [f"no. {part + 1}" if isinstance(part, int) else str(part) for part in error["loc"]]
    reason = "is not a known setting" if error["type"] == "extra_forbidden" else str(error["msg"])
    reason = reason.removeprefix("Value error, ")
    if not path:
        return reason
    if any(isinstance(part, int) for part in error["loc"]):  # lists have no variables of their own
        return f"{'.'.join(path).replace('.no. ', ' no. ')}: {reason}"
    return f"{'.'.join(path)} ({PREFIX}{'__'.join(path).upper()}): {reason}"
