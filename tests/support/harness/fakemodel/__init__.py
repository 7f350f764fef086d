"""A scripted model behind the vendors' own HTTP APIs, so that a real CLI takes real turns with no vendor and no key.

One ``FakeModel`` per CLI session: a loopback server that speaks every API below, a record of what reached it, and the
plays (scripts) it acts. The text that reaches the model selects the play, so a message that was delivered into a
session can make its model act just as a prompt can.

    with FakeModel() as model:
        model.play("greet", Call("list_agents"), Wait("go"), Call("send_message", {"to": "b", "message": "hello"}))
        ...                              # run a CLI against model.url with the prompt "[[play greet]]"
        model.wait_for_gate("go")        # its model has listed the agents and waits in the middle of its turn
        model.open_gate("go")

``script`` is the language (pure); ``anthropic`` and ``openai`` are the wire formats (pure); ``server`` is the HTTP.
"""

from .model import FakeModel, ModelTimeout, Request, ScriptFailed
from .script import Call, Found, Step, Wait

__all__ = ["Call", "FakeModel", "Found", "ModelTimeout", "Request", "ScriptFailed", "Step", "Wait"]
