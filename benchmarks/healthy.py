"""Lines of healthy training jobs in the dialects of several trainers, and lines that only look like failures."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import count

DIALECTS = {
    "python logging": "{clock},{ms:03} INFO trainer: step {step} loss {loss:.4f} lr 3.0e-04 tok/s {rate}",
    "Transformers": "[rank{rank}]: {{'loss': {loss:.4f}, 'grad_norm': {norm:.6f}, 'lr': 0.0003, 'epoch': 0.42}}",
    "NCCL": "{rank}: {host}:{pid}:{tid} [{local}] NCCL INFO Channel {channel:02}/16 : {rank}[{local}] -> "
    "{peer}[{local}] via P2P/CUMEM",
    "Megatron": " [{clock}] iteration {step:8d}/  500000 | consumed samples: {samples:12d} | elapsed time per "
    "iteration (ms): {rate}.1 | lm loss: {loss:.6E} | number of skipped iterations:   0 |",
    "JSON lines": '{{"time": "{clock}.{ms:03}", "level": "info", "rank": {rank}, "step": {step}, "loss": {loss:.5f}, '
    '"tokens_per_s": {rate}}}',
    "tqdm": "Epoch {epoch}: {done:3d}%|{bar:<10}| {done}/100 [00:{done:02}<01:{done:02}, {norm:.2f}it/s]",
    "DeepSpeed": "[{clock}] [INFO] [logging.py:96:log_dist] [Rank 0] step={step}, skipped=0, lr=[0.0003]",
    "kernel": "{host} kernel: [{step:5d}.{pid:06}] nfs: server storage-02 OK",
}
RARITY = {"tqdm": 7, "DeepSpeed": 50, "kernel": 400}  # every so many steps; others at each

NEAR_MISSES = (
    "{clock},{ms:03} INFO trainer: no CUDA error so far, peak memory 61.3 GiB of 80 GiB",
    "{clock},{ms:03} INFO data: retrying shard {step} after a connection hiccup (attempt 1 of 5)",
    "{clock},{ms:03} INFO trainer: gradient overflow skipped, scale halved to 32768",
    "{clock},{ms:03} INFO checkpoint: wrote error-feedback buffers for step {step} in 4.1 s",
    "{host} kernel: [{step:5d}.{pid:06}] mlx5_core 0000:0c:00.0: Port module event: module 0, Cable plugged",
)


def facts(dice: random.Random, step: int) -> dict[str, object]:
    """What stands in the gaps of the templates."""
    rank, done = dice.randrange(64), step % 60
    return {
        "step": step,
        "clock": f"2026-03-02 {step // 3600 % 24:02}:{step // 60 % 60:02}:{step % 60:02}",
        "ms": dice.randrange(1000),
        "loss": 1 + 8 / (1 + step / 500) + dice.random() / 10,
        "rate": dice.randrange(9000, 9999),
        "norm": dice.random() * 3,
        "samples": step * 1024,
        "epoch": step // 100,
        "done": done,
        "bar": "█" * (done // 10),
        "channel": step % 16,
        "rank": rank,
        "local": rank % 8,
        "peer": (rank + 8) % 64,
        "host": f"gpu-n{rank // 8:02}",
        "pid": 20_000 + rank,
        "tid": 21_000 + rank,
    }


def healthy_lines(dice: random.Random) -> Iterator[str]:
    """Lines of a healthy job of 64 ranks, all dialects mixed, without end."""
    for step in count(1):
        gaps = facts(dice, step)
        for name, template in DIALECTS.items():
            if step % RARITY.get(name, 1) == 0:
                yield template.format(**gaps)


def near_miss(dice: random.Random, step: int) -> str:
    """A healthy line with the words of trouble in it."""
    return dice.choice(NEAR_MISSES).format(**facts(dice, step))
