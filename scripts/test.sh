#!/bin/sh
# Every check of the project, one after another; then one line with the sums. A step that is not a test
# program (formatting, lints) counts as one check.
set -u
cd "$(dirname "$0")/.."
log=$(mktemp)
trap 'rm -f "$log"' EXIT
passed=0 failed=0 skipped=0

check() { # check NAME COMMAND...: one check that passes if the command does
    name=$1; shift
    echo "== $name"
    if "$@"; then passed=$((passed + 1)); else echo "FAILED: $name"; failed=$((failed + 1)); fi
}

suite() { # suite NAME COMMAND...: a cargo test run, whose result lines are added up
    name=$1; shift
    echo "== $name"
    { "$@" 2>&1; echo "exit status $?"; } | tee "$log"
    set -- $(sed -n 's/^test result: .* \([0-9]*\) passed; \([0-9]*\) failed; \([0-9]*\) ignored;.*/\1 \2 \3/p' "$log" |
        awk '{ p += $1; f += $2; i += $3 } END { print p + 0, f + 0, i + 0 }')
    passed=$((passed + $1)) failed=$((failed + $2)) skipped=$((skipped + $3))
    if ! grep -q '^exit status 0$' "$log" && [ "$2" = 0 ]; then
        echo "FAILED: $name (it ended before its tests did)"
        failed=$((failed + 1))
    fi
}

skip() { # skip NAME REASON
    echo "== $1: skipped: $2"
    skipped=$((skipped + 1))
}

check "the library builds" cargo build --release -p preload
check "formatting" cargo fmt --all --check
check "lints" cargo clippy --workspace --all-targets -- -D warnings
suite "unit, model and golden tests" cargo test --release -p heap -p preload -p bench
suite "every interleaving (loom)" env RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=target/loom \
    cargo test --release -p heap --test loom
suite "stress with delays at every atomic step" env RUSTFLAGS="--cfg delays" CARGO_TARGET_DIR=target/delays \
    cargo test --release -p heap --test stress
if cargo +nightly miri --version >/dev/null 2>&1; then
    suite "miri" cargo +nightly miri test -p heap --test leaves
else
    skip "miri" "rustup's nightly component miri is not installed"
fi
suite "the library as a black box, in C, C++ and real programs" cargo test --release -p checks

echo
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
