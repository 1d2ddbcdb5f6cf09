"""Which commands are refused: accidents, not tricks (rule 9.3)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codeframe.core.tools.guard import refusal

HOME = "/home/someone"
WORK = "/home/someone/src/project"

REFUSED = r"""
rm -rf /
rm -rf /*
rm -fr ~
rm -r ~/
rm -rf "$HOME"
rm -rf ${HOME}/*
rm -rf .
rm -rf ./*
rm -rf *
rm -rf ..
rm -rf ../project
rm -rf /home/someone/src
rm -rf $PWD
rm --recursive --force .
rm -rf build . dist
rm -rf .git
rm -rf ./.git/
rm -f .git/index.lock
rm -rf sub/.git
mv .git /tmp/x
mv ../project /tmp
find . -delete
find / -type f -delete
find . -type f -exec rm {} +
shred -u /dev/sda
chmod -R 777 /
chown -R me ~
sudo apt install x
doas ls
su -c ls
shutdown -h now
systemctl reboot
mkfs.ext4 /dev/sdb1
mkfs /dev/sdb1
dd if=/dev/zero of=/dev/sda bs=1M
echo x > /dev/sda
cat image >/dev/nvme0n1
:(){ :|:& };:
bomb() { bomb | bomb & }; bomb
pkill -f python
killall node
kill -9 -1
git push
git push --force origin main
git -C . push
git -c user.name=x push origin HEAD
git reset --hard
git reset --hard HEAD~1
git clean -fdx
git clean -d --force
git checkout .
git checkout -- .
git checkout HEAD -- .
git checkout -f main
git restore .
git restore --staged --worktree .
git restore :/
git switch -f main
git switch --discard-changes main
git stash
git stash push -u
git stash drop
git stash clear
git branch -D main
git update-ref -d refs/heads/main
git filter-branch --all
git reflog expire --all
git gc --prune=now
git worktree remove --force x
true && rm -rf .
false || git push
make; git push
make & git push
(cd sub && git push)
make test | tee log; git reset --hard
if true; then rm -rf .; fi
for f in a b; do git push; done
! git push
X=1 git push
env -u A X=1 git push
nohup git push &
timeout -k 5 10 git push
xargs -n 1 rm -rf .
bash -c 'git push'
sh -ec "cd x; rm -rf /"
bash -lc "bash -c 'git push'"
eval git push
echo $(git push)
echo "now: $(git reset --hard)"
echo `git push`
/usr/bin/git push
\git push
bash <<EOF\ngit push\nEOF
echo 'open quote; git push
ls\nrm -rf .
git \\npush
env -i git reset --hard
git reset --har
git reset --merge
git checkout --forc main
git checkout -B main
git switch -C main
git branch -f main HEAD~3
git rm -rf .
git rm -rf -q -- .
git restore :/.
git restore '**'
git checkout ':(top)'
cd .. && rm -rf project
(cd sub && ls); rm -rf .
ls | xargs rm -rf
find . | xargs rm -rf
git ls-files | xargs rm
find . -name '*' -delete
> .git/HEAD
echo x | tee .git/config
cp /dev/null .git/index
truncate -s 0 .git/index
""".strip().splitlines()

ALLOWED = r"""
ls -la
rm -rf build
rm -rf build/* dist/
rm -rf ./node_modules
rm -f a.txt .gitignore
rm -rf /tmp/scratch
rm *.pyc
find . -name '*.pyc' -delete
find . -name __pycache__ -type d -exec rm -rf {} +
find build -delete
mv a.py b.py
mv src/* lib/
chmod +x run.sh
chmod -R u+w .
echo "rm -rf /"
echo 'git push is refused'
grep -rn "git push" docs
git commit -m "do not git push"
git log --oneline -5
git status
git diff
git reset HEAD a.py
git checkout -b fix
git checkout main
git checkout HEAD -- a.py
git restore a.py
git restore --staged .
git clean -ndx
git stash list
git branch -d merged
git worktree list
kill %1
kill -TERM 1234
kill $!
dd if=/dev/zero of=disk.img bs=1M count=1
echo x > /dev/null 2>&1
head -c 10 < /dev/urandom
cat a > b.txt 2>/dev/null
python - <<'EOF'\nprint("git push")\nEOF
cat > deploy.sh <<'EOF'\ngit push\nrm -rf /\nEOF
cat <<< "git push"
make test # then git push
pytest -k 'not push'
which sudo
command -v git
npm run reset --hard
cd build && rm -rf lib
cd /tmp && rm -rf scratch
find . -name __pycache__ | xargs rm -rf
ls | grep pyc | xargs rm
git ls-files -o | xargs rm
echo build >> .git/info/exclude
cp hook .git/hooks/pre-commit
cp .git/config /tmp/kept
cat .git/HEAD > head.txt
env -i make
stdbuf -o L make
git rm -r old
git rm -r --cached .
git reset -q
git restore :/a.py
git stash apply
docker compose up -d
""".strip().splitlines()


@pytest.mark.parametrize("command", REFUSED)
def test_refused(command: str) -> None:
    assert refusal(command.replace("\\n", "\n"), WORK, HOME)


@pytest.mark.parametrize("command", ALLOWED)
def test_allowed(command: str) -> None:
    assert refusal(command.replace("\\n", "\n"), WORK, HOME) is None


def test_the_reason_says_what_to_do_instead() -> None:
    assert "edit the files back" in str(refusal("git reset --hard", WORK, HOME))
    assert refusal("rm -rf *", WORK, HOME) == "rm * would remove the workspace itself."
    assert refusal("rm -rf ../..", WORK, HOME) == "rm ../.. would remove the home folder."
    assert refusal("rm -rf ..", WORK, HOME) == "rm .. would remove the folder the workspace lies in."


def test_a_workspace_behind_a_link_is_still_known(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert refusal(f"rm -rf {tmp_path / 'real'}", str(tmp_path / "link"), os.devnull)


PIECES = st.sampled_from(
    ["rm", "-rf", "/", "git", "push", "<<EOF", "EOF", "\n", "'", '"', "$(", ")", "`", ";", "|", "&&", "{", "}",
     "\\", "#", ">", "<", "bash", "-c", "env", "x=1", "$", "é", "\0"]
)  # fmt: skip


@settings(max_examples=80)
@given(st.lists(PIECES, max_size=12).map(" ".join) | st.text(max_size=60))
def test_no_command_line_makes_it_stumble(command: str) -> None:
    assert isinstance(refusal(command, WORK, HOME), str | None)


def test_a_long_command_line_is_judged_at_once() -> None:
    long = "a" * 20_000
    for command in (
        f"echo {long}",
        f"{long}() {{",
        "<<A " * 4_000,
        "$(" * 4_000,
        '"' + "`" * 8_001,
        "(" * 20_000,
    ):
        refusal(command, WORK, HOME)  # a pattern that backtracks would not come back
    assert refusal(f"echo {long}; git push", WORK, HOME)
