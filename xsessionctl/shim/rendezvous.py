"""Where the shim finds the broker, and how it starts one. Refuses to know: what is said to it."""

from __future__ import annotations


class Rendezvous:
    """Where the broker is, and how it is started. The shell's part; a test has its own."""

    def sockets(self) -> list[str]:
        """Paths to try, in order. Raises OSError, and PathError of xsessiond.paths."""
        from xsessiond.paths import recorded_runtime_dir, resolve_paths

        paths = resolve_paths()
        elsewhere = recorded_runtime_dir(paths)
        return [paths.broker_socket] if elsewhere is None else [paths.broker_socket, elsewhere + "/broker.sock"]

    def start(self) -> str | None:
        """Sees to it that a broker starts; returns at once. May be called again while it starts. A sentence if it
        cannot."""
        from xsessionctl.shim.starting import start_broker

        return start_broker()

    def settle(self) -> None:
        """The broker answers, or nobody waits for it: whatever watched its start is given up."""
        from xsessionctl.shim.starting import forget_start

        forget_start()
