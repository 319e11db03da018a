//! The outside-in checks: `libevenkeel.so` as programs see it. Each group is a file; each check has a name that can
//! be given on the command line, and says in one line why when it is skipped. See tests/README.md.

mod bad_free;
mod compare;
mod harness;
mod interface;
mod limits;
mod memory;
mod operators;
mod programs;
mod statistics;
mod threads;

fn main() -> std::process::ExitCode {
    let arguments = libtest_mimic::Arguments::from_args();
    let mut list = harness::List::default();
    compare::add(&mut list);
    operators::add(&mut list);
    bad_free::add(&mut list);
    interface::add(&mut list);
    statistics::add(&mut list);
    limits::add(&mut list);
    threads::add(&mut list);
    memory::add(&mut list);
    programs::add(&mut list);
    if !arguments.list {
        // Once, before anything else: without the library, one message instead of a failure for each check.
        match harness::library() {
            Ok(path) => println!("library: {}", path.display()),
            Err(harness::Stop::Skip(why) | harness::Stop::Fail(why)) => {
                eprintln!("{why}");
                return std::process::ExitCode::FAILURE;
            }
        }
    }
    let conclusion = libtest_mimic::run(&arguments, list.trials());
    if !arguments.list {
        println!("longest: {}", harness::longest(10));
        for process in harness::sweep() {
            println!("was left running, and ended now: {process}");
        }
    }
    conclusion.exit_code()
}
