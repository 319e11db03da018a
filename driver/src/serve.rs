//! The lab's form of the driver: what `harness::serve` answers with.

use crate::Failure;
use crate::args::{Common, Making, Running};
use crate::bench::{self, Bench};
use crate::event::{Figures, Told};
use crate::run::Wish;
use harness::event::{Checked, Renewed, Second, Settled};
use harness::inbox::Inbox;
use harness::serve::{self, Load, inside};
use std::time::{Duration, Instant};
use tpcc::check::Age;

struct Served<'a> {
    bench: Bench,
    common: &'a Common,
    making: &'a Making,
    /// Fresh are the tables until the first run.
    age: Age,
}

pub fn serve(
    common: &Common,
    running: &Running,
    making: &Making,
    prepare: bool,
    mut inbox: Inbox,
) -> Result<(), Failure> {
    let start = Instant::now();
    if prepare && !bench::prepare(common, making, &mut inbox)? {
        return Ok(());
    }
    let bench = Bench::open(common, running)?;
    let ready = bench.ready(start.elapsed().as_secs_f64());
    let age = if prepare { Age::Fresh } else { Age::Used };
    serve::serve(&mut Served { bench, common, making, age }, ready, inbox)
}

impl Load for Served<'_> {
    type Wish = Wish;
    type Second = Second;
    type Figures = Figures;

    fn refuse(wish: &Wish) -> Result<(), String> {
        inside("clients", wish.clients.into(), 1.0, 65_536.0)?;
        inside("seconds", wish.seconds, 0.01, 86_400.0)?;
        inside("warmup_s", wish.warmup_s, 0.0, 86_400.0)?;
        inside("rate", wish.rate.unwrap_or(1.0), 0.001, 1e7)
    }

    fn run(
        &mut self,
        wish: Wish,
        inbox: &mut Inbox,
        tell: &mut dyn FnMut(Second) -> Result<(), Failure>,
    ) -> Result<Option<Figures>, Failure> {
        self.age = Age::Used;
        self.bench.run(wish, inbox, &mut |told| match told {
            // Who serves is asked what to run: its asker waits for the first second.
            Told::Begun(_) => Ok(()),
            Told::Second(second) => tell(second),
        })
    }

    fn settle(&mut self, at_most: Duration, inbox: &mut Inbox) -> Result<Option<Settled>, Failure> {
        self.bench.settle(at_most, inbox)
    }

    fn renew(&mut self, inbox: &mut Inbox) -> Result<Option<Renewed>, Failure> {
        let start = Instant::now();
        let whole = self.bench.renew(self.common, self.making, inbox)?;
        self.age = Age::Fresh;
        Ok(whole.then(|| Renewed { prepare_s: start.elapsed().as_secs_f64() }))
    }

    fn check(&mut self, _: &mut Inbox) -> Result<Option<Checked>, Failure> {
        self.bench.check(self.age).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Wish, String> {
        let wish: Wish = serde_json::from_str(line).map_err(|e| e.to_string())?;
        Served::refuse(&wish).map(|()| wish)
    }

    #[test]
    fn wishes_are_read() {
        let wish = Wish { clients: 64, warmup_s: 0.3, seconds: 2.0, seed: 7, rate: None, most: None };
        assert_eq!(read(r#"{"clients":64,"warmup_s":0.3,"seconds":2,"seed":7}"#), Ok(wish));
        let open = Wish { rate: Some(100.0), ..wish };
        assert_eq!(read(r#"{"clients":64,"warmup_s":0.3,"seconds":2,"seed":7,"rate":100}"#), Ok(open));
    }

    #[test]
    fn what_cannot_be_run_is_refused() {
        for line in [
            r#"{"clients":1}"#,
            r#"{"clients":0,"seconds":1}"#,
            r#"{"clients":70000,"seconds":1}"#,
            r#"{"clients":1,"seconds":-1}"#,
            r#"{"clients":1,"seconds":1,"rate":0}"#,
            r#"{"clients":1,"seconds":1,"threads":2}"#,
        ] {
            assert!(read(line).is_err(), "{line}");
        }
    }
}
