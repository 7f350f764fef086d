"""Real coding-agent CLIs, driven offline: what the end-to-end tests use to see what truly reaches a model.

``install`` puts pinned CLIs into a cache, ``homes`` seeds an isolated HOME, ``runner`` runs a CLI in it (``terminal``
for the interactive ones) and ``fakemodel`` plays the vendor's model API on 127.0.0.1. No key, no account, no model; and
once the CLIs are installed, no host but the loopback. What a *real* model would make of a message is not tested.

Delivery is judged by what the fake model received (``FakeModel.wait_for``), never by a screen.
"""
