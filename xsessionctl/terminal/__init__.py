"""A harness in a terminal of ours: for one that nothing but typing can wake, `xsessionctl run`."""
