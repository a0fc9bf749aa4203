"""Models that leave a sweep, with what they claim: which may, what stands on their card, where they are written."""
