//! A trace for people: text for the terminal, with or without colour.
//!
//! Ids become text here and nowhere on the path to the loss. Model output is hostile: control characters, which could
//! move the cursor or rewrite the screen, are shown as escapes.

use std::fmt::{self, Write as _};

pub use hone_trace::clean;
use hone_trace::{Node, Origin, Outcome, Trace, TurnRecord, Verdict};

/// Settings for showing a trace. `decode` turns ids into text, special tokens included.
pub struct Show<'a> {
    pub decode: &'a dyn Fn(&[u32]) -> String,
    pub colour: bool,
    /// Maximum length of a text: a longer one is cut in the middle, and the cut is marked. `None` shows everything.
    pub max_chars: Option<usize>,
}

impl fmt::Debug for Show<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Show").field("colour", &self.colour).field("max_chars", &self.max_chars).finish_non_exhaustive()
    }
}

#[derive(Clone, Copy)]
enum Ink {
    Head,
    Agent,
    World,
    Good,
    Bad,
    Dim,
}

impl Show<'_> {
    pub fn trace(&self, trace: &Trace) -> String {
        let mut out = String::new();
        let title = format!("{}/{}  replica {}  seed {}", trace.env, trace.task, trace.replica, trace.seed);
        let ink = if matches!(trace.outcome, Outcome::Finished) { Ink::Good } else { Ink::Bad };
        let _ = writeln!(
            out,
            "{}  {}",
            self.ink(Ink::Head, &clean(&title)),
            self.ink(ink, &clean(&outcome(&trace.outcome)))
        );
        for (index, node) in trace.nodes().iter().enumerate() {
            self.node(&mut out, trace, node);
            for turn in trace.turns.iter().filter(|turn| turn.node == index) {
                self.turn(&mut out, turn);
            }
        }
        self.rewards(&mut out, trace);
        out
    }

    fn node(&self, out: &mut String, trace: &Trace, node: &Node) {
        let count = node.tokens().len();
        let (ink, label) = match node.origin() {
            Origin::Prompt { .. } => (Ink::Dim, format!("prompt · {count} tokens · {} tools", trace.tools().len())),
            Origin::Observation => (Ink::World, format!("world · {count} tokens")),
            Origin::Forced => (Ink::Dim, format!("forced · {count} tokens")),
            Origin::Sampled(sampled) => {
                let mean = sampled.logprobs.iter().sum::<f32>() / count.max(1) as f32;
                let step = sampled.versions.last().map_or(0, |(version, _)| version.step);
                (Ink::Agent, format!("agent · {count} tokens · mean logprob {mean:.3} · policy step {step}"))
            }
        };
        let _ = writeln!(out, "{}", self.ink(ink, &format!("── {label}")));
        let text = clean(&(self.decode)(node.tokens()));
        let _ = writeln!(out, "{}", self.cut(text.trim_end()));
    }

    fn turn(&self, out: &mut String, turn: &TurnRecord) {
        for (index, call) in turn.calls.iter().enumerate() {
            let arguments = serde_json::Value::Object(call.arguments.clone());
            let line = self.cut(&clean(&format!("→ {} {arguments}", call.name)));
            let ran = if index < turn.executed as usize { "" } else { "  (did not run)" };
            let _ = writeln!(out, "   {}{ran}", self.ink(Ink::Agent, &line));
        }
        if turn.failed > 0 {
            let _ = writeln!(
                out,
                "   {}",
                self.ink(Ink::Bad, &format!("{} of {} calls failed", turn.failed, turn.executed))
            );
        }
        if let Some(failure) = &turn.failure {
            let _ = writeln!(out, "   {}", self.ink(Ink::Bad, &clean(&failure.to_string())));
        }
        if !turn.repairs.is_empty() {
            let _ = writeln!(out, "   {}", self.ink(Ink::Dim, &format!("repaired: {}", turn.repairs.join(", "))));
        }
    }

    fn rewards(&self, out: &mut String, trace: &Trace) {
        if trace.rewards.is_empty() {
            return;
        }
        let _ = writeln!(out, "{}", self.ink(Ink::Head, "── rewards"));
        let width = trace.rewards.iter().map(|reward| reward.component.len()).max().unwrap_or(0);
        for reward in &trace.rewards {
            let (ink, value) = match &reward.verdict {
                Verdict::Scored { value, .. } if *value > 0.0 => (Ink::Good, format!("{value:>8.3}")),
                Verdict::Scored { value, .. } => (Ink::Bad, format!("{value:>8.3}")),
                Verdict::NotApplicable { .. } | Verdict::Unscored { .. } => (Ink::Dim, "unscored".to_owned()),
            };
            let why = self.cut(&clean(reward.why()));
            let _ = writeln!(out, "   {:width$}  {}  {why}", clean(&reward.component), self.ink(ink, &value));
        }
    }

    fn ink(&self, ink: Ink, text: &str) -> String {
        if !self.colour {
            return text.to_owned();
        }
        let code = match ink {
            Ink::Head => "1",
            Ink::Agent => "36",
            Ink::World => "33",
            Ink::Good => "32",
            Ink::Bad => "31",
            Ink::Dim => "2",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }

    fn cut(&self, text: &str) -> String {
        let count = text.chars().count();
        match self.max_chars {
            Some(limit) if count > limit => {
                let head: String = text.chars().take(limit / 2).collect();
                let tail: String = text.chars().skip(count - (limit - limit / 2)).collect();
                format!("{head} … {} characters … {tail}", count - limit)
            }
            _ => text.to_owned(),
        }
    }
}

fn outcome(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Finished => "finished".into(),
        Outcome::Truncated { limit } => format!("truncated ({limit})"),
        Outcome::Malformed { failure } => format!("malformed ({})", failure.kind),
        Outcome::Fault { fault } => format!("fault ({fault})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hone_trace::{Digest, PolicyVersion, Reward, Sampled, SamplingParams, ToolSet, TraceBuilder, TraceHead};
    use std::sync::Arc;

    fn trace() -> Trace {
        let head = TraceHead {
            task: "t".into(),
            env: "echo".into(),
            replica: 1,
            seed: 2,
            tools: Arc::new(ToolSet::none()),
            sampling: SamplingParams::default(),
        };
        let mut builder = TraceBuilder::new(head, vec![104, 105]);
        let version = PolicyVersion { run: "r".into(), step: 4, weights: Digest::of(b"w") };
        builder.push(Node::sampled(vec![27, 91, 50, 74], Sampled::by(version, vec![-0.5; 4])).unwrap());
        builder.record(TurnRecord::default());
        let mut trace = builder.finish(Outcome::Finished);
        trace.rewards = vec![Reward::scored("success", 1.0, "state matches"), Reward::unscored("judge", "timed out")];
        trace
    }

    #[test]
    fn hostile_bytes_do_not_reach_the_terminal() {
        let decode = |ids: &[u32]| ids.iter().map(|id| char::from(*id as u8)).collect();
        let plain = Show { decode: &decode, colour: false, max_chars: None }.trace(&trace());
        assert!(!plain.contains('\x1b'), "{plain:?}");
        assert!(
            plain.contains("\\u{1b}[2J") && plain.contains("policy step 4") && plain.contains("timed out"),
            "{plain}"
        );
    }

    #[test]
    fn a_cut_says_how_much() {
        let decode = |_: &[u32]| "x".repeat(100);
        let text = Show { decode: &decode, colour: true, max_chars: Some(10) }.trace(&trace());
        assert!(text.contains("xxxxx … 90 characters … xxxxx"), "{text}");
    }
}
