"""What Prometheus sees."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from storage.outbox import Backlog


class Metrics:
    """The service's figures, in a registry of their own."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self.requests = Counter(
            "firstfault_intake_requests", "Requests of clusters", ["route", "status"], registry=self._registry
        )
        self.received = Counter("firstfault_intake_log_bytes", "Log bytes taken in", registry=self._registry)
        self.diagnoses = Counter("firstfault_diagnoses", "Diagnoses by outcome", ["outcome"], registry=self._registry)
        self.diagnosis_seconds = Histogram(
            "firstfault_diagnosis_seconds",
            "Wall-clock seconds of one diagnosis",
            buckets=(0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60, 120),
            registry=self._registry,
        )
        self.diagnosis_failures = Counter(
            "firstfault_diagnosis_failures", "Diagnosing that failed, by reason", ["reason"], registry=self._registry
        )
        self.sent = Counter("firstfault_outbox_sent", "Messages posted or edited", ["action"], registry=self._registry)
        self.send_failures = Counter(
            "firstfault_outbox_failures", "Messages not sent, by Slack's code", ["code"], registry=self._registry
        )
        self._waiting = Gauge("firstfault_outbox_waiting", "Messages not sent yet", registry=self._registry)
        self._lag = Gauge("firstfault_outbox_lag_seconds", "Age of the oldest of them", registry=self._registry)
        self._refused = Gauge("firstfault_outbox_refused", "Messages that Slack refuses", registry=self._registry)
        self.slack_connected = Gauge(
            "firstfault_slack_connected", "1 while Slack can reach us", registry=self._registry
        )
        self.slack_silence = Gauge(
            "firstfault_slack_silence_seconds", "Since Slack was last heard on the socket", registry=self._registry
        )

    def exposition(self, backlog: Backlog) -> bytes:
        """Return all figures in Prometheus' text format."""
        self._waiting.set(backlog.waiting)
        self._lag.set(backlog.lag)
        self._refused.set(len(backlog.refused))
        return generate_latest(self._registry)
