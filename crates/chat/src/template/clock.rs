//! Clock of a template, frozen: "today" is the task's date, so that a prompt is the same tomorrow.

use std::fmt::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

/// A date and time of day, without a zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clock {
    year: i32,
    month: u32,
    day: u32,
    hour: u32,
    minute: u32,
    second: u32,
}

/// An invalid date.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a date; write it as YYYY-MM-DD or YYYY-MM-DDTHH:MM:SS")]
pub struct BadDate(pub String);

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

impl Clock {
    /// The host's clock, in UTC. For looking at a template by hand; a task brings its own date.
    pub fn host() -> Self {
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64);
        let (year, month, day) = civil(seconds.div_euclid(86_400));
        let of_day = seconds.rem_euclid(86_400) as u32;
        Self { year, month, day, hour: of_day / 3600, minute: of_day / 60 % 60, second: of_day % 60 }
    }

    /// Reads `YYYY-MM-DD`, with or without a time of day. Fractions of a second and a zone are ignored.
    pub fn parse(text: &str) -> Result<Self, BadDate> {
        Self::read(text.trim()).ok_or_else(|| BadDate(text.to_owned()))
    }

    fn read(text: &str) -> Option<Self> {
        let (date, time) = text.split_once(['T', ' ']).unwrap_or((text, ""));
        let mut fields = date.splitn(3, '-').map(number);
        let (year, month, day) = (fields.next()??, fields.next()??, fields.next()??);
        let time = time.split(['.', 'Z', '+', '-']).next().unwrap_or_default();
        let mut clock = [0; 3];
        if !time.is_empty() {
            for (slot, field) in clock.iter_mut().zip(time.split(':')) {
                *slot = number(field)?;
            }
        }
        let [hour, minute, second] = clock;
        let valid = (1..=12).contains(&month)
            && (1..=days_in(year as i32, month)).contains(&day)
            && hour < 24
            && minute < 60
            && second < 61;
        valid.then_some(Self { year: year as i32, month, day, hour, minute, second })
    }

    /// English name of a month, 1 to 12.
    pub fn month_name(month: u32) -> Option<&'static str> {
        MONTHS.get(month.checked_sub(1)? as usize).copied()
    }

    /// `YYYY-MM-DD`.
    pub fn date(&self) -> String {
        self.strftime("%Y-%m-%d")
    }

    fn days(&self) -> i64 {
        days_from_civil(self.year, self.month, self.day)
    }

    /// 0 is Monday.
    fn weekday(&self) -> usize {
        (self.days() + 3).rem_euclid(7) as usize
    }

    fn day_of_year(&self) -> i64 {
        self.days() - days_from_civil(self.year, 1, 1) + 1
    }

    /// C's `strftime` in the C locale. An unknown directive stays as written, as in glibc.
    pub(crate) fn strftime(&self, format: &str) -> String {
        let mut out = String::new();
        let mut chars = format.chars();
        while let Some(c) = chars.next() {
            if c != '%' {
                out.push(c);
                continue;
            }
            let mut flag = None;
            let mut directive = chars.next();
            if let Some(found @ ('-' | '_' | '0' | '^')) = directive {
                flag = Some(found);
                directive = chars.next();
            }
            let Some(directive) = directive else {
                out.push('%');
                break;
            };
            let text = self.directive(directive).unwrap_or_else(|| format!("%{directive}"));
            let body = text.trim_start_matches(['0', ' ']);
            match flag {
                Some('-') if text.ends_with(|c: char| c.is_ascii_digit()) => {
                    out.push_str(if body.is_empty() { "0" } else { body });
                }
                Some('_') => {
                    let _ = write!(out, "{body:>width$}", width = text.len());
                }
                Some('0') => {
                    let _ = write!(out, "{}{body}", "0".repeat(text.len() - body.len()));
                }
                Some('^') => out.push_str(&text.to_uppercase()),
                _ => out.push_str(&text),
            }
        }
        out
    }

    fn directive(&self, directive: char) -> Option<String> {
        let month = MONTHS[(self.month - 1) as usize];
        let weekday = DAYS[self.weekday()];
        let hour12 = (self.hour + 11) % 12 + 1;
        Some(match directive {
            'Y' => self.year.to_string(),
            'C' => format!("{:02}", self.year / 100),
            'y' => format!("{:02}", self.year.rem_euclid(100)),
            'm' => format!("{:02}", self.month),
            'd' => format!("{:02}", self.day),
            'e' => format!("{:2}", self.day),
            'H' => format!("{:02}", self.hour),
            'I' => format!("{hour12:02}"),
            'l' => format!("{hour12:2}"),
            'k' => format!("{:2}", self.hour),
            'M' => format!("{:02}", self.minute),
            'S' => format!("{:02}", self.second),
            'f' => "000000".to_owned(),
            'p' => if self.hour < 12 { "AM" } else { "PM" }.to_owned(),
            'B' => month.to_owned(),
            'b' | 'h' => month[..3].to_owned(),
            'A' => weekday.to_owned(),
            'a' => weekday[..3].to_owned(),
            'u' => (self.weekday() + 1).to_string(),
            'w' => ((self.weekday() + 1) % 7).to_string(),
            'j' => format!("{:03}", self.day_of_year()),
            'F' => self.strftime("%Y-%m-%d"),
            'D' | 'x' => self.strftime("%m/%d/%y"),
            'T' | 'X' => self.strftime("%H:%M:%S"),
            'R' => self.strftime("%H:%M"),
            'r' => self.strftime("%I:%M:%S %p"),
            'c' => self.strftime("%a %b %e %H:%M:%S %Y"),
            // The moment has no zone, as a naive datetime has none.
            'Z' | 'z' => String::new(),
            'n' => "\n".to_owned(),
            't' => "\t".to_owned(),
            '%' => "%".to_owned(),
            _ => return None,
        })
    }
}

fn number(digits: &str) -> Option<u32> {
    (!digits.is_empty() && digits.len() <= 4 && digits.bytes().all(|byte| byte.is_ascii_digit()))
        .then(|| digits.parse().ok())
        .flatten()
}

fn days_in(year: i32, month: u32) -> u32 {
    let leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days since 1970-01-01 of a date of the proleptic Gregorian calendar, counting years from March.
fn days_from_civil(year: i32, month: u32, day: u32) -> i64 {
    let year = i64::from(year) - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((i64::from(month) + 9) % 12) + 2) / 5 + i64::from(day) - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// The inverse of [`days_from_civil`].
fn civil(days: i64) -> (i32, u32, u32) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    ((year + era * 400 + i64::from(month <= 2)) as i32, month as u32, day as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected values were read off Python's `datetime.strftime`.
    #[test]
    fn strftime_writes_what_python_writes() {
        let clock = Clock::parse("2024-02-29T15:04:05").unwrap();
        for (format, expected) in [
            ("%d %b %Y", "29 Feb 2024"),
            ("%Y-%m-%d", "2024-02-29"),
            ("%A, %B %-d, %Y", "Thursday, February 29, 2024"),
            ("%I:%M %p", "03:04 PM"),
            ("%j %u %w", "060 4 4"),
            ("100%% %Q", "100% %Q"),
            ("%c", "Thu Feb 29 15:04:05 2024"),
        ] {
            assert_eq!(clock.strftime(format), expected);
        }
        assert_eq!(Clock::parse("2023-01-05").unwrap().strftime("%-d/%-m %e|"), "5/1  5|");
    }

    #[test]
    fn dates_are_read_and_others_refused() {
        assert_eq!(Clock::parse(" 2024-05-15 15:00:00.25Z ").unwrap().strftime("%F %T"), "2024-05-15 15:00:00");
        for bad in ["", "2024", "2024-13-01", "2023-02-29", "15 May 2024", "2024-05-15T25:00", "2024-05-15Tnoon"] {
            assert_eq!(Clock::parse(bad), Err(BadDate(bad.to_owned())));
        }
    }

    #[test]
    fn months_have_names() {
        assert_eq!([0, 1, 12, 13].map(Clock::month_name), [None, Some("January"), Some("December"), None]);
    }

    #[test]
    fn day_counts_are_inverse_over_the_whole_calendar() {
        for days in (-800_000..800_000).step_by(97) {
            let (year, month, day) = civil(days);
            assert_eq!(days_from_civil(year, month, day), days);
        }
    }
}
