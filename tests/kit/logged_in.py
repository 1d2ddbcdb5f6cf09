"""The environment of a person who has an engine, logged in, whose model is the scripted one at `url`.

Only what such a person has: what an adapter has to add is not here. `url` is the base URL of a scenario. Each
function may be called again with another one; the home is then that person's, changed. For Claude Code it is
`engines.scripted_env`.
"""

from __future__ import annotations

import json
from pathlib import Path

from tests.kit.engines import engines_env

KEY = "dummy"
MODEL = "scripted/m"  # of opencode and kilo: provider and model
AIDER_MODEL = "openai/m"

CODEX_CONFIG = """\
model = "gpt-5.5"
model_provider = "scripted"

[model_providers.scripted]
name = "scripted"
base_url = "{url}/v1"
env_key = "SCRIPTED_KEY"
wire_api = "responses"

[features]
plugins = false
"""


def codex(home: Path, url: str) -> dict[str, str]:
    """Codex with a provider of its own in its configuration. The model is one it offers apply_patch to."""
    folder = home / ".codex"
    folder.mkdir(exist_ok=True)
    (folder / "config.toml").write_text(CODEX_CONFIG.format(url=url))
    return engines_env(home) | {"SCRIPTED_KEY": KEY}


def opencode(home: Path, url: str) -> dict[str, str]:
    """opencode with a provider of its own in its configuration, and MODEL the usual model."""
    return _opencode_like(home, url, "opencode", "OPENCODE")


def kilo(home: Path, url: str) -> dict[str, str]:
    """Kilo likewise."""
    return _opencode_like(home, url, "kilo", "KILO") | {"KILO_TELEMETRY_LEVEL": "off"}


def aider(home: Path, url: str) -> dict[str, str]:
    """aider with a key and an API base in the environment, and AIDER_MODEL the usual model."""
    env = {"OPENAI_API_BASE": f"{url}/v1", "OPENAI_API_KEY": KEY, "AIDER_MODEL": AIDER_MODEL}
    return engines_env(home) | env


def _opencode_like(home: Path, url: str, name: str, prefix: str) -> dict[str, str]:
    provider, _, model = MODEL.partition("/")
    limit = {"context": 128_000, "output": 8192}
    cost = {"input": 1, "output": 2, "cache_read": 0.1, "cache_write": 1}
    config = {
        "model": MODEL,
        "provider": {
            provider: {
                "npm": "@ai-sdk/openai-compatible",
                "name": "Scripted",
                "options": {"baseURL": f"{url}/v1", "apiKey": KEY},
                "models": {model: {"name": model, "tool_call": True, "limit": limit, "cost": cost}},
            }
        },
    }
    folder = home / ".config" / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(config))
    offline = ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD")
    return engines_env(home) | {f"{prefix}_DISABLE_{what}": "1" for what in offline}
