//! Contents of the progress block: a title, a bar, a few facts, and numbers with their curves. A pure function of the
//! recorded values and the width.

use std::time::{Duration, Instant};

use hone_trace::{clean_line, rounded};

use super::sparkline::{Scale, sparkline};
use super::style::{Style, columns_of};

/// Maximum length of bar and curve; wider ones show no more.
const BAR: usize = 60;
const CURVE: usize = 40;
/// Names are padded to the longest, up to this.
const NAME: usize = 24;
/// Number of recent steps used to estimate the time left.
const RECENT: usize = 10;

#[derive(Debug)]
pub(crate) struct Board {
    title: String,
    /// The unit of counting: "step".
    unit: &'static str,
    done: u64,
    total: u64,
    started: Instant,
    /// Completion times of the latest units.
    times: Vec<Instant>,
    pub(crate) doing: &'static str,
    /// Lines between the bar and the numbers, by their place.
    pub(crate) facts: Vec<String>,
    series: Vec<Series>,
    /// One line under the numbers.
    pub(crate) foot: String,
    /// A notice for the user.
    pub(crate) notice: Option<String>,
    /// The server being waited for.
    pub(crate) waiting: Option<String>,
}

/// A number over time.
#[derive(Debug)]
struct Series {
    name: String,
    values: Vec<f64>,
    scale: Scale,
}

impl Board {
    pub(crate) fn new(title: impl Into<String>, unit: &'static str, total: u64) -> Self {
        Self {
            title: clean_line(&title.into()),
            unit,
            done: 0,
            total,
            started: Instant::now(),
            times: vec![Instant::now()],
            doing: "",
            facts: Vec::new(),
            series: Vec::new(),
            foot: String::new(),
            notice: None,
            waiting: None,
        }
    }

    /// This many units are done now.
    pub(crate) fn reach(&mut self, done: u64) {
        self.done = done;
        self.times.push(Instant::now());
        let old = self.times.len().saturating_sub(RECENT + 1);
        self.times.drain(..old);
    }

    /// This many units were done before: they say nothing about how long one takes.
    pub(crate) fn start_at(&mut self, done: u64) {
        self.done = done;
        self.times = vec![Instant::now()];
    }

    /// The next value of a number. Numbers are shown in order of first appearance.
    pub(crate) fn note(&mut self, name: &str, value: Option<f64>, scale: Scale) {
        let (Some(value), name) = (value, clean_line(name)) else { return };
        match self.series.iter_mut().find(|series| series.name == name) {
            Some(series) => series.values.push(value),
            None => self.series.push(Series { name, values: vec![value], scale }),
        }
    }

    /// No activity any more.
    pub(super) fn settle(&mut self) {
        self.doing = "";
        self.notice = None;
        self.waiting = None;
        self.times.clear();
    }

    pub(super) fn lines(&self, columns: usize, style: Style) -> Vec<String> {
        let mut lines = vec![self.head(style), self.bar(columns, style)];
        lines.extend(self.facts.iter().cloned());
        let width = self.series.iter().map(|series| series.name.chars().count()).max().unwrap_or(0).min(NAME);
        lines.extend(self.series.iter().map(|series| series.line(width, columns, style)));
        lines.extend((!self.foot.is_empty()).then(|| style.dim(&self.foot)));
        lines.extend(self.waiting.iter().map(|waiting| style.dim(waiting)));
        lines.extend(self.notice.iter().map(|notice| style.bold(notice)));
        lines
    }

    fn head(&self, style: Style) -> String {
        let mut parts = vec![format!("{} {} of {}", self.unit, self.done, self.total)];
        parts.extend((!self.doing.is_empty()).then(|| self.doing.to_owned()));
        parts.push(duration(self.started.elapsed()));
        parts.extend(self.left().map(|left| format!("about {} left", duration(left))));
        format!("{}  {}", style.bold(&self.title), parts.join(" · "))
    }

    fn bar(&self, columns: usize, style: Style) -> String {
        let width = columns.min(BAR);
        let done = (self.done.min(self.total) * width as u64).checked_div(self.total).unwrap_or(0) as usize;
        style.cyan(&"━".repeat(done)) + &style.dim(&"─".repeat(width - done))
    }

    pub(super) fn left(&self) -> Option<Duration> {
        let (first, last) = (self.times.first()?, self.times.last()?);
        let units = self.times.len() as u32 - 1;
        let left = u32::try_from(self.total.saturating_sub(self.done)).ok()?;
        (units > 0 && left > 0).then(|| (*last - *first) / units * left)
    }
}

impl Series {
    fn line(&self, width: usize, columns: usize, style: Style) -> String {
        let (first, last) = (self.values.first().copied().unwrap_or(0.0), self.values.last().copied().unwrap_or(0.0));
        let name: String = self.name.chars().take(width).collect();
        let pad = " ".repeat(width - name.chars().count());
        let (value, change) = (number(last), format!("change {}", number_with_sign(last - first)));
        let text = format!("{name}{pad}  {value:>8}  ");
        let room = columns.saturating_sub(columns_of(&text) + change.len() + 2);
        let curve = sparkline(&self.values, room.min(CURVE), self.scale);
        let change = if self.values.len() > 1 { style.dim(&change) } else { String::new() };
        if curve.is_empty() { text + &change } else { text + &style.cyan(&curve) + "  " + &change }
    }
}

/// Three decimals, fewer for large numbers.
pub(crate) fn number(value: f64) -> String {
    let value = rounded(value, 3);
    match value.abs() {
        size if size >= 10_000.0 => format!("{:.1}k", value / 1000.0),
        size if size >= 100.0 => format!("{value:.0}"),
        _ => format!("{value:.3}"),
    }
}

fn number_with_sign(value: f64) -> String {
    let value = rounded(value, 3);
    format!("{}{}", if value >= 0.0 { "+" } else { "" }, number(value))
}

/// `45s`, `2m 05s`, `1h 02m`.
pub(crate) fn duration(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m {:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h {:02}m", seconds / 3600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn board() -> Board {
        let mut board = Board::new("quickstart", "step", 4);
        board.facts.push("held-out success 0.391".into());
        for (step, total) in [(1, 0.2), (2, 0.4), (3, 0.6)] {
            board.note("total", Some(total), Scale::Unit);
            board.note("signal", Some(0.5), Scale::Unit);
            board.note("never", None, Scale::Unit);
            board.reach(step);
        }
        board
    }

    #[test]
    fn a_board_says_where_it_is() {
        let lines = board().lines(60, Style { colour: false });
        assert!(lines[0].starts_with("quickstart  step 3 of 4 · 0s · about 0s left"), "{lines:?}");
        assert_eq!(lines[1], "━".repeat(45) + &"─".repeat(15));
        assert_eq!(lines[2], "held-out success 0.391");
        assert_eq!(lines[3], "total      0.600  ▂▄▅  change +0.400");
        assert_eq!(lines[4], "signal     0.500  ▅▅▅  change +0.000");
        assert_eq!(lines.len(), 5);
    }

    #[test]
    fn curves_give_way_on_a_narrow_terminal() {
        let mut board = board();
        (0..200).for_each(|value| board.note("total", Some(f64::from(value)), Scale::Zero));
        for columns in [1, 10, 30, 40, 80, 200] {
            let lines = board.lines(columns, Style { colour: false });
            let widest = lines[3..].iter().map(|line| columns_of(line)).max().unwrap();
            assert!(columns < 40 || widest <= columns, "{columns}: {widest}");
        }
    }

    #[test]
    fn numbers_and_times_are_short() {
        let numbers = [0.1234, 12.0, 1234.5, 41_234.0, -0.5].map(number);
        assert_eq!(numbers, ["0.123", "12.000", "1234", "41.2k", "-0.500"]);
        let times = [5, 65, 3720].map(|seconds| duration(Duration::from_secs(seconds)));
        assert_eq!(times, ["5s", "1m 05s", "1h 02m"]);
    }
}
