"""The broker: one per OS user and machine. Nothing is imported here, so that the CLI's fast way in stays fast."""

__version__ = "0.1.0"
