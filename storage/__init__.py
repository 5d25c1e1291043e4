"""The memory of the service: tables, migrations, queries and blobs."""
