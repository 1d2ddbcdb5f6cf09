"""What the HTTP status means with which a model's API refused (rule 4.6): the same for every engine that tells it."""

from __future__ import annotations

from codeframe.core.models import ErrorClass

_BY_STATUS = {
    401: ErrorClass.AUTH,
    402: ErrorClass.BILLING,
    403: ErrorClass.AUTH,
    404: ErrorClass.MODEL,
    408: ErrorClass.NETWORK,
    413: ErrorClass.CONTEXT_WINDOW,
    429: ErrorClass.RATE_LIMITED,
}


def class_of_status(status: int) -> ErrorClass | None:
    """The class of a refusal with this status; None where it does not tell, as 400 does not."""
    return ErrorClass.OVERLOADED if status >= 500 else _BY_STATUS.get(status)
