"""What needs a person: reads an engine's own error text and final answer, and says what to type.

Never fed with tool output or with files an engine read (rule 4.6): those may quote any error there is.
"""

from __future__ import annotations

import re

from codeframe.core.models import ErrorClass

# Looked at in order; the first hit counts. Structured events come first in every adapter: this is for
# the text that remains. Each pattern wants the words of a provider's refusal, not a topic ("login page",
# "billing module", "rate limiter" are what tasks are about). Compiled by `re` when first used: most runs use none.
_PATTERNS: tuple[tuple[ErrorClass, str], ...] = (
    # A plan's allowance names itself a limit and says when it resets; a plain rate limit does neither.
    (
        ErrorClass.QUOTA,
        r"\b(usage|session|weekly|daily|monthly|5-hour|five-hour) limit\b.{0,80}\b(reset|reached)",
    ),
    (ErrorClass.QUOTA, r"\byou(’|')?ve (hit|reached) your\b.{0,40}\blimit\b"),
    (ErrorClass.QUOTA, r"\b(insufficient_quota|exceeded your current quota)\b"),
    # Money: what the providers' own messages say, never the bare word.
    (
        ErrorClass.BILLING,
        r"\bcredit balance is too low\b|\binsufficient (credit|funds|balance)|\bbilling_error\b",
    ),
    (ErrorClass.BILLING, r"\b(payment required|billing (is|was) (not active|disabled|inactive))\b"),
    # Credentials: the subject is the key, token or login of this call.
    (ErrorClass.AUTH, r"\b(invalid|incorrect|missing|expired|revoked)( x-)?[ -]?api[ -_]?key\b"),
    (
        ErrorClass.AUTH,
        r"\b(invalid|incorrect) x-api-key\b|\bapi key (is )?(not set|missing|required|expired)\b",
    ),
    (ErrorClass.AUTH, r"\bnot logged in\b|\bplease (run )?/?log ?in\b|\brun `?[\w-]+ (auth )?login\b"),
    (ErrorClass.AUTH, r"\bauthentication_(error|failed)\b|\boauth token (has )?(expired|been revoked)\b"),
    (ErrorClass.AUTH, r"\b401\b.{0,20}\bunauthorized\b|\bunauthorized\b.{0,20}\b401\b"),
    (
        ErrorClass.RATE_LIMITED,
        r"\brate_limit(_error|_exceeded)?\b|\b(rejected|status|error):? \(?429\b",
    ),
    (ErrorClass.RATE_LIMITED, r"\btoo many requests\b|\brate limit (reached|exceeded)\b"),
    (
        ErrorClass.OVERLOADED,
        r"\boverloaded(_error)?\b|\b(503 service unavailable|529)\b|\binternal server error\b",
    ),
    # The engine's own connection to its model; a test's refused connection never gets here.
    (
        ErrorClass.NETWORK,
        r"\b(ECONNREFUSED|ENOTFOUND|ECONNRESET|ETIMEDOUT|EAI_AGAIN|ConnectionRefused)\b",
    ),
    (
        ErrorClass.NETWORK,
        r"\bunable to connect\b|\bconnection (refused|reset|error)\b|\brequest timed out\b",
    ),
    (ErrorClass.CONTEXT_WINDOW, r"\bprompt is too long\b|\b(exceeds?|exceeded) the (model's )?context\b"),
    (ErrorClass.CONTEXT_WINDOW, r"\bcontext(_| )length(_| )exceeded\b|\bmaximum context length\b"),
    (ErrorClass.MODEL, r"\bmodel_not_found\b|\b(unknown|invalid|unsupported) model\b"),
    (ErrorClass.MODEL, r"\bmodel\b.{0,80}\b(does not exist|not found|may not exist|is not available)\b"),
)
_LOOK_AT = 8 * 1024


def classify_error_for_blocker(engine_error_text: str) -> ErrorClass | None:
    """The class of an engine's own error message, None when it says nothing known."""
    text = engine_error_text[-_LOOK_AT:]
    return next((found for found, pattern in _PATTERNS if _has(pattern, text)), None)


# A question counts only if it asks the reader for a decision or a fact. Offers ("would you like me to
# also add tests?", "anything else?") close a finished answer and need no reply.
_OFFER = (
    r"\b(anything else|let me know|would you like me to|want me to|shall i (also|go ahead)|"
    r"should i (also|go ahead|proceed|continue)|do you want me to (also|continue|proceed))\b"
)
_ASKS = (
    r"\b(which|what|where|who|when|how|should|shall|could you|can you|would you|do you|did you|is it|are you|"
    r"is there|may i|please (confirm|clarify|provide|specify|tell))\b"
)
_NEEDS = (
    r"\b((please|could you|could you please) (confirm|clarify|provide|specify|tell me)|"
    r"i need (you to|to know|more information|clarification)|before i (can )?(start|proceed|continue))\b"
)
_CODE = r"(?s)```.*?(?:```|\Z)|`[^`\n]*`"
_SENTENCE = r"(?<=[.!?])\s+|\n+"
_LAST_SENTENCES = 6


def question_in_prose(text: str) -> str | None:
    """The question a final answer ends on, if it asks the person something it needs; else None.

    Conservative: looks at the last few sentences only, skips code, quotes and closing offers. The caller
    must have seen that nothing was changed: an answer after work done is not a question.
    """
    prose: str = re.sub(_CODE, "", text[-_LOOK_AT:])
    sentences: list[str] = [s.strip(" \t*_>-") for s in re.split(_SENTENCE, prose) if s.strip(" \t*_>-")]
    for sentence in reversed(sentences[-_LAST_SENTENCES:]):
        if _has(_OFFER, sentence):
            continue
        if (sentence.endswith("?") and _has(_ASKS, sentence)) or _has(_NEEDS, sentence):
            return sentence
    return None


def _has(pattern: str, text: str) -> bool:
    return re.search(pattern, text, re.IGNORECASE) is not None


def what_to_type(error_class: ErrorClass, engine: str, login_hint: str = "") -> str:
    """What a person has to do about an auth or billing blocker, in two sentences; "" for other classes.

    `engine` is the name typed after --engine, `login_hint` the adapter's own words on how to log in.
    """
    if error_class is ErrorClass.AUTH:
        how = login_hint or f"Log in to {engine} or set its API key"
        return f"{engine} is not logged in. {how.rstrip('.')}, then answer this blocker to go on."
    if error_class is ErrorClass.BILLING:
        return (
            f"The account {engine} uses has no credit left. "
            "Add credit or switch the account, then answer this blocker to go on."
        )
    return ""
