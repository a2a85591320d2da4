"""The scripts that teach a shell to ask `joey __complete`, one for each shell.

The answer is a line that says whether names of files fit (`none`, `files`, `folders`), then a line
for each candidate: what to insert, a tab, a few words about it. It is always the `joey` on the
`PATH` that is asked: what stands on the command line may be anything.
"""

from __future__ import annotations

BASH = r"""# joey for bash: source this, or let bash-completion find it (see joey completion --help)
_joey() {
    local line value about files="none" first=1 width=0
    local -a values=() abouts=()
    while IFS= read -r line; do
        if ((first)); then
            files=$line first=0
            continue
        fi
        value=${line%%$'\t'*} about=${line#*$'\t'}
        values+=("$value") abouts+=("$about")
        ((${#value} > width)) && width=${#value}
    done < <(command joey __complete bash "${COMP_LINE:0:COMP_POINT}" "$2" 2>/dev/null)
    COMPREPLY=()
    case $files in
    files) compopt -o default ;;
    folders) compopt -o dirnames ;;
    esac
    local i
    for i in "${!values[@]}"; do
        # Readline lists several candidates, and only then may they carry words about them.
        case $COMP_TYPE in
        33 | 63 | 64) if ((${#values[@]} > 1)) && [[ -n ${abouts[i]} ]]; then
            printf -v value '%-*s  (%s)' "$width" "${values[i]}" "${abouts[i]}"
            value=${value:0:${COLUMNS:-80}-1}
        else
            printf -v value '%q' "${values[i]}"
        fi ;;
        *) printf -v value '%q' "${values[i]}" ;;
        esac
        COMPREPLY+=("$value")
    done
    if ((${#COMPREPLY[@]} == 1)) && [[ ${COMPREPLY[0]} == *= ]]; then
        compopt -o nospace 2>/dev/null
    fi
}
complete -F _joey joey
"""

ZSH = r"""#compdef joey
# joey for zsh: put this into a folder of $fpath as _joey, or source it after compinit
_joey() {
    local line files="none"
    local -a values shown
    local -i first=1 width=0
    for line in "${(@f)$(command joey __complete zsh "${(@Q)words[2,CURRENT]}" 2>/dev/null)}"; do
        if ((first)); then
            files=$line first=0
            continue
        fi
        values+=("${line%%$'\t'*}")
        ((${#values[-1]} > width)) && width=${#values[-1]}
        shown+=("$line")
    done
    local -i i
    for ((i = 1; i <= ${#shown}; i++)); do
        line=${shown[i]#*$'\t'}
        shown[i]="${(r:width:)values[i]}${line:+  -- $line}"
        shown[i]=${shown[i][1,COLUMNS-1]}
    done
    case $files in
    files) _files ;;
    folders) _files -/ ;;
    esac
    ((${#values})) && compadd -l -d shown -a values
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _joey "$@"
else
    compdef _joey joey
fi
"""

FISH = r"""# joey for fish: put this into ~/.config/fish/completions/joey.fish
function __joey_complete
    set -l before (commandline -opc)
    set -l current (commandline -ct)
    set -l lines (command joey __complete fish $before[2..-1] -- "$current" 2>/dev/null)
    switch "$lines[1]"
        case files
            __fish_complete_path "$current"
        case folders
            __fish_complete_directories "$current"
    end
    for line in $lines[2..-1]
        printf '%s\n' $line
    end
end
complete -c joey -f -a '(__joey_complete)'
"""

SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}
