"""A job really fails in a real Slurm cluster, and the channel knows why."""

from __future__ import annotations

import pytest

from tests.cluster.slurm import slurm_is_installed
from tests.e2e.conftest import Road

pytestmark = [
    pytest.mark.slurm,
    pytest.mark.emulator,
    pytest.mark.skipif(not slurm_is_installed(), reason="no Slurm here; apt-get install slurm-wlm munge"),
]

# Four ranks that meet at a barrier over TCP before each step, as a process group does.
TRAINING = '''
import os, socket, time

rank, size = int(os.environ["SLURM_PROCID"]), int(os.environ["SLURM_NTASKS"])
meeting = "meeting-" + os.environ["SLURM_JOB_ID"]


def join():
    """Connections to the peers: from rank 0 to all, from each other rank to rank 0."""
    if rank == 0:
        server = socket.create_server(("127.0.0.1", 0))
        with open(meeting + ".part", "w") as place:
            place.write(str(server.getsockname()[1]))
        os.rename(meeting + ".part", meeting)
        return [server.accept()[0] for _ in range(size - 1)]
    while not os.path.exists(meeting):
        time.sleep(0.05)
    return [socket.create_connection(("127.0.0.1", int(open(meeting).read())))]


def barrier(peers):
    for peer in peers if rank else []:
        peer.sendall(b".")
    for peer in peers:
        if not peer.recv(1):
            time.sleep(100)  # a peer is gone: hang, as a collective does until its timeout
    for peer in [] if rank else peers:
        peer.sendall(b".")


def load_batch(step):
    if rank == 2 and step == 3:
        raise RuntimeError("shard 17 of the data set is truncated")


peers = join()
for step in range(1000):
    load_batch(step)
    barrier(peers)
    print(f"step {step} done", flush=True)
    time.sleep(0.1)
'''
BATCH = f"""#!/bin/bash
cat >train.py <<'END'
{TRAINING}
END
srun --label --kill-on-bad-exit=1 python3 train.py
"""
ASLEEP = "#!/bin/bash\nsrun --label sleep 300\n"
HOOKS_OF_TWO_NODES = ("epilog", "epilog", "epilog_slurmctld", "jobcomp")


@pytest.fixture(scope="module")
def overtime(road: Road) -> str:
    """A job that will hit its limit, which Slurm notices a minute or so after it began."""
    return road.cluster.submit(ASLEEP, "-N1", "-n1", "-t", "1", "-J", "overtime", "-o", "%x-%j.out")


def hooks_answered_at_once(road: Road, job: str, *hooks: str) -> bool:
    return all(run.status == 0 and run.milliseconds < 1000 for run in road.hooks.wait_for_runs(job, *hooks))


@pytest.mark.usefixtures("overtime")
def test_the_channel_hears_which_rank_failed_first_where_and_why(road: Road) -> None:
    job = road.cluster.submit(BATCH, "-N2", "-n4", "--ntasks-per-node=2", "-J", "pretrain", "-o", "%x-%j.out")
    message = road.channel.wait_for(job, "RuntimeError")
    assert "pretrain" in message
    assert "shard 17 of the data set is truncated" in message
    assert "rank 2" in message
    assert "n2" in message
    assert len(road.channel.about(job)) == 1
    assert hooks_answered_at_once(road, job, *HOOKS_OF_TWO_NODES)


@pytest.mark.usefixtures("overtime")
def test_the_channel_hears_nothing_of_a_job_that_a_person_cancelled(road: Road) -> None:
    job = road.cluster.submit(ASLEEP, "-N2", "-n2", "-J", "second-thoughts", "-o", "%x-%j.out")
    road.cluster.wait_for_step(job)
    road.cluster.cancel(job)
    verdicts = road.hooks.wait_for_verdict(job, 3)  # both nodes and the controller have decided
    assert all("ended: none (CANCELLED" in verdict for verdict in verdicts)
    assert hooks_answered_at_once(road, job, *HOOKS_OF_TWO_NODES)
    assert road.channel.about(job) == []


def test_the_channel_hears_of_a_job_that_hit_its_time_limit(road: Road, overtime: str) -> None:
    message = road.channel.wait_for(overtime, "time limit", seconds=200)
    assert "overtime" in message
    assert hooks_answered_at_once(road, overtime, "epilog", "epilog_slurmctld", "jobcomp")
    assert not any("second-thoughts" in other for other in road.channel.messages())  # nor did it come late
