"""Accountants: one file per notion, one protocol. `dpcore.accounting.make` opens one by its name."""
