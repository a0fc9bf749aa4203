"""Location: the check-ins of 5,010 people in Bangkok, as a membership-attack benchmark.

Format, split and terms: see `trainables.data.membership_tables`. 446 binary features (places and kinds of places
visited), 30 clusters of people as classes. Lu et al. 2021 train on 1,200, Shokri et al. 2017 on 1,600.
"""

from __future__ import annotations

from trainables.data.membership_tables import MembershipTable

LOCATION = MembershipTable(
    name="location",
    doc="check-ins, 446 binary features, 30 classes, 5,010 records; dataset_location.tgz in option path",
    archive="dataset_location.tgz",
    members=("bangkok",),
    folders=("location",),
    records=5_010,
    width=446,
    classes=30,
    train=1_200,
)
