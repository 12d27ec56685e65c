use hone_arena::rewards::TOTAL;
use hone_trace::{Limit, Outcome};

use crate::evidence::{Evidence, Played};
use crate::law::{Breach, Checked, Law, LawText, Severity};
use crate::probe::Role;

/// The solutions can be played.
#[derive(Debug)]
pub(super) struct SolutionFits;

impl Law for SolutionFits {
    fn about(&self) -> LawText {
        LawText {
            name: "solution_fits",
            law: "The tasks' own solutions fit the recipe's limits: what cannot be played cannot be learned, and says nothing \
                  about rewards.",
            measure: "Episodes of the solution that a limit of turns or tokens cuts short: all of them.",
            repair: "Raise the limit that is named: `rollout.window`, `sampling.max_new_tokens`, `rollout.max_turns`, \
                     `rollout.episode_output_tokens`.",
            explains: &["has_values", "oracle_is_best", "defect_costs", "blind_weight", "floor", "honest_work"],
        }
    }

    fn check(&self, evidence: &Evidence) -> Checked {
        let solutions: Vec<&Played> = evidence.episodes().filter(|played| played.role == Role::Oracle).collect();
        let cut: Vec<(&Played, Limit)> =
            solutions.iter().filter_map(|played| Some((*played, limit(&played.trace.outcome)?))).collect();
        let Some((first, limit)) = cut.first() else {
            return if solutions.is_empty() {
                Checked::Skipped("tasks with a reference".into())
            } else {
                Checked::Holds
            };
        };
        if cut.len() < solutions.len() {
            return Checked::Holds;
        }
        let prompt = first.trace.nodes().first().map_or(0, |node| node.tokens().len());
        let says = if prompt >= evidence.window {
            format!("no solution can be played: the first prompt takes {prompt} of {} tokens", evidence.window)
        } else {
            format!("no solution can be played to its end: the limit of {limit} cuts it short")
        };
        let line = format!("{} episodes of the solution; raise {}", cut.len(), key(*limit));
        Checked::Broken(vec![Breach::new(Severity::Error, TOTAL, says).line(line)])
    }
}

fn limit(outcome: &Outcome) -> Option<Limit> {
    match outcome {
        Outcome::Truncated { limit } => {
            Some(*limit).filter(|limit| !matches!(limit, Limit::WallTime | Limit::CrashingCall))
        }
        _ => None,
    }
}

/// The recipe's key of a limit.
fn key(limit: Limit) -> &'static str {
    match limit {
        Limit::Turns => "rollout.max_turns",
        Limit::ReplyTokens => "sampling.max_new_tokens",
        Limit::ToolOutput => "rollout.episode_output_tokens",
        Limit::Context | Limit::WallTime | Limit::CrashingCall => "rollout.window",
    }
}
