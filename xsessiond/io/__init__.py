"""The shell that acts: sockets, processes, timers and signals on trio. It decides nothing; the core does."""
