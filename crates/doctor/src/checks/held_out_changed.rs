use std::collections::BTreeSet;

use hone_trace::rundir::RunDirError;
use hone_train::evaluate::Kind;

use crate::check::{Check, Finding, Looked, Severity};
use crate::run::{Episodes, Run};

pub(super) const CHECK: Check = Check {
    name: "held_out_changed",
    what: "The held-out tasks changed between evaluations: before and after are not comparable.",
    measure: "Tasks of the first and of the last sampled evaluation; training tasks among them. Error.",
    fix: "Fix the held-out split by content or key, independently of how much data there is.",
    explains: &["too_few_tasks", "reward_without_success", "sharpening"],
    look,
};

fn look(run: &Run) -> Result<Looked, RunDirError> {
    let Some((before, after)) = run.evaluation_ends(Kind::Sampled)? else {
        return Looked::skipped("two sampled evaluations");
    };
    let tasks = |episodes: &Episodes| episodes.iter().map(|(_, trace)| trace.task.clone()).collect::<BTreeSet<_>>();
    let (before, after) = (tasks(&before), tasks(&after));
    let changed = before.symmetric_difference(&after).count();
    if changed > 0 {
        let says = format!("{changed} held-out tasks are in one of the first and the last evaluation only");
        return Finding::new(Severity::Error, says)
            .line(format!("{} tasks before, {} after", before.len(), after.len()))
            .into();
    }
    let trained: BTreeSet<String> = run.probed()?.into_iter().map(|(_, trace)| trace.task).collect();
    let both: Vec<&String> = after.intersection(&trained).collect();
    match both.first() {
        Some(first) => {
            let says = format!("{} evaluated tasks were trained on, by key", both.len());
            Finding::new(Severity::Error, says).line(format!("the first of them: {first}")).into()
        }
        None => Ok(Looked::Healthy),
    }
}
