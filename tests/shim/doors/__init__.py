"""Tests of the doors into the harnesses, against stand-ins; the real harnesses are in tests/e2e."""
