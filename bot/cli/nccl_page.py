"""The page that sets all NCCL errors side by side."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from bot.cli import markdown
from bot.cli.lookup import layers
from knowledge.catalogue import load_catalogue
from knowledge.causes import load_causes
from knowledge.signature import Says, Scope, Signature, SignatureRole

Link = Callable[[str], str]

SHORT_COMMAND = 110  # characters of a command that a table can hold; longer ones stand with the entry

_VARIABLE = re.compile(r"\b(?:TORCH_NCCL|NCCL|GLOO|TORCH|CUDA|PYTORCH|UCX|FI|MASTER)_[A-Z][A-Z_]*[A-Z]\b")
_NOT_VARIABLES = re.compile(r"CUDA_ERROR_|NCCL_STATUS")
_NCCL = re.compile(r"NCCL|watchdog|dump|PG GUID")

INTRODUCTION = """\
# NCCL errors side by side

NCCL is where failures of a job are noticed, seldom where they begin. Read in this order; the first that holds decides:

1. A node's own word: Xid, SXid, a link that went down, an OOM kill, before the first error. The rank on that GPU or host.
2. A rank's own fault: CUDA error, device assert, out of memory, traceback. The earliest such rank.
3. Nobody has either: the rank that is missing among those that time out; then the smallest last enqueued, then the smallest
   last completed number of the same group.
4. Nobody is missing and all wait in one collective: it is the transfer itself; common card, host, rail, or at the very
   first collective the interface or the GID.

Differences below two seconds between hosts order nothing: clocks differ.

## The result codes

| code | text in PyTorch | names | go to |
| --- | --- | --- | --- |
{codes}

## The variables that make them speak

| variable | what it shows or decides |
| --- | --- |
| `NCCL_DEBUG=WARN` | the only place where the failing call and its text stand; costs nothing, keep it on |
| `NCCL_DEBUG=INFO`, `NCCL_DEBUG_SUBSYS=INIT,NET` | interface, cards and GPU of each rank, and who never reached `Init COMPLETE` |
| `NCCL_DEBUG_FILE=/shared/nccl.%h.%p` | one file a process, so that lines of ranks do not mix |
| `NCCL_SOCKET_IFNAME`, `GLOO_SOCKET_IFNAME` | the interface of the sockets; prefixes, `=` exact, `^` all but |
| `NCCL_IB_HCA`, `NCCL_IB_GID_INDEX`, `NCCL_IB_ADDR_FAMILY` | which RDMA cards, and which of their addresses |
| `NCCL_IB_TIMEOUT`, `NCCL_IB_RETRY_CNT` | how long RDMA waits: 4.096 µs × 2^timeout × (retries + 1) |
| `NCCL_IB_DISABLE=1`, `NCCL_P2P_DISABLE=1`, `NCCL_SHM_DISABLE=1` | for one test: whether the fault goes away without RDMA, NVLink or shared memory |
| `NCCL_NVLS_ENABLE=0`, `NCCL_CUMEM_ENABLE=0` | for one test: whether multicast or the cuMem allocator is at fault |
| `NCCL_CROSS_NIC=0` | needed on fabrics without a path between rails |
| `TORCH_NCCL_TRACE_BUFFER_SIZE`, `TORCH_NCCL_DUMP_ON_TIMEOUT=1` | the flight recorder: which rank never entered which collective |
| `TORCH_DISTRIBUTED_DEBUG=DETAIL` | compares every collective over the ranks before it runs; slow, for small jobs |
| `CUDA_LAUNCH_BLOCKING=1` | a CUDA error's traceback shows the true line; slow |
"""

CODES = (
    ("1 ncclUnhandledCudaError", "unhandled cuda error", "this rank's GPU, driver or memory", "nccl-unhandled-cuda-error"),
    ("2 ncclSystemError", "unhandled system error", "a system call; before 2.13 also a dead peer", "nccl-system-error"),
    ("3 ncclInternalError", "internal error", "topology, configuration or a bug", "nccl-internal-error"),
    ("4 ncclInvalidArgument", "invalid argument", "this rank's call", "nccl-invalid-argument"),
    ("5 ncclInvalidUsage", "invalid usage", "how the ranks were set up, often two on one GPU", "nccl-invalid-usage"),
    ("6 ncclRemoteError", "remote process exited or there was a network error", "a peer, since 2.13", "nccl-remote-error"),
)  # fmt: skip


def page(link: Link) -> str:
    """Return the page, ending in a newline. `link` makes a link to an entry of an id."""
    codes = "\n".join(
        f"| `{code}` | {markdown.cell(text)} | {markdown.cell(names)} | {link(entry)} |"
        for code, text, names, entry in CODES
    )
    sections = [INTRODUCTION.format(codes=codes)]
    sections += ["\n".join(_table(title, entries, link)) + "\n" for title, entries in _groups()]
    return "\n".join(sections)


def whom(entry: Signature) -> str:
    """Which rank or host to look at first; derived from the entry's fields where it does not say."""
    if entry.look_at:
        return entry.look_at
    if entry.role in (SignatureRole.ADVICE, SignatureRole.NOISE, SignatureRole.TEARDOWN):
        return "Nobody."
    if entry.says & {Says.PEER_GONE, Says.NAMES_RANK}:
        return "The peer or rank that the line names."
    if Says.WAITING in entry.says:
        return "A rank of the group that does not print it."
    if entry.role is SignatureRole.CASCADE:
        return "Whoever failed before; not the rank that prints it."
    return {
        Scope.RANK: "The rank that printed it.",
        Scope.NODE: "The host that printed it.",
        Scope.JOB: "The job as a whole.",
    }[entry.scope]


def shown() -> list[Signature]:
    """The entries of the page: NCCL's layer, PyTorch's lines about NCCL, and CUDA 999."""
    return [
        entry
        for entry in load_catalogue()
        if layers()[entry.id] == "nccl"
        or entry.id == "cuda-unknown-error"
        or (layers()[entry.id] == "c10d" and any(_NCCL.search(sample.text) for sample in entry.samples.match))
    ]


def _groups() -> Iterator[tuple[str, list[Signature]]]:
    entries = sorted(shown(), key=lambda entry: entry.id)
    roots = [entry for entry in entries if entry.role is SignatureRole.ROOT]
    yield "It began with this rank", [entry for entry in roots if entry.scope is Scope.RANK]
    yield (
        "It began with this host or with the job's set-up",
        [entry for entry in roots if entry.scope is not Scope.RANK],
    )
    yield "Somebody else failed first", [entry for entry in entries if entry.role is SignatureRole.CASCADE]
    rest = (SignatureRole.ROOT, SignatureRole.CASCADE)
    yield "Facts and noise beside it", [entry for entry in entries if entry.role not in rest]


def _table(title: str, entries: Sequence[Signature], link: Link) -> Iterator[str]:
    yield f"## {title}"
    yield ""
    yield "| entry | says | really indicates | look at | told apart by | variables |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for entry in entries:
        cells = [
            link(entry.id),
            markdown.code_cell(_says(entry)),
            markdown.cell(f"{load_causes()[entry.cause].title}. {_first_sentences(entry.mechanism)}"),
            markdown.cell(whom(entry)),
            _evidence(entry, link),
            ", ".join(f"`{name}`" for name in variables(entry)),
        ]
        yield f"| {' | '.join(cells)} |"


def _says(entry: Signature) -> str:
    """The message itself, without host, process and source file in front of it."""
    line = entry.samples.match[0].text
    marks = [place for mark in ("NCCL WARN ", "NCCL INFO ", *entry.literals) if (place := line.find(mark)) >= 0]
    return line[min(marks) :] if marks else line


def _first_sentences(text: str, limit: int = 230) -> str:
    kept = ""
    for sentence in re.split(r"(?<=\.) (?=[A-Z'])", text):
        if kept and len(kept) + len(sentence) > limit:
            break
        kept = f"{kept} {sentence}".strip()
    return kept


def _evidence(entry: Signature, link: Link) -> str:
    parts = []
    if entry.confirm:
        command = f"{markdown.code_cell(entry.confirm.run)} → " if len(entry.confirm.run) <= SHORT_COMMAND else ""
        parts.append(command + markdown.cell(entry.confirm.expect))
    if entry.discriminator:
        parts.append(markdown.cell(entry.discriminator))
    parts += [f"not {link(sibling.id)}: {markdown.cell(sibling.tell)}" for sibling in entry.siblings[:3]]
    return "<br>".join(parts)


def variables(entry: Signature) -> list[str]:
    """Environment variables that the entry's texts name, in their order."""
    texts = [entry.mechanism, entry.is_not, entry.discriminator, entry.prevention, *entry.fix]
    texts += [step.run for step in entry.verify]
    texts += [entry.confirm.run] if entry.confirm else []
    texts += [sibling.tell for sibling in entry.siblings]
    texts += [entry.snippet.code] if entry.snippet else []
    names = _VARIABLE.findall(" ".join(texts))
    return [name for name in dict.fromkeys(names) if not _NOT_VARIABLES.match(name)]
