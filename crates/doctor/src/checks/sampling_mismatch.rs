use hone_trace::rundir::RunDirError;
use hone_trace::{SamplingParams, Trace};
use hone_train::evaluate::Kind;
use hone_train::events::Event;

use crate::check::{Check, Finding, Looked, Severity};
use crate::checks::share;
use crate::run::Run;

pub(super) const CHECK: Check = Check {
    name: "sampling_mismatch",
    what: "Episodes were not sampled as the run says: its numbers are those of another distribution.",
    measure: "Temperature, top_k, top_p and min_p of the recorded episodes: of the probed steps against the recipe; of the \
              first and the last evaluations against what the evaluation reports, against 0 where it is greedy, and \
              against each other. Error.",
    fix: "Sample with the recipe's settings, and evaluate the same way before and after training.",
    explains: &["decoding_filter", "logprob_mismatch", "sharpening", "too_few_tasks"],
    look,
};

fn look(run: &Run) -> Result<Looked, RunDirError> {
    let episodes = run.probed()?;
    let wanted = &run.recipe.sampling;
    let other: Vec<&(u64, Trace)> = episodes.iter().filter(|(_, trace)| !alike(&trace.sampling, wanted)).collect();
    if let Some((_, first)) = other.first() {
        let count = share(other.len(), episodes.len());
        let says = format!("{count} training episodes were sampled otherwise than the recipe says");
        return Finding::new(Severity::Error, says)
            .line(format!("sampled with {}, the recipe has {}", words(&first.sampling), words(wanted)))
            .traces(other.iter().map(|(number, _)| *number))
            .into();
    }
    let mut looked = !episodes.is_empty();
    for kind in [Kind::Greedy, Kind::Sampled] {
        if let Some(finding) = evaluations(run, kind, &mut looked)? {
            return finding.into();
        }
    }
    if looked { Ok(Looked::Healthy) } else { Looked::skipped("recorded episodes") }
}

/// The first and the last evaluation of a kind.
fn evaluations(run: &Run, kind: Kind, looked: &mut bool) -> Result<Option<Finding>, RunDirError> {
    let of_kind = |event: &Event| match event {
        Event::Eval { step, kind: other, result, traces: [from, to] } if *other == kind => {
            Some((*step, result.as_ref().map(|result| result.temperature), *from..*to))
        }
        _ => None,
    };
    let all: Vec<_> = run.events.iter().filter_map(of_kind).collect();
    let mut before: Option<(u64, SamplingParams)> = None;
    for (step, said, range) in all.iter().take(1).chain(all.iter().skip(1).next_back()) {
        let episodes = run.step_episodes(range)?;
        let Some((number, first)) = episodes.first() else { continue };
        *looked = true;
        let sampling = first.sampling.clone();
        let found = |says: String, traces: Vec<u64>| Some(Finding::new(Severity::Error, says).traces(traces));
        let name = format!("the {} evaluation after step {step}", kind.name());
        if let Some((odd, trace)) = episodes.iter().find(|(_, trace)| !alike(&trace.sampling, &sampling)) {
            let says = format!("{name} has episodes with {} and with {}", words(&sampling), words(&trace.sampling));
            return Ok(found(says, vec![*number, *odd]));
        }
        if kind == Kind::Greedy && sampling.temperature > 0.0 {
            let says = format!("{name} is not greedy: its episodes have {}", words(&sampling));
            return Ok(found(says, vec![*number]));
        }
        if let Some(said) = said.filter(|said| (said - sampling.temperature).abs() > 1e-6) {
            let says = format!("{name} reports temperature {said}, and its episodes have {}", words(&sampling));
            return Ok(found(says, vec![*number]));
        }
        if let Some((earlier, other)) = before.filter(|(_, other)| !alike(other, &sampling)) {
            let says = format!("{name} has {}, that after step {earlier} {}", words(&sampling), words(&other));
            return Ok(found(says, vec![*number]));
        }
        before = Some((*step, sampling));
    }
    Ok(None)
}

fn alike(one: &SamplingParams, other: &SamplingParams) -> bool {
    let near = |a: f32, b: f32| (a - b).abs() < 1e-6;
    near(one.temperature, other.temperature)
        && one.top_k == other.top_k
        && near(one.top_p, other.top_p)
        && near(one.min_p, other.min_p)
}

fn words(sampling: &SamplingParams) -> String {
    let SamplingParams { temperature, top_k, top_p, min_p, .. } = sampling;
    let mut words = format!("temperature {temperature}");
    for (name, on, value) in [
        ("top_k", *top_k != 0, top_k.to_string()),
        ("top_p", *top_p < 1.0, top_p.to_string()),
        ("min_p", *min_p > 0.0, min_p.to_string()),
    ] {
        if on {
            words += &format!(", {name} {value}");
        }
    }
    words
}
