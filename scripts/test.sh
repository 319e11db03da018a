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
    # A test that lacks what it needs says so in a line, and is skipped, whatever its harness makes of it.
    s=$(grep -c '^skipped: ' "$log")
    passed=$((passed + $1 - s)) failed=$((failed + $2)) skipped=$((skipped + $3 + s))
    if ! grep -q '^exit status 0$' "$log" && [ "$2" = 0 ]; then
        echo "FAILED: $name (it ended before its tests did)"
        failed=$((failed + 1))
    fi
}

skip() { # skip NAME REASON
    echo "== $1: skipped: $2"
    skipped=$((skipped + 1))
}

check "the heap builds" cargo build --release -p preload
check "the lab builds" cargo build -p cli -p evenkeel-embedded -p evenkeel-driver -p control
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

suite "the lab: analysis, report, targets" cargo test -p lab -- --show-output
suite "TPC-C and the driver" cargo test -p tpcc -p harness -p evenkeel-driver -- --show-output
suite "the embedded load" cargo test -p evenkeel-embedded -p control -- --show-output
suite "the command as a black box" cargo test -p cli -- --show-output

echo
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
