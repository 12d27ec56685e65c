//! Calendar days as `YYYY-MM-DD`: the next day.

/// The next day, or `None` if the text is not a date.
pub(crate) fn next_day(date: &str) -> Option<String> {
    let mut parts = date.splitn(3, '-').map(|part| part.parse::<u32>().ok());
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    let leap = year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
    let last = match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    let (year, month, day) = match (month, day) {
        _ if day == 0 || day > last => return None,
        (12, 31) => (year + 1, 1, 1),
        _ if day == last => (year, month + 1, 1),
        _ => (year, month, day + 1),
    };
    Some(format!("{year:04}-{month:02}-{day:02}"))
}

#[cfg(test)]
mod tests {
    use super::next_day;

    #[test]
    fn months_and_years_roll_over() {
        for (day, next) in [
            ("2024-05-09", "2024-05-10"),
            ("2024-05-31", "2024-06-01"),
            ("2024-02-28", "2024-02-29"),
            ("2023-12-31", "2024-01-01"),
        ] {
            assert_eq!(next_day(day).as_deref(), Some(next));
        }
        for bad in ["2024-05-32", "2024-13-01", "tomorrow", "2024-05-00", ""] {
            assert_eq!(next_day(bad), None, "{bad}");
        }
    }
}
