# A repository with a history of its own: commits, branches, a merge, gc with threads, fsck. Dates and names are
# fixed, so the ids are the same everywhere. Runs in an empty directory.
set -eu
export LC_ALL=C HOME="$PWD" GIT_CONFIG_NOSYSTEM=1
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.org GIT_COMMITTER_NAME=c GIT_COMMITTER_EMAIL=c@example.org
export GIT_AUTHOR_DATE='2020-01-01T00:00:00Z' GIT_COMMITTER_DATE='2020-01-01T00:00:00Z'
git init -q -b main repository
cd repository
git config gc.auto 0
git config pack.threads 4
for i in $(seq 1 40); do
    seq "$i" 3000 | awk -v i="$i" '{ print $1 * i }' > "file$((i % 7))"
    seq 1 "$i" > "small$i"
    git add .
    git commit -q -m "commit $i"
done
git checkout -q -b side HEAD~10
echo side > side
git add side
git commit -q -m side
git checkout -q main
git merge -q -m merge side
git rev-parse HEAD
git gc -q --aggressive --prune=now
git fsck --full --strict 2>&1 | grep -v -i 'checking\|dangling' || true
git log --stat --format=%H | md5sum
git blame -s file3 | md5sum
git grep -c 99 HEAD | tail -2
git clone -q . ../clone
git -C ../clone rev-parse HEAD
git diff HEAD~20 | md5sum
