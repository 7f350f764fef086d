"""What survives a kill: one contract, with SQLite and memory behind it. No trio: the shell calls it in threads."""
