"""The broker as a service of the user's own manager: put in place, looked at, taken away.

`systemd` and `launchd` know one manager each and offer the same (`manager.Manager`); `texts` fills in the files that
lie in the repository's `systemd/` and `launchd/`, `files` puts them where they belong. Verbs are in `commands.service`.
"""
