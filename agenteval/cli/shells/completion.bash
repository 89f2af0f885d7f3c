# TAB for ae and its tools, in bash 3.2 and newer. Made by `ae completion bash`.
_ae_bin=@BIN@

_ae() {
    local tool=${1##*/} words=() word i joined= kind kept
    COMPREPLY=()
    for ((i = 1; i <= COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        [[ $i -eq $COMP_CWORD && -n $2 && $word == "$2"* ]] && word=$2 # without the text after the cursor
        if [[ -n $joined || ($i -gt 1 && $word == [=:]*) ]]; then      # bash splits --style=csv into three
            words[${#words[@]} - 1]+=$word
        else
            words+=("$word")
        fi
        joined=
        [[ $i -gt 1 && $word == [=:]* ]] && joined=1
    done
    if [[ $tool == ae && ${#words[@]} -gt 1 && " help init completion " != *" ${words[0]} "* ]]; then
        _ae_as "ae-${words[0]}" "$2" "$3"
        return
    fi
    {
        IFS= read -r kind
        IFS= read -r kept
        while IFS=$'\t' read -r word _; do
            [[ -n $word ]] && COMPREPLY+=("$word")
        done
    } <<<"$(_AE_COMPLETE=1 "$_ae_bin/$tool" "${words[@]}" 2>/dev/null </dev/null)"
    if [[ -n $kept && $COMP_WORDBREAKS != *"${kept: -1}"* ]]; then # else bash keeps it already
        COMPREPLY=("${COMPREPLY[@]/#/$kept}")
    fi
    _ae_more "$kind" "$2"
}

# What the shell knows better: the names of files, directories and commands. Where nothing is found, bash completes
# file names by itself; compopt, which can forbid it, came with bash 4.
_ae_more() {
    local word
    case $1 in
        plain) compopt +o default +o bashdefault 2>/dev/null ;;
        dir) compopt -o dirnames +o default 2>/dev/null ;;
        file)
            [[ ${#COMPREPLY[@]} -gt 0 ]] && compopt -o filenames 2>/dev/null || return
            while IFS= read -r word; do
                [[ -n $word ]] && COMPREPLY+=("$word")
            done <<<"$(compgen -f -- "$2")"
            ;;
        command)
            while IFS= read -r word; do
                [[ -n $word ]] && COMPREPLY+=("$word")
            done <<<"$(compgen -c -- "$2")"
            ;;
    esac
}

# `ae run …` is completed as `ae-run …` is, by whatever is registered for that; a plug-in can have its own.
_ae_as() {
    local function=$(complete -p "$1" 2>/dev/null)
    [[ $function == *" -F "* ]] || return
    function=${function##* -F }
    local COMP_WORDS=("$1" "${COMP_WORDS[@]:2}") COMP_CWORD=$((COMP_CWORD - 1))
    "${function%% *}" "$@"
}

complete -o bashdefault -o default -F _ae @TOOLS@
