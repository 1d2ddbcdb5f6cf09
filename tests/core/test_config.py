"""The configuration file: read strictly, reported in sentences, edited without loss (rules 3.4, 10.4)."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codeframe.core.config import EXAMPLES, front_matter, load_environment_config, set_value
from codeframe.core.environment_config import DEFAULTS, KEYS, EnvironmentConfig
from codeframe.core.errors import CodeFrameError, UsageError


def put(root: Path, text: str, name: str = "config.yaml") -> Path:
    path = root / ".codeframe" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


# --- reading


def test_no_file_means_the_defaults(tmp_path: Path) -> None:
    config = load_environment_config(tmp_path)
    assert config == EnvironmentConfig()
    assert config.engine is None
    assert (config.max_corrections, config.stall_action, config.autonomy, config.network) == (
        3,
        "blocker",
        "workspace",
        "on",
    )


@pytest.mark.parametrize("text", ["", "\n", "# only a comment\n", "---\n", "{}", "engine:\n", "engine: null"])
def test_a_file_that_says_nothing_means_the_defaults(tmp_path: Path, text: str) -> None:
    put(tmp_path, text)
    assert load_environment_config(tmp_path) == EnvironmentConfig()


def test_every_key_is_read(tmp_path: Path) -> None:
    put(
        tmp_path,
        """
engine: opencode
model: some/model-1
gates:
  - name: unit
    command: pytest -q
    timeout: 10m
  - {name: types, command: [mypy, .]}
require_gates: true
strict: yes
timeout: 90
stall_timeout: 15m
max_corrections: 0
stall_action: retry
autonomy: full
network: off
tech_stack: Python 3.11, SQLite
""",
    )
    config = load_environment_config(tmp_path)
    assert config == EnvironmentConfig(
        engine="opencode",
        model="some/model-1",
        gates=[
            {"name": "unit", "command": "pytest -q", "timeout": "10m"},
            {"name": "types", "command": ["mypy", "."]},
        ],
        require_gates=True,
        strict=True,
        timeout=90,
        stall_timeout="15m",
        max_corrections=0,
        stall_action="retry",
        autonomy="full",
        network="off",
        tech_stack="Python 3.11, SQLite",
    )
    assert (config.timeout_s, config.stall_timeout_s) == (90, 900)


def test_json_is_read_too_but_not_both(tmp_path: Path) -> None:
    put(tmp_path, '{"engine": "codex", "strict": true}', "config.json")
    assert load_environment_config(tmp_path) == EnvironmentConfig(engine="codex", strict=True)
    put(tmp_path, "engine: codex")
    with pytest.raises(UsageError, match="only one can count"):
        load_environment_config(tmp_path)


def test_a_yml_file_is_not_passed_over_in_silence(tmp_path: Path) -> None:
    put(tmp_path, "engine: codex", "config.yml")
    with pytest.raises(UsageError) as caught:
        load_environment_config(tmp_path)
    assert "mv " in caught.value.hint


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("engine: a\nmodel: [", "line 2"),
        ("engine: a\n\tmodel: b", "line 2"),
        ("engine: a\nstrict: true\nengine: b", "line 3: the key `engine` is there twice"),
        ("gates:\n  - {name: a, name: b}", "line 2: the key `name` is there twice"),
        ("- a list", "has to hold lines"),
        ("just words", "has to hold lines"),
        ("engine: !!python/object/apply:os.getcwd []", "line 1"),
        ("engine: !!timestamp 1", "line 1"),
        ("a: 1\n--- \nb: 2", "line 2"),
        ("engine: \x00", "special characters"),
        ("a: " + "[" * 500, "nested too deeply"),
    ],
)
def test_broken_yaml_is_reported_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    path = put(tmp_path, text)
    with pytest.raises(UsageError) as caught:
        load_environment_config(tmp_path)
    assert said in caught.value.problem
    assert str(path) in caught.value.problem


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"engine": "a",\n "model": }', "line 2"),
        ('{"engine": "a", "engine": "b"}', "`engine` is there twice"),
        ("[1]", "has to hold lines"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_broken_json_is_reported(tmp_path: Path, text: str, said: str) -> None:
    put(tmp_path, text, "config.json")
    with pytest.raises(UsageError, match=said):
        load_environment_config(tmp_path)


def test_bytes_that_are_no_text_are_reported(tmp_path: Path) -> None:
    put(tmp_path, "").write_bytes(b"engine: \xff")
    with pytest.raises(UsageError, match="not UTF-8"):
        load_environment_config(tmp_path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("engine: 5", "`engine` has to be text (put it in quotes), not 5."),
        ("engine: ''", "`engine` has to be text"),
        ("engine: [a]", "`engine` has to be text"),
        ("model: 4.1", "`model` has to be text"),
        ("strict: maybe", "`strict` has to be true or false, not 'maybe'."),
        ("strict: 2", "`strict` has to be true or false"),
        ("timeout: soon", "`timeout` has to be a duration"),
        ("timeout: -5", "`timeout` has to be a duration"),
        ("timeout: 1:30", "`timeout` has to be a duration"),
        ("stall_timeout: true", "`stall_timeout` has to be a duration"),
        ("max_corrections: -1", "`max_corrections` has to be a whole number"),
        ("max_corrections: 2.5", "`max_corrections` has to be a whole number"),
        ("max_corrections: true", "`max_corrections` has to be a whole number"),
        ("stall_action: explode", "`stall_action` has to be retry or blocker or fail"),
        ("integrity: allow", "`integrity` has to be report or block, not 'allow'."),
        ("network: maybe", "`network` has to be on or off"),
        ("autonomy: [full]", "`autonomy` has to be workspace or full"),
        ("gates: pytest", "`gates` has to be a list like"),
        ("gates: [pytest]", "`gates` has to give gate number 1 a name and a command"),
        ("gates: [{name: a}]", "`gates` has to give gate `a` a command"),
        ("gates: [{name: a, command: []}]", "gate `a` a command"),
        ("gates: [{name: a, command: x, timeout: never}]", "gate `a` a timeout that is a duration"),
        ("gates: [{name: a, command: x, tiemout: 5}]", "gate `a` nothing but name, command and timeout"),
        ("gates: [{name: [a], command: x}]", "gate number 1 a name"),
        ("fallback: []", "`fallback` has to name engines"),
        ("fallback: [a, a]", "`fallback` has to name each engine once"),
        ("budget: 5", "`budget` has to be a mapping like"),
        ("budget: {}", "`budget` has to name run, task or workspace"),
        ("budget: {run: {}}", "`budget` has to give each of them tokens, cost or both"),
        ("gates: [{name: a, command: x}, {name: a, command: y}]", "a name of its own"),
        (
            "max_correction: 2",
            "`max_correction` is not a key of the configuration. Did you mean `max_corrections`?",
        ),
        ("zzz: 1", "`zzz` is not a key of the configuration."),
        ("7: 1", "`7` is not a key"),
        ("engine: a\ndefault_engine: b", "differ"),
    ],
)
def test_what_makes_no_sense_is_said_in_a_sentence(tmp_path: Path, text: str, said: str) -> None:
    put(tmp_path, text)
    with pytest.raises(UsageError) as caught:
        load_environment_config(tmp_path)
    assert said in caught.value.problem


def test_default_engine_is_another_name_for_engine(tmp_path: Path) -> None:
    for text in (
        "default_engine: codex",
        "default_engine: codex\nengine: codex",
        "default_engine:\nengine: codex",
    ):
        put(tmp_path, text)
        assert load_environment_config(tmp_path) == EnvironmentConfig(engine="codex")


@pytest.mark.parametrize(("word", "value"), [("on", "on"), ("off", "off"), ("'off'", "off"), ("no", None)])
def test_network_off_is_not_false(tmp_path: Path, word: str, value: str | None) -> None:
    put(tmp_path, f"network: {word}")
    if value:
        assert load_environment_config(tmp_path).network == value
    else:
        with pytest.raises(UsageError, match="`network`"):
            load_environment_config(tmp_path)


def test_booleans_of_other_yaml_readers_are_understood() -> None:
    assert EnvironmentConfig.from_dict({"network": False}).network == "off"
    assert EnvironmentConfig.from_dict({"strict": "yes"}).strict is True


def test_a_bomb_of_aliases_is_reported_in_few_words(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    put(tmp_path, "\n".join(lines) + "\ngates: *a11\n")
    with pytest.raises(UsageError) as caught:
        load_environment_config(tmp_path)
    assert len(caught.value.problem) < 1500


def test_yaml_is_imported_only_for_a_yaml_file(tmp_path: Path) -> None:
    """Cold start: most workspaces have no file (rule 10.5)."""
    put(tmp_path, '{"engine": "codex"}', "config.json")
    code = (
        "import sys; from pathlib import Path; from codeframe.core import config, workspace, lease, store\n"
        "config.load_environment_config(Path(sys.argv[1]))\n"
        "heavy = {'yaml', 'psutil', 'pydantic', 'importlib.metadata', 'typer', 'rich'} & set(sys.modules)\n"
        "sys.exit(f'imported: {heavy}' if heavy else 0)"
    )
    for root in (tmp_path, tmp_path / "none"):
        done = subprocess.run(
            [sys.executable, "-c", code, str(root)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr


# --- properties


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all examples of a property."""
    return tmp_path_factory.mktemp("workspace")


WORD = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1).filter(str.strip)
DURATION = st.sampled_from(["90", "15m", "2h", 90, 0.5, None])
CONFIG = st.builds(
    EnvironmentConfig,
    engine=st.none() | WORD,
    model=st.none() | WORD,
    gates=st.none()
    | st.lists(st.fixed_dictionaries({"name": WORD, "command": WORD}, optional={"timeout": st.just("5m")})),
    require_gates=st.booleans(),
    strict=st.booleans(),
    integrity=st.sampled_from(["report", "block"]),
    timeout=DURATION,
    stall_timeout=DURATION,
    max_corrections=st.integers(0, 1000),
    stall_action=st.sampled_from(["retry", "blocker", "fail"]),
    autonomy=st.sampled_from(["workspace", "full"]),
    network=st.sampled_from(["on", "off"]),
    tech_stack=st.none() | WORD,
)
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text() | st.integers(), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=50, deadline=None)
@given(CONFIG)
def test_from_dict_reads_what_to_dict_wrote(config: EnvironmentConfig) -> None:
    assert EnvironmentConfig.from_dict(config.to_dict()) == config
    assert EnvironmentConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config


@settings(max_examples=50, deadline=None)
@given(
    st.dictionaries(st.sampled_from([*DEFAULTS, "default_engine", "junk"]) | st.text() | st.integers(), JUNK)
)
def test_any_values_are_either_valid_or_reported(data: dict[Any, Any]) -> None:
    config = EnvironmentConfig.from_dict(data)
    sentences = config.validate()
    assert all(sentence.endswith((".", "?")) for sentence in sentences)
    if not sentences:
        assert set(config.to_dict()) <= set(DEFAULTS)
        assert config.timeout_s is None or config.timeout_s > 0


YAML_ISH = st.lists(
    st.sampled_from(
        [
            *DEFAULTS,
            "default_engine",
            ":",
            ": ",
            "\n",
            "  ",
            "- ",
            "[",
            "]",
            "{",
            "}",
            "'",
            '"',
            "&a",
            "*a",
            "!!set",
            "!!int",
            "? ",
            "|",
            ">",
            "#",
            "---",
            "...",
            "<<",
            "on",
            "~",
            "1",
            "1.",
            "\t",
            "%",
            "@",
            "`",
            "é",
            "\x85",
        ]
    )
    | st.text(max_size=3),
    max_size=25,
).map("".join)


@settings(max_examples=150, deadline=None)
@given(YAML_ISH)
def test_yaml_ish_text_is_either_read_or_reported(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    root = tmp_path_factory.mktemp("ws")
    put(root, "").write_bytes(text.encode("utf-8", "replace"))
    try:
        config = load_environment_config(root)
    except UsageError:
        return
    assert config.validate() == []


# --- writing


def test_set_makes_a_file_that_git_does_not_see(tmp_path: Path) -> None:
    config = set_value(tmp_path, "engine", "codex")
    assert config == load_environment_config(tmp_path) == EnvironmentConfig(engine="codex")
    assert (tmp_path / ".codeframe/.gitignore").read_text() == "*\n"
    assert sorted(p.name for p in (tmp_path / ".codeframe").iterdir()) == [".gitignore", "config.yaml"]


def test_set_keeps_comments_and_order(tmp_path: Path) -> None:
    path = put(tmp_path, "# mine\nmodel: a  # why a\nengine: 'x'   # the engine\n\n# end\n")
    set_value(tmp_path, "engine", "codex")
    set_value(tmp_path, "strict", "yes")
    assert (
        path.read_text() == "# mine\nmodel: a  # why a\nengine: codex   # the engine\n\n# end\nstrict: true\n"
    )


@pytest.mark.parametrize(
    "text",
    [
        "engine:\n  x\nmodel: m\n",
        "engine: |\n  x\nmodel: m\n",
        "{engine: x, model: m}\n",
        '"engine": x\nmodel: m\n',
        "engine: 'a#b'\nmodel: m",
        "model: m\n...\n",
        "---\nmodel: m",
        "engine: a\ndefault_engine: a\nmodel: m\n",
    ],
)
def test_set_works_whatever_the_file_looks_like(tmp_path: Path, text: str) -> None:
    put(tmp_path, text)
    set_value(tmp_path, "engine", "codex")
    assert load_environment_config(tmp_path) == EnvironmentConfig(engine="codex", model="m")


def test_set_uses_the_name_the_file_uses(tmp_path: Path) -> None:
    path = put(tmp_path, "default_engine: a\n")
    set_value(tmp_path, "engine", "b")
    assert path.read_text() == "default_engine: b\n"
    set_value(tmp_path, "default_engine", "c")
    assert path.read_text() == "default_engine: c\n"


def test_set_writes_json_where_json_is(tmp_path: Path) -> None:
    path = put(tmp_path, '{"model": "m"}', "config.json")
    set_value(tmp_path, "max_corrections", "5")
    assert json.loads(path.read_text()) == {"model": "m", "max_corrections": 5}


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("timeout", "90", "90"),
        ("timeout", "1h30m", "1h30m"),
        ("network", "off", "off"),
        ("require_gates", "on", True),
        ("strict", "0", False),
        ("max_corrections", "0", 0),
        ("model", "5", "5"),
        ("model", "true", "true"),
        ("model", "a: b # c", "a: b # c"),
        ("model", "'quoted'", "'quoted'"),
        ("tech_stack", "- x\n- y", "- x\n- y"),
        ("gates", "[{name: unit, command: 'pytest -q'}]", [{"name": "unit", "command": "pytest -q"}]),
        ("gates", "null", None),
    ],
)
def test_set_means_what_was_typed(tmp_path: Path, key: str, text: str, value: Any) -> None:
    put(tmp_path, "# keep\n")
    set_value(tmp_path, key, text)
    assert getattr(load_environment_config(tmp_path), key) == value


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(["engine", "model", "tech_stack"]), st.text(max_size=20), st.text(max_size=20))
def test_set_twice_reads_back_or_changes_nothing(scratch: Path, key: str, one: str, two: str) -> None:
    put(scratch, "# keep\n")
    expected = None
    for text in (one, two):
        try:
            set_value(scratch, key, text)
            expected = text.strip()
        except CodeFrameError:
            pass
        assert getattr(load_environment_config(scratch), key) == expected


@pytest.mark.parametrize(
    ("key", "text", "said"),
    [
        ("engin", "x", "Did you mean `engine`?"),
        ("unknown", "x", "not a key"),
        ("timeout", "soon", "duration"),
        ("strict", "maybe", "true or false"),
        ("max_corrections", "many", "whole number"),
        ("engine", " ", "has to be text"),
        ("gates", "pytest", "has to be a list"),
        ("gates", "[{", "not YAML"),
        ("stall_action", "", "retry or blocker or fail"),
    ],
)
def test_bad_input_changes_nothing(tmp_path: Path, key: str, text: str, said: str) -> None:
    path = put(tmp_path, "engine: a # mine\n")
    with pytest.raises(UsageError) as caught:
        set_value(tmp_path, key, text)
    assert said in caught.value.problem
    assert path.read_text() == "engine: a # mine\n"
    assert [p.name for p in path.parent.iterdir()] == ["config.yaml"]


@pytest.mark.parametrize("key", KEYS)
def test_every_key_has_an_example_that_can_be_set_and_names_itself_when_refused(
    tmp_path: Path, key: str
) -> None:
    """`cf config set budget 5` was an internal error, as were all keys that were added last."""
    refused = []
    for text in ("", "-1", "[", "[1, 1]", "{a: 1}"):
        try:
            set_value(tmp_path, key, text)
        except UsageError as error:
            refused.append(error)
    assert refused or key in ("engines", "gates")
    for error in refused:
        assert f"`{key}`" in error.problem
        assert error.hint == f"Type: cf config set {key} {EXAMPLES[key]}"
        assert not ("a list like" in error.problem and "not a list" in error.problem)
    (typed,) = shlex.split(EXAMPLES[key].partition(" (")[0])
    set_value(tmp_path, key, typed)
    load_environment_config(tmp_path)


def test_set_can_mend_the_value_that_was_wrong(tmp_path: Path) -> None:
    put(tmp_path, "engine: 5\n")
    assert set_value(tmp_path, "engine", "codex").engine == "codex"


def test_set_follows_a_link(tmp_path: Path) -> None:
    real = tmp_path / "shared.yaml"
    real.write_text("engine: a\n")
    (tmp_path / ".codeframe").mkdir()
    (tmp_path / ".codeframe/config.yaml").symlink_to(real)
    set_value(tmp_path, "engine", "b")
    assert real.read_text() == "engine: b\n"
    assert (tmp_path / ".codeframe/config.yaml").is_symlink()


@pytest.mark.parametrize(("name", "target"), [("config.yaml", "fifo"), (".gitignore", "nowhere")])
def test_set_writes_through_no_link_to_a_fifo_or_to_nowhere(tmp_path: Path, name: str, target: str) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / ".codeframe").mkdir()
    (tmp_path / ".codeframe" / name).symlink_to(tmp_path / target)
    with pytest.raises(CodeFrameError):
        set_value(tmp_path, "engine", "b")
    assert sorted(os.listdir(tmp_path)) == [".codeframe", "fifo"]
    assert os.listdir(tmp_path / ".codeframe") == [name]
    assert (tmp_path / "fifo").is_fifo()


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / ".codeframe").write_text("a file\n")
    with pytest.raises(CodeFrameError, match="cannot be written"):
        set_value(tmp_path, "engine", "codex")


# --- front matter


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("---\nengine: codex\nnetwork: off\n---\n# Title\n", {"engine": "codex", "network": "off"}),
        ("\ufeff---\r\nengine: codex\r\n---\r\ntext", {"engine": "codex"}),
        ("# Title\n---\nengine: codex\n---\n", {}),
        ("---\nengine: codex\n", {}),
        ("---\n- a\n- list\n---\n", {}),
        ("---\nengine: [\n---\n", {}),
        ("---\n---\n", {}),
        ("", {}),
    ],
)
def test_front_matter_is_what_stands_between_the_leading_lines(
    tmp_path: Path, text: str, data: dict[str, Any]
) -> None:
    path = tmp_path / "CODEFRAME.md"
    path.write_bytes(text.encode())
    assert front_matter(path) == data


def test_front_matter_of_nothing_is_nothing(tmp_path: Path) -> None:
    assert front_matter(tmp_path / "AGENTS.md") == {}
    assert front_matter(tmp_path) == {}
    (tmp_path / "AGENTS.md").write_bytes(b"---\nengine: \xff\n---\n")
    assert front_matter(tmp_path / "AGENTS.md") == {"engine": "\ufffd"}


def test_keys_that_are_set_at_once_are_all_set(tmp_path: Path) -> None:
    keys = {"timeout": "10m", "max_corrections": "5", "stall_timeout": "9m", "model": "m"}
    threads = [Thread(target=set_value, args=(tmp_path, key, value)) for key, value in keys.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    text = (tmp_path / ".codeframe" / "config.yaml").read_text()
    assert [key for key in keys if f"{key}:" not in text] == []


@pytest.mark.parametrize("key", KEYS)
def test_every_key_can_be_set_and_a_bad_value_is_refused_in_words(tmp_path: Path, key: str) -> None:
    good = {
        "engine": "codex", "model": "m", "engines": "{mine: {command: [my-agent]}}", "gates": "[]",
        "require_gates": "true", "strict": "no", "integrity": "block", "timeout": "1h", "stall_timeout": "10m",
        "max_corrections": "2", "stall_action": "retry", "autonomy": "full", "network": "off",
        "fallback": "codex,built-in", "wait_for_quota": "5h", "budget": "{run: {tokens: 9}}",
        "tech_stack": "Rust", "engine_args": "{codex: [-v]}",
    }  # fmt: skip
    config = set_value(tmp_path, key, good[key])
    assert getattr(config, key) is not None
    if key not in ("model", "tech_stack", "engine", "fallback"):  # of which each word may be a name
        with pytest.raises(UsageError, match=key):
            set_value(tmp_path, key, "[[")
    assert getattr(load_environment_config(tmp_path), key) == getattr(config, key)
