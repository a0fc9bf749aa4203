"""The record of truth of every sweep: `store.Store` is its one door, `records` the values that it keeps."""
