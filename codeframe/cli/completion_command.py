"""`cf completion`: the script with which a shell completes `cf`, and what that script asks for at each Tab."""

from __future__ import annotations

import typer

from codeframe.cli.grammar import Commands

app = Commands()

# Each passes the words up to the cursor, the one it stands in last, and gets a line for each candidate:
# `value`, or `value<Tab>what it is`. `:files` alone asks for the shell's own completion of file names.
SCRIPTS = {
    "bash": r"""
_cf() {
    local line value values=() shown=()
    while IFS= read -r line; do
        if [[ $line == :files ]]; then compopt -o default; return; fi
        value=${line%%$'\t'*}
        values+=("$value")
        if [[ $line == *$'\t'* ]]; then line="$value  (${line#*$'\t'})"; fi
        shown+=("$line")
    done < <("$1" completion bash -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
    # Where the shell only lists, what they are is said as well.
    if (( ${#values[@]} > 1 )) && [[ $COMP_TYPE == 63 || $COMP_TYPE == 33 ]]; then values=("${shown[@]}"); fi
    COMPREPLY=("${values[@]}")
}
complete -F _cf codeframe cf
""",
    "zsh": r"""
#compdef codeframe cf
_cf() {
    local line
    local -a found
    while IFS= read -r line; do
        if [[ $line == :files ]]; then _files; return; fi
        found+=("${${line%%$'\t'*}//:/\\:}${${(M)line:#*$'\t'*}:+:${line#*$'\t'}}")
    done < <("$words[1]" completion zsh -- "${(@)words[2,CURRENT]}" 2>/dev/null)
    _describe -V command found
}
compdef _cf codeframe cf
""",
    "fish": r"""
function __cf_complete
    set -l words (commandline -opc) (commandline -ct)
    for line in ($words[1] completion fish -- $words[2..-1] 2>/dev/null)
        if test "$line" = ":files"
            __fish_complete_path (commandline -ct)
        else
            echo $line
        end
    end
end
complete -f -k -a '(__cf_complete)' -c codeframe -c cf
""",
}


@app.command()
def completion(
    shell: str = typer.Argument(..., metavar="SHELL", help="bash, zsh or fish."),
    words: list[str] | None = typer.Argument(
        None,
        metavar="[-- WORDS]",
        help="Only what could stand in place of the last word.",
        show_default=False,
    ),
) -> None:
    """Print what makes your shell complete commands, ids and engines.

    In ~/.bashrc: source <(cf completion bash). In ~/.zshrc, after compinit: source <(cf completion zsh).
    For fish: cf completion fish > ~/.config/fish/conf.d/cf.fish.
    """
    if shell not in SCRIPTS:
        from codeframe.core.errors import UsageError

        raise UsageError(f"SHELL is bash, zsh or fish, not “{shell}”.", "Type: cf completion bash")
    if not words:
        print(SCRIPTS[shell].strip())
        return
    from codeframe.cli.completing import candidates

    try:
        found = candidates(words)
    except Exception:  # no workspace here, a damaged one: at a Tab nothing is said about it
        found = []
    for value, says in found:
        print(f"{value}\t{says}" if says else value)
