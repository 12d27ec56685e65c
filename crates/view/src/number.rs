//! Number formatting: few digits, aligned, and a dash for an absent value.

/// About three significant digits, no exponent between 1e-4 and 1e7.
pub(crate) fn short(value: f64) -> String {
    let size = value.abs();
    if !value.is_finite() {
        return "–".to_owned();
    }
    match size {
        _ if value == 0.0 => "0".to_owned(),
        _ if size < 1e-4 => format!("{value:.1e}"),
        _ if size < 0.01 => format!("{value:.5}"),
        _ if size < 10.0 => format!("{value:.3}"),
        _ if size < 100.0 => format!("{value:.2}"),
        _ if size < 1000.0 => format!("{value:.1}"),
        _ if size < 1e4 => format!("{value:.0}"),
        _ if size < 1e6 => format!("{:.1}k", value / 1e3),
        _ if size < 1e9 => format!("{:.2}M", value / 1e6),
        _ => format!("{value:.2e}"),
    }
}

/// A count: an integer while it is short.
pub(crate) fn count(value: f64) -> String {
    if value.abs() < 1e4 && value.is_finite() { format!("{value:.0}") } else { short(value) }
}

/// A number, or a dash if it is absent.
pub(crate) fn cell(value: Option<f64>) -> String {
    value.map_or_else(|| "–".to_owned(), short)
}

/// With its sign: for advantages and differences.
pub(crate) fn signed(value: f64) -> String {
    if value > 0.0 { format!("+{}", short(value)) } else { short(value) }
}

/// Seconds, milliseconds or microseconds, whichever has digits to show.
pub(crate) fn duration(seconds: f64) -> String {
    let size = seconds.abs();
    match size {
        _ if !seconds.is_finite() => "–".to_owned(),
        _ if size >= 0.1 || size == 0.0 => format!("{} s", short(seconds)),
        _ if size >= 1e-3 => format!("{:.0} ms", seconds * 1e3),
        _ => format!("{:.0} µs", seconds * 1e6),
    }
}

/// Digits in threes: 1,048,576.
pub(crate) fn thousands(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Smallest and largest value.
pub(crate) fn span(values: impl Iterator<Item = f64>) -> Option<[f64; 2]> {
    values.fold(None, |span: Option<[f64; 2]>, value| {
        let [low, high] = span.unwrap_or([value, value]);
        Some([low.min(value), high.max(value)])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_none_is_a_dash() {
        let shown = [0.0, 0.5, -0.031_25, 12.346, 7027.4, 12_840.0, 3.2e6, 2e-7].map(short);
        assert_eq!(shown, ["0", "0.500", "-0.031", "12.35", "7027", "12.8k", "3.20M", "2.0e-7"]);
        assert_eq!(
            (cell(None), short(f64::NAN), signed(0.5), signed(-0.5)),
            ("–".into(), "–".into(), "+0.500".into(), "-0.500".into())
        );
        let waited = [0.0, 0.38, 0.075, 0.000_49, 1.7e-6, 12.34].map(duration);
        assert_eq!(waited, ["0 s", "0.380 s", "75 ms", "490 µs", "2 µs", "12.34 s"]);
        assert_eq!([60.0, 12_840.0].map(count), ["60", "12.8k"]);
        assert_eq!([7, 1000, 1_048_576].map(thousands), ["7", "1,000", "1,048,576"]);
    }
}
