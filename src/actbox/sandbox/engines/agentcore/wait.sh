# Waits for pieces of a spool and prints them: wait.sh FOLDER NUMBER TIMES. A shell, since it starts sooner than Python.
#
# Looks TIMES times, a hundredth of a second apart. Each piece from that number on, and the end, is a line `#NAME`, its
# bytes, which have no line that begins so, and a line's end. `#.` says that all of it was printed.
folder=$1 number=$2 times=$3 most=2
next="$folder/$(printf %08d "$number")"
until [ -e "$next" ] || [ -e "$folder/end" ]; do
    [ "$times" -gt 0 ] || exit 0
    times=$((times - 1))
    sleep 0.01
done
[ -e "$folder/end" ] && over=yes
while [ -e "$next" ] && [ "$most" -gt 0 ]; do
    printf '#%s\n' "${next##*/}"
    cat "$next"
    echo
    number=$((number + 1)) most=$((most - 1))
    next="$folder/$(printf %08d "$number")"
done
if [ -n "$over" ] && ! [ -e "$next" ]; then
    echo '#end'
    cat "$folder/end"
    echo
fi
echo '#.'
