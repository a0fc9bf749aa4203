"""What a search that is paid for costs in accuracy, and what it gains: three ways to spend one epsilon."""
