"""What may be wrong on this machine, looked at one area at a time: a module each, named in `examination.AREAS`.

An area is a function `examine(look)` that yields findings: what it found, why that matters, and the command that mends
it. It changes nothing, starts no broker, and works where none runs.
"""
