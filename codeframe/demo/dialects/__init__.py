"""The APIs that the scripted model speaks, by the path of their requests."""

from __future__ import annotations

from collections.abc import Mapping

from codeframe.demo.dialects.chat import Chat
from codeframe.demo.dialects.dialect import Dialect
from codeframe.demo.dialects.messages import Messages
from codeframe.demo.dialects.responses import Responses

MESSAGES, RESPONSES, CHAT = Messages(), Responses(), Chat()
DIALECTS: Mapping[str, Dialect] = {dialect.path: dialect for dialect in (MESSAGES, RESPONSES, CHAT)}
