#!/bin/sh
# Brings what a make target needs: `setup.sh build|try|test|bench`. As root on Debian or Ubuntu it
# installs packages itself; as anybody else it says in one line what to install, and the target goes on
# with what is there.
set -eu
want=${1:-build}

if ! command -v cargo >/dev/null 2>&1; then
    if [ "$(id -u)" = 0 ] && apt-get install -y rustup >/dev/null 2>&1; then
        rustup default stable
    else
        echo "setup: Rust is missing (1.88 or newer): install rustup, then run this again" >&2
        exit 2
    fi
fi

packages="gcc g++ libc6-dev cmake make"
case $want in
    try | bench) packages="$packages libjemalloc2 libtcmalloc-minimal4 libmimalloc2.0" ;;
    test) packages="$packages $(grep -v '^#' tests/packages.txt | tr '\n' ' ')" ;;
esac

missing=
for p in $packages; do
    dpkg -s "$p" 2>/dev/null | grep -q '^Status: install ok installed' || missing="$missing $p"
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "setup: installing$missing" >&2
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq || true
    # One by one: a package that this release does not have must not keep the others out.
    # A server that Debian would start has no business here: nothing is started.
    printf '#!/bin/sh\nexit 101\n' > /tmp/evenkeel-policy.$$ && chmod +x /tmp/evenkeel-policy.$$
    [ -e /usr/sbin/policy-rc.d ] || { mv /tmp/evenkeel-policy.$$ /usr/sbin/policy-rc.d; policy=1; }
    for p in $missing; do
        apt-get install -y -qq --no-install-recommends "$p" >/dev/null 2>&1 || echo "setup: no package $p here; what needs it is skipped" >&2
    done
    [ -z "${policy:-}" ] || rm -f /usr/sbin/policy-rc.d
    rm -f /tmp/evenkeel-policy.$$
else
    echo "setup: not installed, and what needs them is skipped:$missing" >&2
    echo "setup: as root: apt-get install$missing" >&2
fi
