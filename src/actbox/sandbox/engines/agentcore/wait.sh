# Waits for pieces of a request's output and prints them: wait.sh FOLDER NUMBER TIMES. A shell starts faster than Python.
#
# The script checks TIMES times, a hundredth of a second apart. It prints each piece from NUMBER on, and the end, as a
# line `#NAME`, the content, and a line end. No line of a content begins with `#`. The last line `#.` marks the end of
# the whole output.
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
