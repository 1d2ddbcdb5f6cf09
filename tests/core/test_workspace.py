"""Rules 1.3, 1.4 and 8.3: where a workspace's state lives, and that it is found from everywhere."""

from __future__ import annotations

import json
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from codeframe.core.errors import CodeFrameError, UsageError
from codeframe.core.lease import Lease
from codeframe.core.workspace import find_workspace, init_workspace, neighbours
from tests.kit.repos import git, git_home, make_repo

__all__ = ["git_home"]

pytestmark = pytest.mark.usefixtures("git_home")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return make_repo(tmp_path / "project", {"README.md": "hello\n", "packages/api/main.py": "pass\n"})


def test_init_registers_the_folder_and_shows_git_nothing(project: Path) -> None:
    workspace, created = init_workspace(project)
    assert created
    assert workspace.root == project.resolve()
    assert workspace.state_dir == project.resolve() / ".git/codeframe" / workspace.id
    assert json.loads((workspace.state_dir / "workspace.json").read_text()) == {
        "id": workspace.id,
        "path": ".",
    }
    assert git(project, "status", "--porcelain", "--untracked-files=all") == ""
    assert [p.name for p in workspace.config_dir.iterdir()] == [".gitignore"]
    for private in (workspace.state_dir, workspace.locks_dir, workspace.state_dir.parent):
        assert stat.S_IMODE(private.stat().st_mode) == 0o700


def test_init_again_finds_the_same(project: Path) -> None:
    workspace, _ = init_workspace(project)
    shutil.rmtree(workspace.config_dir)
    assert init_workspace(project) == (workspace, False)
    assert workspace.config_dir.is_dir()


def test_init_keeps_what_is_configured(project: Path) -> None:
    (project / ".codeframe").mkdir()
    (project / ".codeframe/.gitignore").write_text("local\n")
    (project / ".codeframe/config.yaml").write_text("engine: codex\n")
    workspace, _ = init_workspace(project)
    assert (workspace.config_dir / ".gitignore").read_text() == "local\n"
    assert (workspace.config_dir / "config.yaml").read_text() == "engine: codex\n"


def test_many_inits_at_once_make_one_workspace(project: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from codeframe.core.workspace import init_workspace\n"
        "print('up', flush=True); sys.stdin.readline()\n"
        "workspace, created = init_workspace(Path(sys.argv[1])); workspace.store.tasks.add('x')\n"
        "print(workspace.id, created)"
    )
    argv = [sys.executable, "-c", code, str(project)]
    running = [
        subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(3)
    ]
    for process in running:
        assert process.stdout is not None
        process.stdout.readline()
    for process in running:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    said = [process.communicate()[0].split() for process in running]
    assert len({id_ for id_, _ in said}) == 1
    assert sorted(created for _, created in said) == ["False", "False", "True"]
    assert find_workspace(project).store.tasks.count() == 3


# --- finding


def test_it_is_found_from_any_subdirectory(project: Path) -> None:
    workspace, _ = init_workspace(project)
    assert find_workspace(project) == find_workspace(project / "packages/api") == workspace


def test_it_is_found_through_a_link(project: Path, tmp_path: Path) -> None:
    workspace, _ = init_workspace(project)
    (tmp_path / "link").symlink_to(project / "packages")
    assert find_workspace(tmp_path / "link" / "api") == workspace


def test_a_subdirectory_can_be_a_workspace_and_the_deepest_wins(project: Path) -> None:
    inner, created = init_workspace(project / "packages/api")
    assert created
    with pytest.raises(UsageError, match="No CodeFrame workspace here"):
        find_workspace(project)
    outer, created = init_workspace(project)
    assert created
    assert outer.id != inner.id
    assert outer.locks_dir == inner.locks_dir
    assert find_workspace(project / "packages/api") == inner
    assert find_workspace(project / "packages") == outer
    assert json.loads((inner.state_dir / "workspace.json").read_text())["path"] == "packages/api"


def test_inside_of_a_workspace_another_one_is_made_only_when_asked_for(project: Path) -> None:
    outer, _ = init_workspace(project)
    with pytest.raises(UsageError, match="lies in the workspace") as refused:
        init_workspace(project / "packages/api")
    assert refused.value.hint.endswith("cf init --nested")
    assert find_workspace(project / "packages/api") == outer
    inner, created = init_workspace(project / "packages/api", nested=True)
    assert created
    assert find_workspace(project / "packages/api") == inner
    assert init_workspace(project / "packages/api") == (inner, False)


def test_neighbours_are_those_that_have_been_used(project: Path) -> None:
    outer, _ = init_workspace(project)
    inner, _ = init_workspace(project / "packages/api", nested=True)
    assert neighbours(outer) == []
    inner.store.tasks.add("x")
    assert neighbours(outer) == [inner]
    assert neighbours(inner) == []
    assert inner.command(outer) == f"cf -C {inner.root}"
    assert inner.command(inner) == "cf"


def test_a_name_that_only_begins_alike_is_another_folder(project: Path) -> None:
    init_workspace(project / "packages")
    (project / "packages-old").mkdir()
    with pytest.raises(UsageError, match="No CodeFrame workspace here"):
        find_workspace(project / "packages-old")


def test_linked_worktrees_share_the_state_and_have_keys_of_their_own(project: Path, tmp_path: Path) -> None:
    workspace, _ = init_workspace(project / "packages")
    task = workspace.store.tasks.add("x")
    git(project, "worktree", "add", "-q", str(tmp_path / "linked"))
    linked = find_workspace(tmp_path / "linked/packages/api")
    assert linked.id == workspace.id
    assert linked.root == (tmp_path / "linked/packages").resolve()
    assert linked.state_dir == workspace.state_dir
    assert linked.locks_dir == workspace.locks_dir
    assert linked.store.tasks.list() == [task]
    assert not linked.config_dir.exists()
    assert (workspace.tree_key, len(linked.tree_key)) == ("main", 12)
    assert init_workspace(tmp_path / "linked/packages") == (linked, False)


def test_git_clean_does_not_lose_it(project: Path) -> None:
    workspace, _ = init_workspace(project)
    workspace.store.tasks.add("x")
    git(project, "clean", "-fdx")
    assert not workspace.config_dir.exists()
    assert find_workspace(project).store.tasks.count() == 1


def test_a_moved_repository_keeps_everything(project: Path, tmp_path: Path) -> None:
    before, _ = init_workspace(project / "packages")
    before.store.tasks.add("x")
    before.store.close()
    project.rename(tmp_path / "moved")
    after = find_workspace(tmp_path / "moved/packages/api")
    assert (after.id, after.tree_key) == (before.id, before.tree_key)
    assert after.root == (tmp_path / "moved/packages").resolve()
    assert after.store.tasks.count() == 1


def test_paths_follow_from_the_id(project: Path) -> None:
    workspace, _ = init_workspace(project)
    assert workspace.run_dir("abc") == workspace.state_dir / "runs/abc"
    assert workspace.store is workspace.store
    assert workspace.store.path == workspace.state_dir / "state.db"
    assert workspace.tree_key == "main"


def test_without_a_commit_it_works_as_well(git_home: Path, tmp_path: Path) -> None:
    empty = make_repo(tmp_path / "empty")
    assert init_workspace(empty)[0] == find_workspace(empty)


# --- refusals


def test_outside_of_git_it_is_refused_unless_asked_for(tmp_path: Path) -> None:
    for act in (init_workspace, find_workspace):
        with pytest.raises(UsageError) as caught:
            act(tmp_path)
        assert caught.value.hint == "Type: cf init --git-init"
    assert list(tmp_path.iterdir()) == []
    workspace, created = init_workspace(tmp_path, git_init=True)
    assert created
    assert find_workspace(tmp_path) == workspace
    assert init_workspace(tmp_path, git_init=True) == (workspace, False)


def test_a_repository_without_a_workspace_names_init(project: Path) -> None:
    with pytest.raises(UsageError, match="No CodeFrame workspace here") as caught:
        find_workspace(project)
    assert caught.value.hint == "Type: cf init"
    assert not (project / ".git/codeframe").exists()


@pytest.mark.parametrize("git_init", [False, True])
def test_no_working_tree_no_workspace(project: Path, tmp_path: Path, git_init: bool) -> None:
    git(tmp_path, "init", "-q", "--bare", "bare.git")
    for place in (tmp_path / "bare.git", project / ".git", project / ".git/refs"):
        with pytest.raises(UsageError, match="no git working tree"):
            init_workspace(place, git_init=git_init)
        with pytest.raises(UsageError, match="no git working tree"):
            find_workspace(place)
    assert not (project / ".git/codeframe").exists()


@pytest.mark.parametrize("git_init", [False, True])
def test_a_folder_that_is_not_there(tmp_path: Path, git_init: bool) -> None:
    with pytest.raises(UsageError, match="is not a directory"):
        init_workspace(tmp_path / "gone", git_init=git_init)


def test_a_git_folder_that_cannot_be_written_is_one_sentence(project: Path) -> None:
    (project / ".git/codeframe").write_text("in the way\n")
    with pytest.raises(CodeFrameError, match="which cannot be written") as caught:
        init_workspace(project)
    assert caught.value.hint.startswith("Look at it: ls")
    assert not (project / ".codeframe").exists()


def test_a_damaged_registration_is_named_and_not_replaced(project: Path) -> None:
    workspace, _ = init_workspace(project)
    (workspace.state_dir / "workspace.json").write_text("{")
    for act in (init_workspace, find_workspace):
        with pytest.raises(CodeFrameError, match=f"{workspace.id}/workspace.json is damaged"):
            act(project)


def test_a_registration_cut_short_by_a_kill_is_passed_over(project: Path) -> None:
    state = project / ".git/codeframe/0123456789ab"
    state.mkdir(parents=True)
    (state / "workspace.json.new").write_text("{")
    assert init_workspace(project)[1]


def test_an_init_waits_for_another(project: Path) -> None:
    workspace, _ = init_workspace(project)
    lease = Lease.acquire(workspace.locks_dir / "register.lock", {})
    assert lease is not None
    code = (
        "import sys; from pathlib import Path; from codeframe.core.workspace import init_workspace\n"
        "print('up', flush=True); print(init_workspace(Path(sys.argv[1]))[0].id)"
    )
    argv = [sys.executable, "-c", code, str(project)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        lease.release()
        assert process.stdout.readline().strip() == workspace.id
