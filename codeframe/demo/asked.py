"""What a request to the scripted model asks, read the same way whichever API it came by.

A dialect turns a request into `Said`s; who wrote them decides what is a person's prompt, and how many answers
the model has given since. What a CLI adds to a conversation by itself is known here, by how it begins.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

# Text that stands in user messages but that no person wrote: how it begins, or the whole of it.
INJECTED = (
    "<system-reminder>",
    "[structured-output-enforce]",
    "[Request interrupted by user",
    "[Your previous response had no visible output",
    "<environment_context>",
    "# AGENTS.md instructions",
    "<turn_aborted>",
    "<environment_details>",
    "I am not sharing any files that you can edit yet.",
    "I have *added these files to the chat*",
    "I added these files to the chat:",
    "Don't try and edit any existing code without asking me",
    "Here are summaries of some files present in my git repository.",
    "Here are some READ ONLY files",
    "No filename provided before",
    "# 1 SEARCH/REPLACE block failed to match!",
)
INJECTED_WHOLE = (
    "Continue from where you left off.",  # on --resume, where the last run ended with a tool result
)
# What ends the examples that stand before the conversation, in user and model messages like its own.
EXAMPLES_END = "I switched to a new code base."
# What is hung on to the latest prompt, in the same text, and begins like this.
APPENDED = re.compile(
    r"\n\n(?:To suggest changes to a file you MUST return|# \*SEARCH/REPLACE block\* Rules:|# File editing rules:)"
)
# How CLIs name the working directory to the model, in the system prompt or in a message.
CWD = re.compile(r"working directory:? *(?P<words>/.*)|<cwd>(?P<tag>/[^<]*)</cwd>", re.IGNORECASE)
# Side requests for a title have a system prompt of their own, and no tools.
TITLE = re.compile(r"title generator|generate a [\w, -]*title", re.IGNORECASE)


@dataclass(frozen=True)
class Said:
    """One entry of a conversation: who said it, and its texts. A model's entry is one whole answer."""

    who: Literal["system", "user", "model", "tool"]
    texts: tuple[str, ...] = ()


@dataclass(frozen=True)
class Asked:
    """Where a conversation is.

    `prompts` are the person's so far, `turn` counts the answers since the last of them, `tools` are those on
    offer (each with its `name`), `cwd` is the announced working directory or "". `is_title` marks a side
    request, which belongs to no task.
    """

    prompts: tuple[str, ...] = ()
    turn: int = 0
    cwd: str = ""
    tools: tuple[Mapping[str, Any], ...] = ()
    is_title: bool = False


def read_off(said: Sequence[Said], tools: Sequence[Mapping[str, Any]]) -> Asked:
    """Read a conversation. Prompts are texts: two that nobody answered may share a message."""
    prompts: list[str] = []
    answers = 0
    for entry in said:
        if entry.who == "model":
            answers += 1
        elif entry.who == "user":
            if entry.texts and entry.texts[0].startswith(EXAMPLES_END):
                prompts.clear()
            wrote = [APPENDED.split(words)[0] for words in entry.texts if not is_injected(words)]
            if wrote:
                prompts += wrote
                answers = 0
    system = "\n".join(words for entry in said if entry.who == "system" for words in entry.texts)
    is_title = not tools and TITLE.search(system) is not None
    return Asked(tuple(prompts), answers, _cwd(said), tuple(tools), is_title)


def is_injected(words: str) -> bool:
    """Whether the CLI, not the person, wrote this text of a user message."""
    return words.lstrip().startswith((EXAMPLES_END, *INJECTED)) or words in INJECTED_WHOLE


def _cwd(said: Sequence[Said]) -> str:
    """The system prompt's word counts before that of a message."""
    for entry in sorted(said, key=lambda entry: entry.who != "system"):
        if found := CWD.search("\n".join(entry.texts)):
            return (found["words"] or found["tag"]).strip()
    return ""
