# Everyday commands over a few megabytes, through pipes: bash, coreutils, find, grep, sed, awk, tar, gzip.
# Deterministic, so that the output under two heaps can be compared. Runs in an empty directory.
set -eu
export LC_ALL=C
ulimit -c 0
seq 1 60000 | awk '{ print ($1 * 7919) % 60013, $1 }' > numbers
sort -n numbers | md5sum
sort -R --random-source=numbers numbers | sort -k2n | tail -1
split -l 1000 numbers part.
cat part.* | md5sum
grep -c 77 numbers
sed -e 's/\([0-9]*\) \([0-9]*\)/\2 \1/' numbers | sort | uniq | wc -l
find /usr/include -name '*.h' -type f | sort | head -300 > headers
xargs wc -l < headers | tail -1
xargs cat < headers | tr -cs 'a-z_' '\n' | sort | uniq -c | sort -rn | head -20
tar cf all.tar --mtime=@0 --owner=0 --group=0 -T headers 2>/dev/null
gzip -n9 < all.tar > all.tar.gz
gunzip < all.tar.gz | cmp - all.tar && tar tf all.tar | wc -l
ls -l part.* | awk '{ s += $5 } END { print s }'
declare -A table
for i in $(seq 1 3000); do table[key$i]="value $i"; done
for i in $(seq 1 5 3000); do unset "table[key$i]"; done
echo "${#table[@]} ${table[key2999]}"
text=""
for i in $(seq 1 2000); do text="$text$i,"; done
echo "${#text}"
(for i in 1 2 3 4 5; do (echo "$i" | sed 's/^/child /') & done; wait) | sort
diff <(sort -r numbers) <(sort numbers) | wc -l
