//! Figures as a person reads them.

/// 34 %, 5.2 %, 0.4 %: two digits.
pub(crate) fn percent(fraction: f64) -> String {
    format!("{} %", two_digits(fraction.abs() * 100.0))
}

/// 1,024
pub(crate) fn count(n: u32) -> String {
    let digits = n.to_string();
    let mut grouped = String::new();
    for (i, d) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(d);
    }
    grouped
}

pub(crate) fn clients(n: u32) -> String {
    if n == 1 { "1 client".into() } else { format!("{} clients", count(n)) }
}

/// 0.22, 2.3, 48, 1,200: two digits, and all of a whole number.
pub(crate) fn two_digits(x: f64) -> String {
    match x {
        x if x >= 999.5 => count(((x / 100.0).round() * 100.0) as u32),
        x if x >= 9.95 => format!("{x:.0}"),
        x if x >= 0.995 => trimmed(format!("{x:.1}")),
        x if x >= 0.0095 => trimmed(format!("{x:.2}")),
        _ => trimmed(format!("{x:.3}")),
    }
}

fn trimmed(number: String) -> String {
    number.trim_end_matches('0').trim_end_matches('.').to_string()
}

/// 1.8 GB, 260 MB
pub(crate) fn bytes(b: f64) -> String {
    match b {
        b if b >= 0.995e9 => format!("{} GB", two_digits(b / 1e9)),
        b if b >= 0.995e6 => format!("{} MB", two_digits(b / 1e6)),
        b => format!("{} kB", two_digits(b / 1e3)),
    }
}

/// 40 s, 12 min, 3.5 h
pub(crate) fn span(seconds: f64) -> String {
    match seconds {
        s if s < 99.5 => format!("{s:.0} s"),
        s if s < 99.5 * 60.0 => format!("{:.0} min", s / 60.0),
        s => format!("{} h", two_digits(s / 3600.0)),
    }
}

/// a, b and c
pub(crate) fn list(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [one] => one.clone(),
        [some @ .., last] => format!("{} and {last}", some.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_read_well() {
        assert_eq!(percent(-0.3412), "34 %");
        assert_eq!(percent(0.0518), "5.2 %");
        assert_eq!(percent(0.05), "5 %");
        assert_eq!(percent(0.004), "0.4 %");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(two_digits(0.2229), "0.22");
        assert_eq!(two_digits(100.0), "100");
        assert_eq!(two_digits(4_321.0), "4,300");
        assert_eq!(bytes(1.83e9), "1.8 GB");
        assert_eq!(bytes(260_000_000.0), "260 MB");
        assert_eq!(span(5_400.0), "90 min");
        assert_eq!(list(&["a".into(), "b".into(), "c".into()]), "a, b and c");
    }
}
