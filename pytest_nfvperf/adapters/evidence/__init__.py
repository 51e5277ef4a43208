"""Evidence on disk: what a record carries (records), its schema, the writer and the reader."""
