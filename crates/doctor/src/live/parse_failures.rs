use hone_trace::rundir::RunDirError;
use hone_train::ledger::names;

use super::Live;
use crate::check::{Check, Finding, Looked, Severity};

pub(super) const CHECK: Check<Live> = Check {
    name: "parse_failures",
    what: "More and more replies cannot be read.",
    measure: "`reward/parse_failure_rate`, the mean of the last 8 steps against the first 8: up by 15 points. \
              Warning, error from 50 % of all replies.",
    fix: "Look at a trace: the policy has left the tools' format. Lower the learning rate, or pay parse_penalty.",
    explains: &[],
    look,
};

fn look(live: &Live) -> Result<Looked, RunDirError> {
    let Some((early, late)) = live.ends(names::REWARD_PARSE_FAILURE_RATE) else {
        return Looked::skipped("`reward/parse_failure_rate` of 16 steps");
    };
    if late < early + 0.15 {
        return Ok(Looked::Healthy);
    }
    let severity = if late < 0.5 { Severity::Warning } else { Severity::Error };
    Finding::new(severity, format!("unreadable replies rose from {:.1} % to {:.1} %", 100.0 * early, 100.0 * late))
        .into()
}
