# Everything a person or CI does here. `make try` and `make test` set up what they need.
#   make            build the heap and the lab into target/release/
#   make try        run a database under every heap on this machine, in 4 minutes, and say which is best
#   make test       every check; ends with "N passed, N failed, N skipped"
#   make selftest   whether the lab can be trusted here: a bad heap must come out worse, glibc against itself must not
#   make bench      the heap's whole set against every peer; figures go to heap/bench/results/
#   make controls   whether why blames a bad heap, and only that: ten minutes of a real MariaDB
#   make bars       what the lab itself costs: its watcher, a report, an analysis
#   make soak       the heap's long forms: 3,000 forks, long stress, in both modes
#   make fuzz       cargo-fuzz on the heap, TIME seconds for each target (60)
#   make install    copy library, header, commands, man pages and completions under PREFIX (/usr/local)

CARGO ?= cargo
PREFIX ?= /usr/local
TIME ?= 60
LIB := target/release/libevenkeel.so
TO := $(DESTDIR)$(PREFIX)

.PHONY: all heap lab setup try selftest controls test bench bars peers soak fuzz miri install uninstall clean

all: heap lab

heap:
	$(CARGO) build --release -p preload

lab:
	$(CARGO) build --release -p cli -p evenkeel-embedded -p evenkeel-driver -p control

setup:
	@sh scripts/setup.sh build

try:
	@sh scripts/setup.sh try
	@$(MAKE) --no-print-directory all
	target/release/evenkeel sweep experiments/try.toml

selftest: all
	target/release/evenkeel selftest

test:
	@sh scripts/setup.sh test
	@sh scripts/test.sh

peers:
	@sh scripts/setup.sh bench
	$(CARGO) run --release -p bench -- peers

bench: peers
	$(CARGO) build --release -p preload
	target/release/bench --draw

bars: lab
	$(CARGO) test --release -p cli --test bars -- --ignored --nocapture --test-threads 1

controls: lab
	$(CARGO) test --release -p cli --test controls -- --ignored --nocapture --test-threads 1

soak: heap
	SOAK=1 RUSTFLAGS="--cfg delays" CARGO_TARGET_DIR=target/delays $(CARGO) test --release -p heap --test stress
	SOAK=1 $(CARGO) test --release -p checks

fuzz:
	cd heap && $(CARGO) +nightly fuzz run ops -- -max_total_time=$(TIME)
	cd heap && $(CARGO) +nightly fuzz run json -- -max_total_time=$(TIME)

miri:
	$(CARGO) +nightly miri test -p heap --test leaves

install: all
	install -D -m 755 $(LIB) $(TO)/lib/libevenkeel.so
	install -D -m 644 preload/evenkeel.h $(TO)/include/evenkeel.h
	install -D -m 755 -t $(TO)/bin target/release/evenkeel target/release/evenkeel-embedded target/release/evenkeel-driver
	install -d $(TO)/share/bash-completion/completions $(TO)/share/zsh/site-functions $(TO)/share/fish/vendor_completions.d
	target/release/evenkeel man --out $(TO)/share/man/man1
	target/release/evenkeel completions bash > $(TO)/share/bash-completion/completions/evenkeel
	target/release/evenkeel completions zsh > $(TO)/share/zsh/site-functions/_evenkeel
	target/release/evenkeel completions fish > $(TO)/share/fish/vendor_completions.d/evenkeel.fish

uninstall:
	rm -f $(TO)/lib/libevenkeel.so $(TO)/include/evenkeel.h $(TO)/bin/evenkeel $(TO)/bin/evenkeel-embedded $(TO)/bin/evenkeel-driver
	rm -f $(TO)/share/man/man1/evenkeel.1 $(TO)/share/man/man1/evenkeel-*.1
	rm -f $(TO)/share/bash-completion/completions/evenkeel $(TO)/share/zsh/site-functions/_evenkeel
	rm -f $(TO)/share/fish/vendor_completions.d/evenkeel.fish

clean:
	$(CARGO) clean
