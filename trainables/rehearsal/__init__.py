"""A trial in small, on made-up records: what would break after hours, or on a cluster, breaks here in seconds.

No record of the data is read, so everything here may be printed.
"""
