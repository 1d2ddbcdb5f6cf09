"""Kilo Code: a program made from OpenCode, found as `kilo` or `kilocode`. Facts observed on version 7.7.7.

What differs is data. A run would attach to a daemon of its own where one runs, and then not be ours to stop:
that is switched off, as are telemetry and the upload of sessions. Its retries, unlike its parent's, can be bounded.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from codeframe.core.adapters.opencode import OpenCodeAdapter
from codeframe.core.adapters.opencode_setup import Product


class KilocodeAdapter(OpenCodeAdapter):
    """Drives the real `kilo` (or `kilocode`) found on PATH, with the person's own providers, logins and sessions."""

    product: ClassVar[Product] = Product(
        title="Kilo",
        commands=("kilo", "kilocode"),
        prefix="KILO",
        folder="kilo",
        configs=("opencode", "kilo"),
        project_folders=(".kilocode", ".kilo"),
        agent="code",
        hosted="kilo",
    )
    capabilities = OpenCodeAdapter.capabilities._replace(
        description="Kilo Code, by its command line `kilo run`"
    )
    commands: ClassVar[tuple[str, ...]] = product.commands
    tested: ClassVar[str] = "7.7.7"
    install_hint: ClassVar[str] = "Install it: npm install -g @kilocode/cli"
    login_hint: ClassVar[str] = "Run `kilo auth login`, or set the API key of the model's provider"
    project_config: ClassVar[tuple[str, ...]] = (
        "kilo.json",
        "kilo.jsonc",
        "opencode.json",
        "opencode.jsonc",
        ".kilo",
        ".kilocode",
    )
    env_add: ClassVar[Mapping[str, str]] = {
        "KILO_DISABLE_AUTOUPDATE": "1",
        "KILO_DISABLE_MODELS_FETCH": "1",
        "KILO_DISABLE_LSP_DOWNLOAD": "1",
        "KILO_DISABLE_SESSION_INGEST": "1",
        "KILO_DISABLE_CODEBASE_INDEXING": "1",
        "KILO_TELEMETRY_LEVEL": "off",
        "KILO_NO_DAEMON": "1",
        "KILO_SESSION_RETRY_LIMIT": "2",
    }
    env_drop: ClassVar[frozenset[str]] = frozenset({"KILO", "KILO_PID", "KILO_CLIENT"})

    @property
    def name(self) -> str:
        """The name people type after --engine."""
        return "kilocode"
