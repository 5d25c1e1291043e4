"""The job of the demo: eight ranks train a small language model, and one of them meets a token that has no embedding.

`record.sh` runs it for real; the logs that came out are the recording beside this file. It needs PyTorch, which
Firstfault itself does not: nothing imports this module.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from typing import Any

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

VOCABULARY = 4096
CONTEXT = 32
BATCH = 8
STEPS = 400
ADDED_TOKENS = 3  # special tokens that the tokenizer of one shard knows and the model does not

log = logging.getLogger("minigpt")


class MiniGPT(nn.Module):
    """One transformer block between an embedding and a projection back to tokens."""

    def __init__(self, width: int = 128) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, width)
        self.block = nn.TransformerEncoderLayer(width, nhead=4, dim_feedforward=4 * width, batch_first=True)
        self.head = nn.Linear(width, VOCABULARY)

    def forward(self, tokens: Any) -> Any:
        """Map token ids (batch, context) to logits (batch, context, vocabulary)."""
        return self.head(self.block(self.embedding(tokens)))


def batches(shard: int) -> Iterator[Any]:
    """Yield batches (batch, context + 1) of a shard. Shard 5 was tokenised with a newer tokenizer."""
    generator = torch.Generator().manual_seed(shard)
    newest = VOCABULARY + ADDED_TOKENS if shard == 5 else VOCABULARY
    for step in range(STEPS):
        known = VOCABULARY if step < 250 else newest  # the new documents stand at the end of the shard
        yield torch.randint(known, (BATCH, CONTEXT + 1), generator=generator)


def main() -> None:
    """Train until done, logging every tenth step."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    distributed.init_process_group("gloo")
    rank, world = distributed.get_rank(), distributed.get_world_size()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    log.info("rank %d of %d, local rank %s, pid %d", rank, world, os.environ["LOCAL_RANK"], os.getpid())

    model = DistributedDataParallel(MiniGPT())
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    log.info("shard-%05d.bin opened, %d batches", rank, STEPS)
    since = time.monotonic()
    for step, tokens in enumerate(batches(shard=rank)):
        logits = model(tokens[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            seconds, since = time.monotonic() - since, time.monotonic()
            log.info("step %d loss %.4f (%.2f s for 10 steps)", step, loss.item(), seconds)
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
