"""Evolution: the schema of the records, version by version, and what of it is surfaced."""
