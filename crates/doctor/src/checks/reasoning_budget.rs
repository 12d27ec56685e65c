use hone_trace::rundir::RunDirError;
use hone_trace::{Limit, Message, Outcome};

use crate::check::{Check, Finding, Looked, Severity};
use crate::checks::share;
use crate::run::{Run, messages, text};

pub(super) const CHECK: Check = Check {
    name: "reasoning_budget",
    what: "Reasoning takes the tokens that acting needs.",
    measure: "Replies of probed episodes cut by sampling.max_new_tokens in the middle of reasoning. Warning from 10 \
              %, error from 60 %.",
    fix: "Raise sampling.max_new_tokens, or ask for less reasoning (a template variable such as enable_thinking, or \
          a length component).",
    explains: &["truncated", "parse_failures", "no_signal"],
    look,
};

fn look(run: &Run) -> Result<Looked, RunDirError> {
    let (mut all, mut cut) = (0usize, Vec::new());
    for (number, trace) in run.probed()? {
        let Some(messages) = messages(&trace) else { continue };
        all += messages.iter().filter(|message| matches!(message, Message::Assistant { .. })).count();
        let last = messages.iter().rev().find(|message| matches!(message, Message::Assistant { .. }));
        let open = |message: &Message| {
            let said = text(message);
            let opened = ["<think>", "<thinking>", "<reasoning>"].iter().any(|tag| said.contains(tag));
            let closed = ["</think>", "</thinking>", "</reasoning>"].iter().any(|tag| said.contains(tag));
            let bare = matches!(message, Message::Assistant { reasoning: Some(_), .. }) && said.is_empty();
            (opened && !closed) || bare
        };
        let stopped = matches!(trace.outcome, Outcome::Truncated { limit: Limit::ReplyTokens });
        if stopped && last.is_some_and(open) {
            cut.push(number);
        }
    }
    if all == 0 {
        return Looked::skipped("recorded conversations");
    }
    let episodes = run.probed()?.len();
    let rate = cut.len() as f64 / episodes.max(1) as f64;
    if rate < 0.1 {
        return Ok(Looked::Healthy);
    }
    let severity = if rate < 0.6 { Severity::Warning } else { Severity::Error };
    Finding::new(severity, format!("{} episodes end in the middle of reasoning", share(cut.len(), episodes)))
        .line(format!("sampling.max_new_tokens is {}", run.recipe.sampling.max_new_tokens))
        .traces(cut)
        .into()
}
