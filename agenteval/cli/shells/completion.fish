# TAB for ae and its tools, in fish. Made by `ae completion fish`.
set -g __ae_bin @BIN@

function __ae_complete
    set -l before (commandline -opc)
    set -l typed (commandline -ct)
    set -l tool (string replace -r '.*/' '' -- $before[1])
    set -e before[1]
    if test "$tool" = ae; and set -q before[1]; and not contains -- $before[1] help init completion
        set -l line (string escape -- $before | string join ' ')
        complete -C "ae-$line $typed" # `ae run …` is completed as `ae-run …` is
        return
    end
    set -l word (string replace -r '^["\']' '' -- "$typed" | string unescape)
    set -l answer (env _AE_COMPLETE=1 $__ae_bin/$tool $before "$word" 2>/dev/null </dev/null)
    set -l kind $answer[1]
    set -l kept $answer[2]
    set -e answer[1..2]
    set -l rest (string sub -s (math (string length -- "$kept") + 1) -- "$typed")
    switch "$kind"
        case file ''
            set -a answer (complete -C "__ae_no_such_command $rest") # what fish does for any other command
        case dir
            set -a answer (__fish_complete_directories "$rest" '')
        case command
            set -a answer (complete -C "$rest")
    end
    set -q answer[1]; and printf '%s\n' "$kept"$answer
end

for tool in @TOOLS@
    complete -c $tool -f -a '(__ae_complete)'
end
