"""The memory of the service: tables, migrations, queries and blobs."""

from storage.blobs import BlobStore
from storage.database import Database
from storage.repository import Repository

__all__ = ["BlobStore", "Database", "Repository"]
