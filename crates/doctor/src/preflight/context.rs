use hone_chat::budget::PromptCost;
use hone_trace::rundir::RunDirError;

use crate::check::{Check, Finding, Looked, Severity};
use crate::checks::share;
use crate::probe::Probe;

pub(super) const CHECK: Check<Probe> = Check {
    name: "context",
    what: "The window does not hold an episode.",
    measure: "Tokens of the first prompt, of the tools in it and of one reply against rollout.window, the model's \
              own window (warning), and the references' turns against rollout.max_turns. Error where no episode can \
              be finished, warning where the prompt leaves no full reply or most references do not fit, note where \
              tools take over half of the window.",
    fix: "Raise rollout.window or rollout.max_turns, offer fewer tools, or shorten the system prompt.",
    explains: &["truncated", "no_signal", "unscored", "faulted", "no_calls"],
    look,
};

fn look(probe: &Probe) -> Result<Looked, RunDirError> {
    let (rollout, sampling) = (&probe.recipe.rollout, &probe.recipe.sampling);
    // The model's own limit holds whatever the recipe says.
    let made_for = probe.texts.known().and_then(|texts| texts.context_window).unwrap_or(usize::MAX);
    let window = rollout.window.min(made_for);
    let Some(world) = probe.world.known() else { return probe.world.skipped("an environment that opens") };
    let rendered = world.openings.iter().filter_map(|opening| Some((opening, opening.rendered.known()?)));
    let Some((opening, longest)) = rendered.max_by_key(|(_, rendered)| rendered.tokens) else {
        return Looked::skipped("a rendered prompt");
    };
    let parts = longest.cost.map(|cost| {
        let PromptCost { system, tools, task, scaffold, total } = cost;
        format!("system {system} + tools {tools} + task {task} + template {scaffold} = {total} tokens")
    });
    if longest.tokens >= window {
        let fix = if made_for < rollout.window { "take a model with a longer window" } else { "raise rollout.window" };
        let says =
            format!("{}: its first prompt takes {} tokens of a window of {window}; {fix}", opening.env, longest.tokens);
        return Finding::new(Severity::Error, says).lines(parts).into();
    }
    if made_for < rollout.window {
        let says = format!("rollout.window is {}, and the model was made for {made_for} tokens", rollout.window);
        let fix = format!("Set rollout.window to {made_for}, so that an episode is cut where it ends anyway.");
        return Finding::new(Severity::Warning, says).fix(fix).into();
    }
    let left = window - longest.tokens;
    if let Some(found) = turns(probe) {
        return Ok(Looked::Found(found));
    }
    if left < sampling.max_new_tokens as usize {
        let says =
            format!("the prompt leaves {left} tokens of {window}, and a reply may take {}", sampling.max_new_tokens);
        return Finding::new(Severity::Warning, says).lines(parts).into();
    }
    match longest.cost.filter(|cost| 2 * cost.tools > window) {
        Some(cost) => {
            let says = format!("the tools take {} of {window} tokens", cost.tools);
            Finding::new(Severity::Note, says).lines(parts).into()
        }
        None => Ok(Looked::Healthy),
    }
}

/// References that need more turns than an episode has.
fn turns(probe: &Probe) -> Option<Finding> {
    let most = probe.recipe.rollout.max_turns as usize;
    let scripts = probe.world.known()?.scripts.known()?;
    let ended = scripts.references.iter().filter(|reference| reference.done);
    let long: Vec<_> = ended.filter(|reference| reference.turns.len() > most).collect();
    let longest = long.iter().map(|reference| reference.turns.len()).max()?;
    let severity = match (long.len(), scripts.references.len()) {
        (long, all) if long == all => Severity::Error,
        (long, all) if 2 * long >= all => Severity::Warning,
        _ => return None,
    };
    let says = format!(
        "the references of {} take more turns than rollout.max_turns = {most}",
        share(long.len(), scripts.references.len())
    );
    let finding = Finding::new(severity, says).line(format!("the longest takes {longest}"));
    Some(finding.fix(format!("Set rollout.max_turns to at least {longest}.")))
}
