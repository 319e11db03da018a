# Everything a person or CI does here. `make try` and `make test` set up what they need.
#   make            build target/release/libevenkeel.so
#   make try        measure it against the heaps on this machine, in under 3 minutes
#   make test       every check; ends with "N passed, N failed, N skipped"
#   make bench      the whole set against every peer; figures go to heap/bench/results/
#   make soak       the long forms: 3,000 forks, long stress, in both modes
#   make fuzz       cargo-fuzz on the heap, TIME seconds for each target (60)
#   make install    copy the library and its header under PREFIX (/usr/local)

CARGO ?= cargo
PREFIX ?= /usr/local
TIME ?= 60
LIB := target/release/libevenkeel.so

.PHONY: all setup try test bench peers soak fuzz miri install uninstall clean

all:
	$(CARGO) build --release -p preload

setup:
	@sh scripts/setup.sh build

try:
	@sh scripts/setup.sh try
	$(CARGO) build --release -p preload -p bench
	target/release/bench --short

test:
	@sh scripts/setup.sh test
	@sh scripts/test.sh

peers:
	@sh scripts/setup.sh bench
	$(CARGO) run --release -p bench -- peers

bench: peers
	$(CARGO) build --release -p preload
	target/release/bench --draw

soak: all
	SOAK=1 RUSTFLAGS="--cfg delays" CARGO_TARGET_DIR=target/delays $(CARGO) test --release -p heap --test stress
	SOAK=1 $(CARGO) test --release -p checks

fuzz:
	cd heap && $(CARGO) +nightly fuzz run ops -- -max_total_time=$(TIME)
	cd heap && $(CARGO) +nightly fuzz run json -- -max_total_time=$(TIME)

miri:
	$(CARGO) +nightly miri test -p heap --test leaves

install: all
	install -D -m 755 $(LIB) $(DESTDIR)$(PREFIX)/lib/libevenkeel.so
	install -D -m 644 preload/evenkeel.h $(DESTDIR)$(PREFIX)/include/evenkeel.h

uninstall:
	rm -f $(DESTDIR)$(PREFIX)/lib/libevenkeel.so $(DESTDIR)$(PREFIX)/include/evenkeel.h

clean:
	$(CARGO) clean
