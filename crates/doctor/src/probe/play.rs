//! Episodes of the start policy, as training would play them.

use std::time::{Duration, Instant};

use hone_chat::parse::{Format, Toolbox, parse};
use hone_trace::{Group, Seed, Task, Trace};
use hone_train::evaluate::entropy;
use hone_train::recipe::Recipe;
use hone_train::setup::Setup;

use super::{Played, Reply};

/// Groups of a probe, and episodes of each.
const GROUPS: usize = 12;
const SIZE: u32 = 8;
/// Replies that are read again in every format.
const REPLIES: usize = 256;

pub(super) async fn groups(setup: &Setup, recipe: &Recipe, limit: Duration) -> Played {
    let clock = Instant::now();
    let mut rollouts = setup.rollouts(recipe, setup.engine.sampler(), recipe.sampling.temperature);
    // A probe says what breaks instead of waiting for it to get better.
    rollouts.settings.attempts = 1;
    let seed = Seed::root(recipe.seed).with("check");
    let spread = setup.tasks.len().div_ceil(GROUPS).max(1);
    let tasks: Vec<&Task> = setup.tasks.iter().step_by(spread).take(GROUPS).collect();
    let size = recipe.train.group_size.clamp(2, SIZE);
    let mut played = Played::default();
    let mut rest = tasks.as_slice();
    while !rest.is_empty() {
        // One group shows how long they take; then as many at once as there is time for.
        let spent = clock.elapsed();
        let left = limit.saturating_sub(spent).as_secs_f64();
        let each = spent.as_secs_f64() / played.groups.len().max(1) as f64;
        let fit = if played.groups.is_empty() { 1 } else { (left / each.max(1e-3)) as usize };
        if fit == 0 {
            break;
        }
        let (now, later) = rest.split_at(fit.min(rest.len()));
        let groups = rollouts.groups(now, size, seed).await;
        played.groups.extend(groups.iter().map(|group| group.all().cloned().collect::<Vec<Trace>>()));
        rest = later;
    }
    played.seconds = clock.elapsed().as_secs_f64();
    played.entropy = entropy(played.groups.iter().flatten());
    played.turns = played.groups.iter().flatten().map(|trace| trace.turns.len()).sum();
    played.replies = replies(setup, &played);
    played
}

/// Replies without a call, and the formats in which they would be one.
fn replies(setup: &Setup, played: &Played) -> Vec<Reply> {
    let mut replies = Vec::new();
    for (number, trace) in played.episodes() {
        let Ok(toolbox) = Toolbox::new(trace.tools()) else { continue };
        for turn in trace.turns.iter().filter(|turn| turn.calls.is_empty()) {
            let Some(node) = trace.nodes().get(turn.node) else { continue };
            let text = setup.renderer.tokenizer().decode(node.tokens()).unwrap_or_default();
            if replies.len() == REPLIES {
                return replies;
            }
            let valid = |format: &Format| {
                let parsed = parse(&text, &toolbox, Some(*format));
                parsed.error.is_none() && !parsed.calls.is_empty()
            };
            let formats = Format::ALL.into_iter().filter(valid).collect();
            replies.push(Reply { trace: number, text: text.clone(), failure: turn.failure.clone(), formats });
        }
    }
    replies
}

/// Groups as training packs them.
pub(super) fn regroup(groups: &[Vec<Trace>]) -> Vec<Group> {
    groups.iter().map(|traces| Group::new(traces.clone())).collect()
}
