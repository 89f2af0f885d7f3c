# TAB for ae and its tools, in zsh. Made by `ae completion zsh`.
_ae_bin=@BIN@

_ae() {
    local tool=${words[1]:t} kind kept line
    local -a answer described
    if [[ $tool == ae && $CURRENT -gt 2 && $words[2] != (help|init|completion) ]]; then
        words=("ae-$words[2]" "${(@)words[3,-1]}") # `ae run …` is completed as `ae-run …` is
        (( CURRENT-- ))
        _normal
        return
    fi
    answer=("${(@f)$(_AE_COMPLETE=1 $_ae_bin/$tool "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null </dev/null)}")
    kind=$answer[1] kept=$answer[2]
    [[ -n $kept ]] && compset -p ${#kept}
    for line in "${(@)answer[3,-1]}"; do
        described+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
    done
    (( $#described )) && _describe -t values value described
    case $kind in
        file | '') _files ;;
        dir) _files -/ ;;
        command) _alternative 'commands:command:_command_names -e' 'files:file:_files' ;;
    esac
}

(( $+functions[compdef] )) || { autoload -Uz compinit && compinit }
compdef _ae @TOOLS@
