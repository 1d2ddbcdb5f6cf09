"""YAML and JSON read strictly: no key twice, and of YAML none of the traps of its version 1.1."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import yaml


def parse_json(text: str) -> Any:
    """The value of a JSON text, None when it is blank; ValueError says in words what is wrong."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        data: dict[str, Any] = {}
        for key, value in pairs:
            if key in data:
                raise ValueError(f"the key `{key}` is there twice")
            data[key] = value
        return data

    try:
        return json.loads(text, object_pairs_hook=once) if text.strip() else None
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def parse_yaml(text: str) -> Any:
    """The value of a YAML text, None when it is blank; ValueError says in words what is wrong, and where."""
    if not text.strip():
        return None
    import yaml  # costs more than all of our own modules, and most workspaces have no file

    try:
        return yaml.load(text, _loader())
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}: " if mark else ""
        raise ValueError(f"{where}{error.problem or error.context}") from error
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from error
    except LookupError as error:  # PyYAML's own, for `!!int` before nothing or `!!bool` before a word
        raise ValueError("a tag (`!!...`) does not fit its value") from error
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


@cache
def _loader() -> type[yaml.SafeLoader]:
    """A loader to which only true, false, null and plain numbers are anything but text.

    To YAML 1.1 `network: off` is false, `1:30` a number and a date an object. There are no tags.
    """
    import yaml

    class Loader(yaml.SafeLoader):
        """See above."""

        def mapping(self, node: yaml.MappingNode) -> dict[Any, Any]:
            seen = set()
            for key_node, _ in node.value:
                key = key_node.value if isinstance(key_node, yaml.ScalarNode) else None
                if key in seen:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"the key `{key}` is there twice", key_node.start_mark
                    )
                seen.add(key)
            return self.construct_mapping(node, deep=True)

        def sequence(self, node: yaml.SequenceNode) -> list[Any]:
            return self.construct_sequence(node, deep=True)

    tag = "tag:yaml.org,2002:"
    Loader.yaml_implicit_resolvers = {}
    for name, form, first in (
        ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
        ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
        ("int", r"[-+]?(?:0|[1-9][0-9]{0,17})", "-+0123456789"),
        ("float", r"[-+]?[0-9]{1,17}\.[0-9]{1,17}", "-+0123456789"),
    ):
        Loader.add_implicit_resolver(tag + name, re.compile(f"^(?:{form})$"), list(first))
    Loader.yaml_constructors = {
        tag + "bool": Loader.construct_yaml_bool,
        tag + "null": Loader.construct_yaml_null,
        tag + "int": Loader.construct_yaml_int,
        tag + "float": Loader.construct_yaml_float,
        tag + "str": Loader.construct_yaml_str,
        tag + "seq": Loader.sequence,
        tag + "map": Loader.mapping,
        None: Loader.construct_undefined,
    }
    return Loader
