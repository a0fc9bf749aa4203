"""Test records: read once for one trial, each reading on record before it is made, and charged where they are private.

declared   what a sweep's spec says of them, and the one release by which private ones are scored
readings   who read them for which trial, and what came of it
reading    the reading itself
"""
