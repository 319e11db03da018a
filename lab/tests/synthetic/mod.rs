//! Records with known answers: curves from a law, with seeded noise.

#![allow(dead_code, reason = "no test program uses all of it")]

use lab::record::{Cell, Direction, Figures, Outcome, Record, SCHEMA};

/// SplitMix64 and Box-Muller: the same seeds give the same records everywhere.
pub struct Noise(u64);

impl Noise {
    pub fn seeded(seed: u64) -> Noise {
        let mut noise = Noise(seed.wrapping_mul(0xd134_2543_de82_ef95).wrapping_add(1));
        noise.uniform();
        noise
    }

    pub fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        ((z >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    pub fn normal(&mut self) -> f64 {
        (-2.0 * self.uniform().ln()).sqrt() * (std::f64::consts::TAU * self.uniform()).cos()
    }
}

pub fn usl(rate: f64, contention: f64, coherence: f64) -> impl Fn(u32) -> f64 {
    move |clients| {
        let n = f64::from(clients);
        rate * n / (1.0 + contention * (n - 1.0) + coherence * n * (n - 1.0))
    }
}

pub const DOUBLING: [u32; 11] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];

/// A sweep: what each trial's throughput is expected to be, and the noise that it is measured with.
pub struct Sweep<'a> {
    pub heaps: &'a [&'a str],
    pub clients: &'a [u32],
    pub rounds: u32,
    pub truth: &'a dyn Fn(&str, u32) -> f64,
    /// Standard deviation of the logarithm of one measurement.
    pub noise: &'a dyn Fn(&str, u32) -> f64,
    /// The same for what all trials of a round share: the host's speed then.
    pub drift: f64,
}

impl Sweep<'_> {
    pub fn records(&self, seed: u64) -> Vec<Record> {
        let mut random = Noise::seeded(seed);
        let mut records = Vec::new();
        for round in 1..=self.rounds {
            let drift = self.drift * random.normal();
            for heap in self.heaps {
                for clients in self.clients {
                    let off = drift + (self.noise)(heap, *clients) * random.normal();
                    let mut r = record(heap, *clients, round, (self.truth)(heap, *clients) * off.exp());
                    r.order = records.len() as u32;
                    records.push(r);
                }
            }
        }
        records
    }
}

pub fn record(heap: &str, clients: u32, round: u32, tps: f64) -> Record {
    Record {
        schema: SCHEMA,
        trial: format!("{heap}/{clients}/{round}"),
        cell: Cell { test: "mix".into(), heap: heap.into(), clients, ..Cell::default() },
        round,
        order: 0,
        direction: Direction::Up,
        started: String::new(),
        outcome: Outcome::Valid,
        figures: Figures { tps: Some(tps), seconds: Some(10.0), ..Figures::default() },
        proofs: Vec::new(),
        marks: Vec::new(),
        series: Vec::new(),
        raw: Vec::new(),
        profile: None,
    }
}
