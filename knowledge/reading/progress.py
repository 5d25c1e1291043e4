"""Signs of life: training steps, and the words of a job that ended well."""

from __future__ import annotations

import re

_STEP = re.compile(r"(?i)\b(?:global_?step|step|iter(?:ation)?)s?['\"]?[ :=/\[]{0,4}\s*(?P<step>\d{1,9})(?![\w.])")
_OTHER = re.compile(
    r"(?i)it/s[\],]|s/it[\],]|Train Epoch: \d+ \[|\bepoch[ :=]+\d+.{0,40}\bloss\b|'loss': .{1,200}'epoch': \d"
)
_FINISHED = re.compile(
    r"(?i)\btraining (?:is |has )?(?:finished|complete[d]?|done|ended)\b|\bfinished training\b|\bdone, exiting 0\b"
    r"|\btraining of epoch \d+ ends\b|`?Trainer\.fit`? stopped: `?max_(?:steps|epochs)"
    r"|'train_runtime'|\bjob (?:completed|finished) successfully\b|\ball done\b|\bafter training is done\b"
    r"|exiting program at iteration|worker group successfully finished"
)
_LEAVING = re.compile(
    r"(?i)\b(?:leaving|exiting|quitting|finishing|stopping early|early stop\w*|budget reached|reached \w+ budget"
    r"|no more (?:data|batches)|data exhausted|ran out of data|end of (?:data|epoch|shard)|finished its (?:data|shard)"
    r"|(?:all |last )(?:\w+ )?(?:steps|batches|epochs|iterations|updates) (?:are )?(?:done|finished|completed?))\b"
)
_GOT_OVER = re.compile(
    r"\bWARN(?:ING)?\b.*(?i:\b(?:skip\w*|retry\w*|retries|ignor\w+|fall(?:ing|s)? back|fallback|continu\w+|will try again"
    r"|caught|decreas(?:ing|ed)|reduc(?:ing|ed)|halv(?:ing|ed))\b)"
)
_WARNING = re.compile(r"^.{0,60}\bWARN(?:ING)?\b(?!.*\bERROR\b)")
_LOSS = re.compile(r"(?i)\bloss['\"]?[ :=]{1,3}\d")


def _may_step(text: str) -> bool:
    return (
        "step" in text or "iter" in text or "poch" in text or "it/s" in text or "Step" in text or "Iter" in text
        or "STEP" in text or "s/it" in text
    )  # fmt: skip


def _first_step(text: str) -> int:
    """Where `_STEP` can find something at the earliest: it is slow to try every character."""
    if not text.isascii():
        return 0
    lowered = text.lower()
    places = [at for at in (lowered.find("step"), lowered.find("iter")) if at >= 0]
    return max(0, min(places, default=len(text)) - len("global_"))


def step_of(text: str) -> int | None:
    """The training step that a progress line tells; -1 for progress without a number; None: not progress."""
    if not _may_step(text):
        return None
    found = _STEP.search(text, _first_step(text))
    if found:
        return int(found["step"])
    return -1 if _OTHER.search(text) else None


def is_training(text: str) -> bool:
    """Whether a line can be nothing but a step's report: it tells a step or epoch and the number that the loss has."""
    return "oss" in text and _LOSS.search(text) is not None and step_of(text) is not None


def says_finished(text: str) -> bool:
    """Whether a line says that training as a whole came to its end. Ask only of lines with a hint of `marks.FINISHED`."""
    return _FINISHED.search(text) is not None


def says_got_over(text: str) -> bool:
    """Whether a log record warns of an error that the program got over; its traceback may follow. NCCL warns of all errors."""
    return "WARN" in text and "NCCL WARN" not in text and _GOT_OVER.search(text) is not None


def is_warning(text: str) -> bool:
    """Whether a line is a log record that its program itself calls a warning."""
    return "WARN" in text and "NCCL WARN" not in text and _WARNING.match(text) is not None


def says_leaving(text: str) -> bool:
    """Whether a rank says that it, alone, is about to leave the training loop."""
    return _LEAVING.search(text) is not None


_CHECKPOINT = re.compile(
    r"(?i)\b(?:sav|writ|wrot|load|restor|upload)\w*\b.{0,40}\b(?:checkpoint|ckpt|state[_ ]dict)"
    r"|\bcheckpoint\b.{0,30}\b(?:sav|writ|wrote|load|restor|start)"
)
_PREPARING = re.compile(
    r"(?i)\b(?:tokeniz|tokenis|preprocess|caching|download"
    r"|build(?:ing)?\b.{0,40}\b(?:index|indices|indexes|datasets?|cache)\b|generating .* split|map(?:ping)? \()"
)
_OVER = re.compile(
    r"(?i)\b(?:saved|wrote|written|loaded|restored|uploaded|downloaded|done|finished|completed?)\b|\b100 ?%"
)
_WAITING_DATA = re.compile(
    r"(?i)\b(?:waiting for (?:data|batch|next)|data(?:loader)? (?:stall|wait|slow)|slow (?:data|read|batch)"
    r"|still (?:reading|loading|waiting for)|stalled read)"
)


def occupation(text: str) -> str | None:
    """The cause that a rank's last words tell, when it was busy with something known to be slow; else None."""
    if _CHECKPOINT.search(text):
        return "slow-checkpoint"
    if _PREPARING.search(text):
        return "slow-preprocessing"
    return "straggler" if _WAITING_DATA.search(text) else None


def is_going_on(text: str) -> bool:
    """Whether a line tells of something slow that had begun, not of one that was over."""
    return _OVER.search(text) is None
