"""Feature maps: fixed public functions that see one record at a time, put before every model of a sweep.

`data.features` names one (`trainables.features.declared`), as a torch.export program whatever it was before
(`programs`) that was seen to keep records apart. What it makes of records is kept beside a sweep (`kept`).
"""
