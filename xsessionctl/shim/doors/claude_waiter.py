"""Claude Code before it had an inbox: a hook that waits in the background, and wakes the session by its end.

`asyncRewake` lets a hook run on while the session is idle; when it ends with 2, a turn begins with what it wrote. Each
end of a turn starts such a hook, and it ends at once unless this door wants one. Laws: one waits, for this session
alone, over a connection to this process, so that it ends with it; what is given to it, is given to nobody else. Refuses
to know: hooks that do not wait.
"""

from __future__ import annotations

from xsessionctl.shim.door import REFUSED, WRITTEN, Door

TYPE_CHECKING = False
if TYPE_CHECKING:
    from xsessionctl.shim.door import Done
    from xsessionctl.shim.hook_dir import HookDirectory
    from xsessionctl.shim.hook_socket import Caller


class Waiter(Door):
    """See the module."""

    delivery = "push"
    modes = ("auto", "followup")
    most = 9800  # as for the answer to a hook
    busy_too = False
    returns = False

    def __init__(self, directory: HookDirectory) -> None:
        super().__init__()
        self._directory = directory
        self._caller: Caller | None = None
        self._shut = False
        directory.take_waiter = self._take
        directory.flag("waiter", on=True)

    @property
    def is_open(self) -> bool:
        """Whether one waits."""
        return self._caller is not None and not self._shut

    def post(self, text: str, *, busy: bool, mode: str, done: Done) -> None:
        """Ends the wait; see `Door.post`."""
        caller, self._caller = self._caller, None
        if caller is None:
            done(REFUSED)
            return
        caller.on_gone = _nothing
        # A header must begin its line, and the harness puts words of its own in front.
        caller.send(f"\n{text}", lambda: done(WRITTEN), lambda: done(REFUSED))
        self._directory.flag("waiter", on=not self._shut)
        self.on_change()

    def shut(self) -> None:
        """See `Door.shut`."""
        self._shut = True
        self._directory.flag("waiter", on=False)

    def reopen(self) -> None:
        """See `Door.reopen`."""
        if self._shut:
            self._shut = False
            self._directory.flag("waiter", on=self._caller is None)

    def close(self) -> None:
        """See `Door.close`."""
        self.shut()
        caller, self._caller = self._caller, None
        if caller is not None:
            caller.close()

    def _take(self, caller: Caller) -> bool:
        if self._shut or self._caller is not None:
            return False
        self._caller = caller
        self.returns = True  # from now on one comes with the end of each turn
        caller.on_gone = self._lost
        self._directory.flag("waiter", on=False)
        self.on_change()
        return True

    def _lost(self) -> None:
        self._caller = None
        self._directory.flag("waiter", on=not self._shut)
        self.on_change()


def _nothing() -> None:
    pass
