"""One budget for a whole sweep: what each trial may spend of it, and when nothing more may be launched."""
