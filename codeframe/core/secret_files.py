"""Which files look, by their name alone, as if they held a secret (rules 4.1 and 9.2)."""

from __future__ import annotations

from pathlib import PurePosixPath

# Compared with the lower-cased file name. Names only: nothing is opened. The lists are meant to be
# conservative: a name that commonly is source code (credentials.py, secrets.py) does not match.
_DATA = (".json", ".yaml", ".yml", ".toml", ".ini")
_NAMES = frozenset(
    {
        ".envrc",
        ".netrc",
        "_netrc",
        ".npmrc",
        ".pypirc",
        ".pgpass",
        ".htpasswd",
        ".git-credentials",
        ".dockercfg",
        "credentials",
        *(f"secrets{kind}" for kind in _DATA),
    }
)
_BEGINNINGS = (".env.", "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519")
_ENDINGS = (
    ".env",
    ".pem",
    ".key",
    ".p12",
    ".pfx",
    ".jks",
    ".keystore",
    ".kdbx",
    ".ppk",
    *(f"credentials{kind}" for kind in _DATA),
)
_JSON_BEGINNINGS = ("client_secret", "service-account", "service_account")

# Public counterparts and examples, which people do share.
_HARMLESS = (".pub", ".example", ".sample", ".template", ".dist", "example.env", "sample.env")

# Whatever lies in one of these folders, and one file known by its folder.
_FOLDERS = frozenset({".ssh", ".aws", ".gnupg"})
_BY_FOLDER = frozenset({(".docker", "config.json"), (".kube", "config")})


def looks_secret(path: str) -> bool:
    """Whether a file of this path (`/`-separated, relative or absolute) should be treated as a secret."""
    parts = PurePosixPath(path.lower()).parts
    if not parts:
        return False
    *folders, name = parts
    if name.endswith(_HARMLESS):
        return False
    if _FOLDERS.intersection(folders) or (folders and (folders[-1], name) in _BY_FOLDER):
        return True
    if name in _NAMES or name.startswith(_BEGINNINGS) or name.endswith(_ENDINGS):
        return True
    return name.startswith(_JSON_BEGINNINGS) and name.endswith(".json")
