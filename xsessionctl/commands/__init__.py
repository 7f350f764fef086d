"""One module a verb, imported only when that verb is asked for."""
