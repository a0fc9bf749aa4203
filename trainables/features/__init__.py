"""Feature maps: fixed public functions that see one record at a time, put before every model of a sweep."""
