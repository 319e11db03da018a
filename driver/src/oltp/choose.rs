//! Which row: sysbench's distributions with its formulas. What is asked for is an integer of a range; draws are independent.

use clap::ValueEnum;
use std::fmt;
use tpcc::Random;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Distribution {
    Uniform,
    Gaussian,
    Special,
    Pareto,
    Zipfian,
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Distribution::Uniform => "uniform",
            Distribution::Gaussian => "gaussian",
            Distribution::Special => "special",
            Distribution::Pareto => "pareto",
            Distribution::Zipfian => "zipfian",
        })
    }
}

/// Draws that are summed for one value of a bell, `--rand-spec-iter`.
const ITERATIONS: u32 = 12;
/// Percent of the range that special values lie in, `--rand-spec-pct`.
const SPECIAL_PART: f64 = 1.0;
/// Percent of all values that are special, `--rand-spec-res`.
const SPECIAL_SHARE: f64 = 75.0;
/// `--rand-pareto-h`: a share 1 - h of all values lies in the share h of the range.
const PARETO_H: f64 = 0.2;
/// `--rand-zipfian-exp`.
const EXPONENT: f64 = 0.8;

/// A distribution over 1 to `most`.
#[derive(Clone, Copy, Debug)]
pub struct Choice {
    distribution: Distribution,
    most: u32,
    zipf: Zipf,
}

impl Choice {
    pub fn new(distribution: Distribution, most: u32) -> Choice {
        Choice { distribution, most, zipf: Zipf::new(most) }
    }

    pub fn draw(&self, random: &mut Random) -> u32 {
        let count = f64::from(self.most);
        // The distance from the first to the last, as sysbench's special values take it.
        let span = count - 1.0;
        let bell = |random: &mut Random| (0..ITERATIONS).map(|_| random.unit()).sum::<f64>() / f64::from(ITERATIONS);
        let value = match self.distribution {
            Distribution::Uniform => random.unit() * count,
            Distribution::Gaussian => bell(random) * count,
            Distribution::Special => {
                let draw = random.unit();
                if draw < 1.0 - SPECIAL_SHARE / 100.0 {
                    bell(random) * span
                } else {
                    // The draw itself places the value in the middle part, so the first quarter of that part stays empty.
                    draw * (span * SPECIAL_PART / 100.0 + 1.0) + span / 2.0 - span * SPECIAL_PART / 200.0
                }
            }
            Distribution::Pareto => count * random.unit().powf(PARETO_H.ln() / (1.0 - PARETO_H).ln()),
            Distribution::Zipfian => return self.zipf.draw(random),
        };
        1 + (value as u32).min(self.most - 1)
    }
}

/// Zipf's law by rejection and inversion (Hörmann and Derflinger, 1996).
#[derive(Clone, Copy, Debug)]
struct Zipf {
    most: f64,
    /// Integral of the hat up to one half after the first value, less the first value's own part.
    low: f64,
    high: f64,
    /// A value so near to its integer is taken without looking further.
    near: f64,
}

impl Zipf {
    fn new(most: u32) -> Zipf {
        let near = 2.0 - inverse(integral(2.5) - weight(2.0));
        Zipf { most: f64::from(most), low: integral(1.5) - 1.0, high: integral(f64::from(most) + 0.5), near }
    }

    fn draw(&self, random: &mut Random) -> u32 {
        loop {
            let u = self.high + random.unit() * (self.low - self.high);
            let x = inverse(u);
            let k = (x + 0.5).floor().clamp(1.0, self.most);
            if k - x <= self.near || u >= integral(k + 0.5) - weight(k) {
                return k as u32;
            }
        }
    }
}

fn weight(x: f64) -> f64 {
    x.powf(-EXPONENT)
}

fn integral(x: f64) -> f64 {
    (x.powf(1.0 - EXPONENT) - 1.0) / (1.0 - EXPONENT)
}

fn inverse(y: f64) -> f64 {
    (1.0 + y * (1.0 - EXPONENT)).max(0.0).powf(1.0 / (1.0 - EXPONENT))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: u32 = 10_000;

    /// Shares of a hundred equal parts of the range.
    fn parts(distribution: Distribution) -> Vec<f64> {
        let choice = Choice::new(distribution, MOST);
        let mut random = Random::new(1, 1);
        let mut parts = vec![0.0; 100];
        for _ in 0..200_000 {
            let value = choice.draw(&mut random);
            assert!((1..=MOST).contains(&value));
            parts[((value - 1) / (MOST / 100)) as usize] += 1.0 / 200_000.0;
        }
        parts
    }

    #[test]
    fn shapes() {
        let uniform = parts(Distribution::Uniform);
        assert!(uniform.iter().all(|share| (0.008..0.012).contains(share)));
        let gaussian = parts(Distribution::Gaussian);
        assert!(gaussian[50] > 0.04 && gaussian[10] < 0.001);
        let special = parts(Distribution::Special);
        let middle: f64 = special[49..51].iter().sum();
        assert!((0.75..0.80).contains(&middle), "{middle}");
        let pareto: f64 = parts(Distribution::Pareto)[..20].iter().sum();
        assert!((0.79..0.81).contains(&pareto), "{pareto}");
    }

    #[test]
    fn zipf_follows_its_law() {
        let choice = Choice::new(Distribution::Zipfian, MOST);
        let mut random = Random::new(1, 1);
        let mut seen = vec![0u32; MOST as usize + 1];
        (0..500_000).for_each(|_| seen[choice.draw(&mut random) as usize] += 1);
        let all: f64 = (1..=MOST).map(|k| weight(f64::from(k))).sum();
        for k in [1u32, 2, 10] {
            let wanted = 500_000.0 * weight(f64::from(k)) / all;
            let found = f64::from(seen[k as usize]);
            assert!((found / wanted - 1.0).abs() < 0.1, "{k}: {found}, not {wanted}");
        }
    }

    #[test]
    fn one_row_is_always_that_row() {
        let all = [
            Distribution::Uniform,
            Distribution::Gaussian,
            Distribution::Special,
            Distribution::Pareto,
            Distribution::Zipfian,
        ];
        for distribution in all {
            assert_eq!(Choice::new(distribution, 1).draw(&mut Random::new(3, 3)), 1);
        }
    }

    /// sysbench itself draws as many; each hundredth of the range must get as many as here, but for chance.
    #[test]
    fn as_sysbench_draws() {
        const SCRIPT: &str = r#"
            function event()
                for _, name in ipairs({"uniform", "gaussian", "special", "pareto"}) do
                    local parts = {}
                    for i = 1, 100 do parts[i] = 0 end
                    for i = 1, 200000 do
                        local part = math.floor((sysbench.rand[name](1, 10000) - 1) / 100) + 1
                        parts[part] = parts[part] + 1
                    end
                    print(table.concat(parts, " "))
                end
            end"#;
        let file = std::env::temp_dir().join(format!("evenkeel-draws-{}.lua", std::process::id()));
        std::fs::write(&file, SCRIPT).unwrap();
        let mut command = std::process::Command::new("sysbench");
        let out = command.arg(&file).args(["--events=1", "--verbosity=0", "run"]).output();
        let _ = std::fs::remove_file(&file);
        let Ok(out) = out else {
            println!("skipped: sysbench is not installed; apt-get install sysbench");
            return;
        };
        let text = String::from_utf8(out.stdout).unwrap();
        let all = [Distribution::Uniform, Distribution::Gaussian, Distribution::Special, Distribution::Pareto];
        assert_eq!(text.lines().count(), all.len(), "{text}");
        for (distribution, line) in all.into_iter().zip(text.lines()) {
            let ours = parts(distribution).into_iter().map(|share| share * 200_000.0);
            let theirs = line.split_whitespace().map(|count| count.parse::<f64>().unwrap());
            for (part, (ours, theirs)) in ours.zip(theirs).enumerate() {
                let chance = 6.0 * (ours + theirs + 9.0).sqrt();
                assert!((ours - theirs).abs() < chance, "{distribution}, part {part}: {ours}, sysbench {theirs}");
            }
        }
    }
}
