"""The one way to the database."""

from __future__ import annotations

from storage.actions import Actions
from storage.clusters import Clusters
from storage.database import Database
from storage.diagnoses import Diagnoses
from storage.episodes import Episodes
from storage.incidents import Incidents
from storage.outbox import Outbox


class Repository:
    """All queries, by subject. Every method is one transaction: done and durable when it returns, or not at all."""

    def __init__(self, database: Database) -> None:
        self.clusters = Clusters(database)
        self.incidents = Incidents(database)
        self.diagnoses = Diagnoses(database)
        self.episodes = Episodes(database)
        self.actions = Actions(database)
        self.outbox = Outbox(database)
