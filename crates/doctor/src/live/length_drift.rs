use hone_trace::rundir::RunDirError;
use hone_train::ledger::names;

use super::Live;
use crate::check::{Check, Finding, Looked, Severity};

pub(super) const CHECK: Check<Live> = Check {
    name: "length_drift",
    what: "Replies grow while success does not.",
    measure: "`generate/avg_num_tokens`, the mean of the last 8 steps at least twice the first 8, while success \
              rose by less than 5 points. Warning.",
    fix: "Find the component that pays for length; `hone doctor` measures the correlation.",
    explains: &[],
    look,
};

fn look(live: &Live) -> Result<Looked, RunDirError> {
    let Some((early, late)) = live.ends(names::GENERATE_AVG_NUM_TOKENS) else {
        return Looked::skipped("`generate/avg_num_tokens` of 16 steps");
    };
    let Some((before, success)) = live.ends(names::REWARD_SUCCESS_RATE) else {
        return Looked::skipped("`reward/success_rate` of 16 steps");
    };
    if late < 2.0 * early || success - before >= 0.05 {
        return Ok(Looked::Healthy);
    }
    let says = format!(
        "episodes grew from {early:.0} to {late:.0} sampled tokens while success went from {before:.2} to {success:.2}"
    );
    Finding::new(Severity::Warning, says).into()
}
