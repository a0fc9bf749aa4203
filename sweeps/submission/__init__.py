"""A sweep as a job of a Ray cluster: its controller runs there, and any machine follows it.

`parcel` packs what travels (this code, the spec, tokens), `order` says what is to be done with it, `jobs` is the
door to the cluster's job server, `start` is what runs there, and `submit` is the command `sweeps submit`.
"""
