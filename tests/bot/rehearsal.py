"""The recorded job fails in a cluster that reports, and the service tells what it has to tell."""

from __future__ import annotations

import asyncio
import json

from bot.cli.demo import RECORDING
from tests.bot.conftest import Client


async def fails(client: Client, job_id: str) -> str:
    """Report the recorded job under a number; return the incident's id when all about it is said."""
    job = json.loads((RECORDING / "job.json").read_text()) | {"job_id": job_id}
    incident_id = await client.open(job_id, job=job, expected_reporters=1)
    for log in sorted((RECORDING / "logs").rglob("*.log")):
        name = log.relative_to(RECORDING / "logs").as_posix()
        assert (await client.put(incident_id, name, log.read_bytes()))[0] == 202
    await client.complete(incident_id)
    await client.incident(incident_id, lambda it: it["diagnosis"])
    await settles(client)
    return incident_id


async def settles(client: Client) -> None:
    """Wait until nothing has waited to be sent for a while."""
    quiet = 0
    async with asyncio.timeout(60):
        while quiet < 3:
            waiting = "firstfault_outbox_waiting 0.0" not in (await client.ask("GET", "/metrics"))[1]
            quiet = 0 if waiting else quiet + 1
            await asyncio.sleep(0.15)
