"""A real systemd for the tests, booted in namespaces on a machine whose own first process may be anything."""
