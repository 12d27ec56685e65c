//! Alignment of the tool calls of two episodes: kept, added, removed, or with other arguments.

use hone_trace::{ToolCall, Trace};
use serde::Serialize;
use serde_json::Value;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mark {
    Same,
    /// The same tool with other arguments.
    Changed,
    Gone,
    New,
}

/// One line of an alignment.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Step {
    pub mark: Mark,
    pub tool: String,
    /// Arguments before and after, if there is a call.
    pub arguments: [Option<Value>; 2],
}

impl Step {
    /// `- cancel {"id": 1}`.
    pub fn line(&self) -> String {
        let sign = match self.mark {
            Mark::Same => '=',
            Mark::Changed => '~',
            Mark::Gone => '-',
            Mark::New => '+',
        };
        let shown: Vec<String> = match &self.arguments {
            [Some(before), Some(after)] if self.mark == Mark::Changed => {
                vec![before.to_string(), "→".into(), after.to_string()]
            }
            arguments => arguments.iter().flatten().take(1).map(Value::to_string).collect(),
        };
        format!("{sign} {} {}", self.tool, shown.join(" "))
    }
}

/// Longest common subsequence of the calls that were run: equal calls before calls of the same tool.
pub fn align(before: &Trace, after: &Trace) -> Vec<Step> {
    let (a, b) = (run(before), run(after));
    let worth = |x: &ToolCall, y: &ToolCall| match (x.name == y.name, x.arguments == y.arguments) {
        (true, true) => 3,
        (true, false) => 1,
        _ => 0,
    };
    let mut best = vec![vec![0u32; b.len() + 1]; a.len() + 1];
    for i in (0..a.len()).rev() {
        for j in (0..b.len()).rev() {
            let paired = worth(&a[i], &b[j]);
            let together = if paired > 0 { best[i + 1][j + 1] + paired } else { 0 };
            best[i][j] = best[i + 1][j].max(best[i][j + 1]).max(together);
        }
    }
    let (mut i, mut j, mut steps) = (0, 0, Vec::new());
    let step = |mark, tool: &str, before: Option<&ToolCall>, after: Option<&ToolCall>| Step {
        mark,
        tool: tool.to_owned(),
        arguments: [before, after].map(|call| call.map(|call| Value::Object(call.arguments.clone()))),
    };
    while i < a.len() || j < b.len() {
        let paired = if i < a.len() && j < b.len() { worth(&a[i], &b[j]) } else { 0 };
        if paired > 0 && best[i][j] == best[i + 1][j + 1] + paired {
            let mark = if paired == 3 { Mark::Same } else { Mark::Changed };
            steps.push(step(mark, &a[i].name, Some(&a[i]), Some(&b[j])));
            (i, j) = (i + 1, j + 1);
        } else if j == b.len() || (i < a.len() && best[i + 1][j] >= best[i][j + 1]) {
            steps.push(step(Mark::Gone, &a[i].name, Some(&a[i]), None));
            i += 1;
        } else {
            steps.push(step(Mark::New, &b[j].name, None, Some(&b[j])));
            j += 1;
        }
    }
    steps
}

/// Maximum calls of an episode that are aligned: a policy in a loop makes thousands.
const MOST: usize = 200;

fn run(trace: &Trace) -> Vec<ToolCall> {
    let calls = trace.turns.iter().flat_map(|turn| turn.calls.iter().take(turn.executed as usize));
    calls.take(MOST).cloned().collect()
}

#[cfg(test)]
mod tests {
    use hone_trace::Outcome;
    use serde_json::json;

    use super::*;
    use crate::detect::testing::{call, trace};

    #[test]
    fn calls_are_aligned_like_lines_of_a_diff() {
        let before = [
            call("find", json!({"q": 1})),
            call("get", json!({"id": 1})),
            call("get", json!({"id": 1})),
            call("cancel", json!({"id": 2})),
        ];
        let after = [
            call("find", json!({"q": 1})),
            call("get", json!({"id": 1})),
            call("ask", json!({})),
            call("cancel", json!({"id": 1})),
        ];
        let steps = align(&trace(&before, Outcome::Finished, 0.0), &trace(&after, Outcome::Finished, 1.0));
        let lines: Vec<String> = steps.iter().map(Step::line).collect();
        assert_eq!(
            lines,
            [
                "= find {\"q\":1}",
                "= get {\"id\":1}",
                "- get {\"id\":1}",
                "+ ask {}",
                "~ cancel {\"id\":2} → {\"id\":1}"
            ]
        );
        assert_eq!(align(&trace(&[], Outcome::Finished, 0.0), &trace(&[], Outcome::Finished, 0.0)), []);
    }
}
