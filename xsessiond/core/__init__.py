"""The pure broker: values, bytes and `now` go in, values come out.

Nothing is imported here, so that a client pays only for the module that it uses.
"""
