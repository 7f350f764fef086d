"""The command line and the shims: clients of the broker that hold no policy.

Nothing is imported here, so that the fast way in stays fast.
"""
