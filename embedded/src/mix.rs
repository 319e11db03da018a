//! What one transaction does: how many operations of each kind, in the fixed order of `Kind`.

use std::fmt;
use std::str::FromStr;

/// The kinds of operation, in the order in which a transaction does them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Point,
    Range,
    Update,
    Delete,
    Insert,
}

impl Kind {
    pub const ALL: [Kind; 5] = [Kind::Point, Kind::Range, Kind::Update, Kind::Delete, Kind::Insert];

    pub fn name(self) -> &'static str {
        match self {
            Kind::Point => "point",
            Kind::Range => "range",
            Kind::Update => "update",
            Kind::Delete => "delete",
            Kind::Insert => "insert",
        }
    }
}

/// Operations of one transaction by kind. At least one, at most `MOST`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mix([u32; Kind::ALL.len()]);

const MOST: u32 = 1000;

impl Mix {
    pub fn of(&self, kind: Kind) -> u32 {
        self.0[kind as usize]
    }

    /// Every operation of a transaction, in order.
    pub fn operations(&self) -> impl Iterator<Item = Kind> + '_ {
        Kind::ALL.into_iter().flat_map(|kind| std::iter::repeat_n(kind, self.of(kind) as usize))
    }
}

impl Default for Mix {
    fn default() -> Self {
        Mix([2, 1, 1, 1, 1])
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let parts: Vec<_> = Kind::ALL
            .iter()
            .filter(|kind| self.of(**kind) > 0)
            .map(|kind| format!("{}={}", kind.name(), self.of(*kind)))
            .collect();
        f.write_str(&parts.join(","))
    }
}

impl FromStr for Mix {
    type Err = String;

    /// `point=4,update=2`: a kind that is not named is not done.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut mix = [None; Kind::ALL.len()];
        for part in text.split(',') {
            let (name, count) =
                part.trim().split_once('=').ok_or_else(|| format!("'{part}' is not KIND=N, as in point=4"))?;
            let kind = Kind::ALL.into_iter().find(|kind| kind.name() == name.trim()).ok_or_else(|| {
                format!("no operation is called '{}': point, range, update, insert, delete", name.trim())
            })?;
            let count = count.trim().parse::<u32>().map_err(|_| format!("'{}' is not a count", count.trim()))?;
            if mix[kind as usize].replace(count).is_some() {
                return Err(format!("'{}' is named twice", kind.name()));
            }
        }
        let mix = mix.map(|count| count.unwrap_or(0));
        match mix.iter().map(|count| u64::from(*count)).sum::<u64>() {
            0 => Err("a transaction needs at least one operation".into()),
            n if n > u64::from(MOST) => Err(format!("{n} operations in one transaction; at most {MOST}")),
            _ => Ok(Mix(mix)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        text.parse::<Mix>().expect_err(text)
    }

    #[test]
    fn the_default_reads_back() {
        assert_eq!(Mix::default().to_string(), "point=2,range=1,update=1,delete=1,insert=1");
        assert_eq!(Mix::default().to_string().parse(), Ok(Mix::default()));
    }

    #[test]
    fn kinds_in_any_order_and_with_gaps() {
        let mix: Mix = "insert=3, point=2".parse().unwrap();
        assert_eq!(Kind::ALL.map(|kind| mix.of(kind)), [2, 0, 0, 0, 3]);
        let done: Vec<_> = mix.operations().collect();
        assert_eq!(done, [Kind::Point, Kind::Point, Kind::Insert, Kind::Insert, Kind::Insert]);
    }

    #[test]
    fn what_is_refused_says_why() {
        assert!(refused("points=4").contains("no operation is called 'points'"));
        assert!(refused("point").contains("not KIND=N"));
        assert!(refused("").contains("not KIND=N"));
        assert!(refused("point=-1").contains("not a count"));
        assert!(refused("point=1,point=2").contains("named twice"));
        assert!(refused("point=0").contains("at least one"));
        assert!(refused("point=1000,range=1").contains("at most 1000"));
        assert!(refused("point=4294967295,range=4294967295").contains("at most 1000"));
    }
}
