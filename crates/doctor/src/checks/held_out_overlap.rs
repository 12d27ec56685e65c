use std::collections::{HashMap, HashSet};

use hone_trace::rundir::RunDirError;
use hone_trace::{Origin, Trace};
use hone_train::evaluate::Kind;

use crate::check::{Check, Finding, Looked, Severity};
use crate::run::Run;

pub(super) const CHECK: Check = Check {
    name: "held_out_overlap",
    what: "Held-out tasks occur in training, so their success does not show generalisation.",
    measure: "Held-out prompts, and reference calls with their arguments, that training tasks have too, by content. \
              From 1 % a warning for prompts and a note for calls; an error where from 20 % of the tasks both are one \
              training task's. The same over the prompt tokens of the last evaluation and of the probed steps, whatever \
              their tasks are called.",
    fix: "Split by content: by customer, product or template, not by number.",
    explains: &[],
    look,
};

fn look(run: &Run) -> Result<Looked, RunDirError> {
    if let Some(finding) = played(run)? {
        return finding.into();
    }
    let Some(overlap) = &run.report.held_out.overlap else { return Looked::skipped("the recorded overlap") };
    let (prompts, calls) = (overlap.prompts.unwrap_or(0.0), overlap.calls.unwrap_or(0.0));
    if prompts < 0.01 && calls < 0.01 {
        return Ok(Looked::Healthy);
    }
    // Either alone may repeat where the world is small: two customers who cancel order 12 are two tasks, and so is one
    // ticket in two knowledge bases.
    let tasks = overlap.tasks.unwrap_or(prompts);
    let (severity, part, share) = match () {
        () if tasks >= 0.2 => (Severity::Error, "prompts", prompts),
        () if prompts >= 0.01 => (Severity::Warning, "prompts", prompts),
        () => (Severity::Note, "reference calls", calls),
    };
    let says = format!("{:.1} % of the {part} of {} held-out tasks occur in training", 100.0 * share, overlap.held_out);
    let parts = [("prompts", prompts), ("reference calls", calls), ("both at once", tasks)];
    let parts = parts.map(|(name, share)| format!("{name}: {:.1} %", 100.0 * share));
    Finding::new(severity, says).line(parts.join(", ")).into()
}

/// Evaluated episodes whose prompt, token by token, and reference were trained on.
fn played(run: &Run) -> Result<Option<Finding>, RunDirError> {
    let trained = run.probed()?;
    let mut evaluated = run.evaluated(Kind::Sampled)?;
    if evaluated.is_empty() {
        evaluated = run.evaluated(Kind::Greedy)?;
    }
    let known: HashMap<_, _> = trained.iter().filter_map(|(number, trace)| Some((asked(trace)?, *number))).collect();
    let prompts: HashSet<_> = evaluated.iter().filter_map(|(_, trace)| asked(trace)).collect();
    let both: Vec<(u64, u64)> =
        evaluated.iter().filter_map(|(number, trace)| Some((*number, *known.get(&asked(trace)?)?))).collect();
    let distinct = prompts.iter().filter(|asked| known.contains_key(*asked)).count();
    // Few of the run's tasks are probed: a share of either side is one.
    let fewer = prompts.len().min(known.len()).max(1);
    let rate = distinct as f64 / fewer as f64;
    let Some((held_out, training)) = both.first().filter(|_| rate >= 0.01) else { return Ok(None) };
    let referenced = both.iter().all(|(number, _)| {
        evaluated.iter().any(|(other, trace)| other == number && trace.facts.contains_key(REFERENCE))
    });
    // Without a reference nobody knows whether the answer is the same, too.
    let severity = if rate >= 0.2 && referenced { Severity::Error } else { Severity::Warning };
    let says = format!("{distinct} prompts of the last evaluation were trained on, token for token");
    let finding = Finding::new(severity, says)
        .line(format!("{} held-out prompts, {} of the probed steps", prompts.len(), known.len()))
        .line(format!("episode {held_out} of the evaluation asks what episode {training} was trained on"))
        .traces([*held_out, *training]);
    Ok(Some(finding))
}

/// Fact that has the reference's calls.
const REFERENCE: &str = "reference_calls";

/// Prompt tokens of an episode, and its reference where it is known.
fn asked(trace: &Trace) -> Option<(Vec<u32>, String)> {
    let prompt = trace.nodes().iter().filter(|node| matches!(node.origin(), Origin::Prompt { .. }));
    let tokens: Vec<u32> = prompt.flat_map(|node| node.tokens().iter().copied()).collect();
    let reference = trace.facts.get(REFERENCE).map(ToString::to_string).unwrap_or_default();
    (!tokens.is_empty()).then_some((tokens, reference))
}
