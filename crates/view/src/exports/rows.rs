//! Rows of a run by step, for metric loggers, and the run's identity among other runs.

use std::collections::BTreeSet;
use std::time::{SystemTime, UNIX_EPOCH};

use hone_train::ledger::names;
use sha2::{Digest as _, Sha256};

use crate::run::Run;

/// Everything known about one step: its metrics and the evaluation after it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Row {
    pub step: u64,
    /// Seconds of the steps so far. Evaluations are not timed.
    pub seconds: f64,
    pub values: Vec<(String, f64)>,
}

/// Rows after a step, in order; all of them without one.
pub(super) fn rows(run: &Run, after: Option<u64>) -> impl Iterator<Item = Row> + '_ {
    let evaluated = run.events.evaluations().map(|played| played.step);
    let steps: BTreeSet<u64> = run.metrics.steps().iter().copied().chain(evaluated).collect();
    let mut seconds = 0.0;
    steps.into_iter().filter_map(move |step| {
        seconds += run.metrics.at(step, names::TIMING_STEP.name).unwrap_or(0.0);
        (after.is_none_or(|after| step > after)).then(|| Row { step, seconds, values: values(run, step) })
    })
}

fn values(run: &Run, step: u64) -> Vec<(String, f64)> {
    let metric = |name: &str| Some((name.to_owned(), run.metrics.at(step, name)?));
    let metrics = run.metrics.names().filter_map(metric);
    let played = run.events.evaluations().filter(|played| played.step == step);
    let evaluated = played.flat_map(|played| {
        let value = |name: &str, value: Option<f64>| Some((format!("eval/{}/{name}", played.set.kind()), value?));
        let values = [
            value("success", played.success),
            value("parse_failure_rate", played.parse_failures),
            value("entropy", played.entropy),
        ];
        values.into_iter().flatten()
    });
    metrics.chain(evaluated).collect()
}

/// Identity of a run: its start time, and a short id that survives moving its directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Origin {
    /// Seconds since 1970.
    pub began: u64,
    /// Eight lower-case letters and digits.
    pub id: String,
}

impl Origin {
    /// `version` is written once, when a run begins; runs of other trainers only have the recipe.
    pub(super) fn of(run: &Run) -> Self {
        let modified = |name: &str| run.path.join(name).metadata().ok()?.modified().ok();
        let began = modified("version").or_else(|| modified("recipe.toml")).unwrap_or(UNIX_EPOCH);
        let seed = run.recipe.get("seed").map(ToString::to_string).unwrap_or_default();
        Self::at(began, &seed)
    }

    fn at(began: SystemTime, seed: &str) -> Self {
        let began = began.duration_since(UNIX_EPOCH).unwrap_or_default();
        let digest = Sha256::digest(format!("{}\n{seed}", began.as_nanos()));
        let letter = |byte: &u8| char::from_digit(u32::from(*byte) % 36, 36).unwrap_or('0');
        Self { began: began.as_secs(), id: digest.iter().take(8).map(letter).collect() }
    }

    /// Start time of the run, as `20260131_235959`, in UTC.
    pub(super) fn stamp(&self) -> String {
        let (year, month, day) = civil(self.began / 86_400);
        let second = self.began % 86_400;
        format!("{year:04}{month:02}{day:02}_{:02}{:02}{:02}", second / 3600, second / 60 % 60, second % 60)
    }
}

/// The date of a day since 1970-01-01, counting years from March.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Expected values are from `date -u -d @N +%Y%m%d_%H%M%S`.
    #[test]
    fn stamps_are_dates_in_utc() {
        for (began, stamp) in
            [(0, "19700101_000000"), (951_868_799, "20000229_235959"), (1_794_846_655, "20261116_163055")]
        {
            assert_eq!(Origin::at(UNIX_EPOCH + Duration::from_secs(began), "0").stamp(), stamp);
        }
    }

    #[test]
    fn runs_that_began_at_other_times_have_other_names() {
        let at = |nanos| Origin::at(UNIX_EPOCH + Duration::from_nanos(nanos), "0").id;
        assert_eq!(at(1), at(1));
        assert_ne!(at(1), at(2));
        assert!(at(1).len() == 8 && at(1).chars().all(|c| c.is_ascii_digit() || c.is_ascii_lowercase()));
    }
}
