"""The spec of a sweep: read whole (`parse`), checked whole (`rules`), frozen (`sections`)."""
