use std::collections::BTreeSet;

use hone_arena::perturb::Perturbation;
use hone_trace::rundir::RunDirError;
use hone_trace::{Trace, signed};

use crate::check::{Check, Finding, Looked, Severity};
use crate::run::Run;

/// Success that may be lost.
const LOST: f64 = 0.1;

pub(super) const CHECK: Check = Check {
    name: "tools_not_read",
    what: "The policy does not read its tools: it knows them by position or by name.",
    measure: "Greedy success of the end on the held-out tasks with the tools listed in reverse order, and, where training \
              varies their names, with the names exchanged (descriptions and parameters stay, calls are translated): a \
              paired 95 % interval wholly more than 0.1 below the success with the tools as they are. Warning.",
    fix: "Vary the order, names and descriptions of the tools between tasks, so that reading them is the only way.",
    explains: &[],
    look,
};

fn look(run: &Run) -> Result<Looked, RunDirError> {
    let probes = &run.report.held_out.probes;
    if probes.iter().all(|probe| probe.difference.is_none()) {
        return Looked::skipped("the probes of the tools at the end of training (eval.controls)");
    }
    let lost = |ci: [f64; 2]| ci[1] < -LOST;
    // Where no task renames its tools, knowing them by name is what the environment asks for.
    let by_name = |how| how == Perturbation::NamesExchanged && run.probed().is_ok_and(|traces| one_list(&traces));
    let probes: Vec<_> = probes.iter().filter(|probe| !by_name(probe.tools)).collect();
    let broken: Vec<_> =
        probes.into_iter().filter(|probe| probe.difference.is_some_and(|found| lost(found.ci))).collect();
    let Some(first) = broken.first() else { return Ok(Looked::Healthy) };
    let success = |value: Option<f64>| value.map_or_else(|| "nothing".to_owned(), |value| format!("{value:.3}"));
    let after = run.report.held_out.greedy.after.as_ref().and_then(|after| after.result.success);
    let says = format!(
        "with {} the policy reaches {} where it reaches {}",
        first.tools.words(),
        success(first.result.success),
        success(after)
    );
    let lines = broken.iter().filter_map(|probe| {
        let found = probe.difference?;
        let (mean, [low, high]) = (found.mean, found.ci);
        let [mean, low, high] = [mean, low, high].map(signed);
        Some(format!("{}: {mean} [{low}, {high}] over {} tasks", probe.tools.words(), found.tasks))
    });
    lines.fold(Finding::new(Severity::Warning, says), Finding::line).into()
}

/// True if all episodes of an environment offer tools of the same names.
fn one_list(traces: &[(u64, Trace)]) -> bool {
    let lists: BTreeSet<(&str, Vec<&str>)> = traces
        .iter()
        .map(|(_, trace)| {
            let mut names: Vec<&str> = trace.tools().iter().map(|tool| tool.name.as_str()).collect();
            names.sort_unstable();
            (trace.env.as_str(), names)
        })
        .collect();
    let envs: BTreeSet<&str> = lists.iter().map(|(env, _)| *env).collect();
    lists.len() == envs.len()
}
