use std::collections::BTreeMap;

use hone_trace::rundir::RunDirError;

use crate::check::{Check, Finding, Looked, Severity};
use crate::checks::share;
use crate::run::Run;

pub(super) const CHECK: Check = Check {
    name: "shared_gate",
    what: "Several components fall to 0 together: they all pay for the same thing, a readable reply.",
    measure: "At least three weighted components: all 0 together in at least 20 episodes and 10 % of all, and hardly \
              ever one without the others (at most a tenth as often). Warning.",
    fix: "Pay for the format once, and leave the other components unscored where there is nothing to score.",
    explains: &[],
    look,
};

fn look(run: &Run) -> Result<Looked, RunDirError> {
    let weighted: Vec<String> = run.weights().into_iter().map(|(name, _)| name).collect();
    if weighted.len() < 3 {
        return Looked::skipped("three weighted components");
    }
    let (mut together, mut alone, mut all): (Vec<u64>, BTreeMap<&str, usize>, usize) = Default::default();
    for (number, trace) in run.probed()? {
        let values: Option<Vec<f64>> = weighted.iter().map(|name| trace.reward(name)).collect();
        let Some(values) = values else { continue };
        all += 1;
        if values.iter().all(|value| *value == 0.0) {
            together.push(number);
        } else {
            for (name, _) in weighted.iter().zip(&values).filter(|(_, value)| **value == 0.0) {
                *alone.entry(name).or_default() += 1;
            }
        }
    }
    let lonely = alone.values().copied().max().unwrap_or(0);
    let enough = together.len() >= 20 && together.len() * 10 >= all;
    if !enough || lonely * 10 > together.len() {
        return Ok(Looked::Healthy);
    }
    let says = format!(
        "{} components are 0 together in {} episodes and hardly ever alone",
        weighted.len(),
        share(together.len(), all)
    );
    Finding::new(Severity::Warning, says)
        .line(format!("alone: at most {lonely} times ({})", weighted.join(", ")))
        .traces(together)
        .into()
}
