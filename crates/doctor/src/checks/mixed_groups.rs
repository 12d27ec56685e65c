use hone_trace::rundir::RunDirError;

use crate::check::{Check, Finding, Looked, Severity};
use crate::checks::share;
use crate::run::Run;

pub(super) const CHECK: Check = Check {
    name: "mixed_groups",
    what: "Groups mix tasks: episodes are compared with those of another prompt.",
    measure: "Runs of train.group_size traces of a probed step that are not one task's. Error.",
    fix: "Group by task, not by position; an episode that broke leaves its group without moving others up.",
    explains: &["no_signal"],
    look,
};

fn look(run: &Run) -> Result<Looked, RunDirError> {
    let size = run.recipe.train.group_size as usize;
    let (mut groups, mut mixed) = (0, Vec::new());
    for (_, range) in run.probed_steps() {
        for group in run.step_episodes(&range)?.chunks(size.max(1)).filter(|group| group.len() == size) {
            groups += 1;
            if group.iter().any(|(_, trace)| trace.task != group[0].1.task) {
                mixed.push(group[0].0);
            }
        }
    }
    if groups == 0 {
        return Looked::skipped("a whole group of recorded episodes");
    }
    if mixed.is_empty() {
        return Ok(Looked::Healthy);
    }
    Finding::new(Severity::Error, format!("{} groups have episodes of several tasks", share(mixed.len(), groups)))
        .traces(mixed)
        .into()
}
