"""Which files look, by their name alone, as if they held a secret (rules 4.1 and 9.2)."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import PurePosixPath

# Matched against the lower-cased file name. Names only: nothing is opened. The list is meant to be
# conservative: a name that commonly is source code (credentials.py, secrets.py) does not match.
_NAMES = (
    ".env",
    ".env.*",
    "*.env",
    ".envrc",
    "*.pem",
    "*.key",
    "*.p12",
    "*.pfx",
    "*.jks",
    "*.keystore",
    "*.kdbx",
    "*.ppk",
    "id_rsa*",
    "id_dsa*",
    "id_ecdsa*",
    "id_ed25519*",
    ".netrc",
    "_netrc",
    ".npmrc",
    ".pypirc",
    ".pgpass",
    ".htpasswd",
    ".git-credentials",
    ".dockercfg",
    "credentials",
    "client_secret*.json",
    "service-account*.json",
    "service_account*.json",
    *(
        f"{stem}.{kind}"
        for stem in ("*credentials", "secrets")
        for kind in ("json", "yaml", "yml", "toml", "ini")
    ),
)

# Public counterparts and examples, which people do share.
_HARMLESS = ("*.pub", "*.example", "*.sample", "*.template", "*.dist", "*example.env", "*sample.env")

# Whatever lies in one of these folders, and one file known by its folder.
_FOLDERS = frozenset({".ssh", ".aws", ".gnupg"})
_BY_FOLDER = frozenset({(".docker", "config.json"), (".kube", "config")})


def looks_secret(path: str) -> bool:
    """Whether a file of this path (`/`-separated, relative or absolute) should be treated as a secret."""
    parts = PurePosixPath(path.lower()).parts
    if not parts:
        return False
    *folders, name = parts
    if any(fnmatchcase(name, pattern) for pattern in _HARMLESS):
        return False
    if _FOLDERS.intersection(folders) or (folders and (folders[-1], name) in _BY_FOLDER):
        return True
    return any(fnmatchcase(name, pattern) for pattern in _NAMES)
