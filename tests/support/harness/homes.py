"""Seeds a HOME in which a harness starts unattended: onboarding, trust, provider, dummy key, MCP servers.

Everything a harness is told by file is written here; what it is told by variable or argument is in ``runner``. The
files are what a user's own would be, so the product's installer can be run against such a HOME afterwards.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tomli_w

from .install import install_package

CLAUDE_KEY = "dummy-key-for-the-loopback-only"
CLAUDE_KEY_TAIL = CLAUDE_KEY[-20:]
"""Claude Code remembers by its last 20 characters which key its user approved."""

CODEX_KEY_VARIABLE = "FAKE_MODEL_KEY"
"""Codex reads its key from the variable that its configuration names."""


@dataclass(frozen=True)
class McpServer:
    """A stdio MCP server to register under ``name``; its tools run without a permission prompt."""

    name: str
    command: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)


def seed_claude(home: Path, work: Path, model_url: str, servers: Sequence[McpServer]) -> None:
    """Claude Code: ``.claude.json`` and ``.claude/settings.json``. It takes the model's URL from its environment."""
    entries = {
        # Without alwaysLoad the tools hide behind a tool search.
        s.name: {
            "type": "stdio",
            "command": s.command[0],
            "args": list(s.command[1:]),
            "env": dict(s.env),
            "alwaysLoad": True,
        }
        for s in servers
    }
    state = {
        "hasCompletedOnboarding": True,
        "theme": "dark",
        "customApiKeyResponses": {"approved": [CLAUDE_KEY_TAIL], "rejected": []},
        "projects": {str(work): {"hasTrustDialogAccepted": True}},
        "mcpServers": entries,
    }
    settings = {
        "skipDangerousModePermissionPrompt": True,
        "permissions": {"allow": [f"mcp__{s.name}" for s in servers]},
    }
    _write_json(home / ".claude.json", state)
    _write_json(home / ".claude" / "settings.json", settings)


def seed_opencode(home: Path, work: Path, model_url: str, servers: Sequence[McpServer]) -> None:
    """opencode: ``.config/opencode``, with the plugin library linked so that it does not fetch it for each HOME."""
    config = home / ".config" / "opencode"
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "fake",
        "options": {"baseURL": f"{model_url}/v1", "apiKey": "dummy"},
        "models": {
            "fake-model": {"name": "fake-model", "limit": {"context": 100000, "output": 4096}, "tool_call": True}
        },
    }
    entries = {
        s.name: {"type": "local", "command": list(s.command), "environment": dict(s.env), "enabled": True}
        for s in servers
    }
    _write_json(
        config / "opencode.json",
        {
            "$schema": "https://opencode.ai/config.json",
            "autoupdate": False,
            "share": "disabled",
            "snapshot": False,
            "model": "fake/fake-model",
            "small_model": "fake/fake-model",
            "enabled_providers": ["fake"],
            "provider": {"fake": provider},
            "mcp": entries,
        },
    )
    plugin = install_package("opencode-plugin")
    (config / "node_modules").symlink_to(plugin / "node_modules")
    for name in ("package.json", "package-lock.json"):
        if (plugin / name).exists():
            (config / name).write_bytes((plugin / name).read_bytes())


def seed_codex(home: Path, work: Path, model_url: str, servers: Sequence[McpServer]) -> None:
    """Codex: ``.codex/config.toml``. Its MCP servers get no environment but what stands in ``env``."""
    entries = {
        s.name: {
            "command": s.command[0],
            "args": list(s.command[1:]),
            "default_tools_approval_mode": "approve",
            "env": dict(s.env),
        }
        for s in servers
    }
    config = {
        "model": "fake-model",
        "model_provider": "fake",
        "check_for_update_on_startup": False,
        "analytics": {"enabled": False},
        "model_providers": {
            "fake": {
                "name": "fake",
                "base_url": f"{model_url}/v1",
                "wire_api": "responses",
                "env_key": CODEX_KEY_VARIABLE,
            }
        },
        "projects": {str(work): {"trust_level": "trusted"}},
        "mcp_servers": entries,
    }
    path = home / ".codex" / "config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(tomli_w.dumps(config), encoding="utf-8")


def seed_gemini(home: Path, work: Path, model_url: str, servers: Sequence[McpServer]) -> None:
    """Gemini CLI: ``.gemini/settings.json``. It takes the model's URL from its environment."""
    entries = {
        s.name: {"command": s.command[0], "args": list(s.command[1:]), "env": dict(s.env), "trust": True}
        for s in servers
    }
    settings = {
        "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
        "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
        "ui": {"hideTips": True, "hideBanner": True},
        "mcpServers": entries,
    }
    _write_json(home / ".gemini" / "settings.json", settings)


def _write_json(path: Path, data: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data, indent=1), encoding="utf-8")
