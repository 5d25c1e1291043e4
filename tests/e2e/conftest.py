"""The whole road with real parts: Slurm, the hooks, `firstfault serve`, and a Slack server that others wrote."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from slack_sdk import WebClient

from tests.cluster.hooks import InstalledHooks
from tests.cluster.slurm import Cluster
from tests.e2e.serving import TOKEN, serving
from tests.slack.emulator import BOT_TOKEN, SIGNING_SECRET, Emulator, emulator


class Channel:
    """The team's channel, as a person sees it."""

    def __init__(self, emulated: Emulator) -> None:
        self._client = WebClient(BOT_TOKEN, base_url=emulated.base_url)
        listed = self._client.conversations_list(types="public_channel")
        self.id: str = next(each["id"] for each in listed["channels"] if each["name"] == "train-failures")
        self._client.conversations_join(channel=self.id)

    def messages(self) -> list[str]:
        """Each message with all its blocks, as one text."""
        page = self._client.conversations_history(channel=self.id)
        return [_words(message) for message in page["messages"]]

    def about(self, job: str) -> list[str]:
        """The messages that name the job."""
        return [message for message in self.messages() if re.search(rf"Slurm {job}\b", message)]

    def wait_for(self, job: str, *words: str, seconds: float = 90) -> str:
        """The job's message once it holds all the words. Fails the test after `seconds`."""
        until = time.monotonic() + seconds
        while True:
            messages = self.about(job)
            found = next((message for message in messages if all(word in message for word in words)), None)
            if found:
                return found
            assert time.monotonic() < until, f"no message on job {job} with {words}: {messages or self.messages()}"
            time.sleep(0.3)


def _words(value: Any) -> str:
    if isinstance(value, str):
        return value
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return "\n".join(filter(None, map(_words, parts)))


@dataclass(frozen=True)
class Road:
    """From the cluster to the channel."""

    cluster: Cluster
    hooks: InstalledHooks
    channel: Channel
    url: str
    service_log: Path

    def logs(self) -> str:
        """What hooks and service said, for a test that fails."""
        return f"{self.hooks.log()}\n{self.service_log.read_text('utf-8')[-6000:]}"


@pytest.fixture(scope="session")
def slack() -> Iterator[Emulator]:
    with emulator() as running:
        yield running


@pytest.fixture(scope="module")
def road(slack: Emulator, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Road]:
    """A cluster of two nodes whose hooks report to a service that posts to the channel."""
    folder, channel = tmp_path_factory.mktemp("service"), Channel(slack)
    with (
        serving(
            folder,
            mode="http",
            channel=channel.id,
            bot_token=BOT_TOKEN,
            signing_secret=SIGNING_SECRET,
            api_url=slack.base_url,
        ) as url,
        InstalledHooks() as hooks,
        Cluster(nodes=2, settings=hooks.slurm_settings) as cluster,
    ):
        hooks.configure(cluster, url, TOKEN)
        yield Road(cluster, hooks, channel, url, folder / "service.log")
