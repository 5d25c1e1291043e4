"""What is told of pods, nodes and events is bounded, and one line stays one line."""

from __future__ import annotations

from hooks.kubernetes.telling import LIMIT, describe_nodes, describe_pods, describe_workload, list_events

HOSTILE = "first\nName: another-pod\r\x1b[31m\x00\u2028Reason: OOMKilled"


def event(reason: str, message: str, last: str = "2026-11-05T03:12:07Z", **other: object) -> dict[str, object]:
    about = {"kind": "Pod", "name": "llm-0"}
    return {
        "type": "Warning",
        "reason": reason,
        "message": message,
        "involvedObject": about,
        "lastTimestamp": last,
        **other,
    }


def test_events_stand_in_the_order_of_their_last_sight_with_their_subject() -> None:
    later, sooner = event("B", "second", "2026-11-05T03:13:00Z"), event("A", "first")
    first, second = list_events([later, sooner]).decode().splitlines()
    assert first.split() == ["2026-11-05T03:12:07Z", "Warning", "A", "pod/llm-0", "first"]
    assert "second" in second


def test_an_event_seen_often_says_how_often_and_since_when() -> None:
    text = list_events([event("BackOff", "again", count=88, firstTimestamp="2026-11-05T01:00:00Z")]).decode()
    assert "again (x88 since 2026-11-05T01:00:00Z)" in text


def test_a_message_cannot_pretend_to_be_other_lines() -> None:
    pod = {"metadata": {"name": "llm-0", "namespace": "train"}, "status": {"phase": "Failed", "message": HOSTILE}}
    job = {"kind": "Job", "metadata": {"name": "llm", "namespace": "train"}, "status": {"message": HOSTILE}}
    for text in (describe_pods([pod]), list_events([event("X", HOSTILE)]), describe_workload([("Job", job)])):
        lines = text.decode().splitlines()
        assert sum("OOMKilled" in line for line in lines) == 1
        assert not [line for line in lines if line.startswith("Name: another-pod") or "\x1b" in line or "\x00" in line]


def test_a_text_has_an_end() -> None:
    pods = [
        {
            "metadata": {"name": f"llm-{number}", "namespace": "train"},
            "status": {"phase": "Failed", "message": "x" * 5000},
        }
        for number in range(4000)
    ]
    text = describe_pods(pods)
    assert len(text) < LIMIT + 100
    assert text.endswith(b"[firstfault: the rest is left out]\n")


def test_a_node_that_fell_silent_is_told_with_its_condition_and_taints() -> None:
    node = {
        "metadata": {"name": "gpu-n7"},
        "spec": {"taints": [{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}]},
        "status": {
            "conditions": [
                {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown",
                 "message": "Kubelet stopped posting node status."}
            ]
        },
    }  # fmt: skip
    text = describe_nodes([node]).decode()
    assert "Name:         gpu-n7" in text
    assert "node.kubernetes.io/unreachable" in text
    assert "Kubelet stopped posting node status." in text


def test_what_is_not_there_is_not_told() -> None:
    assert list_events([]) == b""
    assert describe_pods([]) == b""
