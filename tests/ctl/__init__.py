"""Tests of the command line: `xsessionctl`."""
