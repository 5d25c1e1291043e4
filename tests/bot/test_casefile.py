"""An incident becomes a case: nothing of the site is in it, the evidence still fits, and people's word is the truth."""

from __future__ import annotations

import json
from pathlib import Path

import aiohttp
import pytest

import bot.demo
from bot.casefile.anonymous import Anonymous
from bot.casefile.export import write_case
from bot.cli.case import export
from bot.server import running
from knowledge import diagnose
from storage.actions import Click
from storage.blobs import BlobStore
from tests.bot.conftest import Client, settings_in

RECORDING = Path(bot.demo.__path__[0]) / "recording"


@pytest.fixture
def anonymous() -> Anonymous:
    return Anonymous(["gpu-n03.alps.example", "gpu-n04"], ["alice", "ml-team"], {"llama-70b": "training-job"})


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b"gpu-n03: [rank3] died, gpu-n04 too", b"node-001: [rank3] died, node-002 too"),
        (b"gpu-n03.alps.example", b"node-001"),
        (b"/home/alice/llama-70b/train.py", b"/home/user1/training-job/train.py"),
        (b"/home/carol/train.py by carol", b"/home/user7/train.py by user7"),
        (b"peer 172.16.3.4:29500 and 172.16.3.5, 172.16.3.4", b"peer 10.0.0.2:29500 and 10.0.0.3, 10.0.0.2"),
        (b"malice gpu-n041 2.5.1 step 12 0xdeadbeef", b"malice gpu-n041 2.5.1 step 12 0xdeadbeef"),
    ],
)
def test_names_become_stand_ins_and_nothing_else_changes(anonymous: Anonymous, line: bytes, expected: bytes) -> None:
    assert anonymous.log(line) == expected


async def test_an_exported_case_says_the_same_and_names_nobody(
    tmp_path: Path, session: aiohttp.ClientSession, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = settings_in(tmp_path / "data")
    async with running(settings) as service:
        client = Client(session, service.url)
        job = json.loads((RECORDING / "job.json").read_text()) | {"user": "zebulon", "name": "quagga-7b"}
        incident_id = await client.open("48213", job=job, expected_reporters=1)
        for log in sorted((RECORDING / "logs").rglob("*.log")):
            await client.put(incident_id, log.relative_to(RECORDING / "logs").as_posix(), log.read_bytes())
        await client.complete(incident_id)
        await client.incident(incident_id, lambda it: it["diagnosis"])
        view = await service.repository.incidents.view(incident_id)
        episode = view.incident.episode_id or ""
        click = Click("k1", episode, "U0ALICE", "alice", "console")
        await service.repository.actions.judge(
            click, right=False, correction={"ranks": [6], "note": "it was the loader"}
        )
        actions = await service.repository.actions.of(episode)
        folder = tmp_path / "case"
        assert await write_case(view, actions, BlobStore(settings.data_dir / "blobs"), folder)

    everything = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    for name in (b"gpu-n03", b"gpu-n04", b"zebulon", b"quagga"):
        assert name not in everything
        assert not [path for path in folder.rglob("*") if name in path.name.encode()]
    truth = json.loads((folder / "truth.json").read_text())
    (folder / "truth.json").unlink()
    before, after = diagnose([RECORDING]), diagnose([folder])
    assert (after.cause.id, after.initiating.ranks) == (before.cause.id, before.initiating.ranks)
    assert truth["causes"] == [before.cause.id]
    assert (truth["ranks"], truth["note"], truth["judged"]) == ([[6]], "it was the loader", "corrected")


def test_what_is_not_there_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FIRSTFAULT_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("FIRSTFAULT_SLACK__MODE", "console")
    assert export("48213", None) == 1
    assert "there is no database" in capsys.readouterr().err
