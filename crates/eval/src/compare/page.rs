//! A comparison as a page.

use std::fmt::Write as _;

use hone_arena::show::clean;
use hone_data::table::Table;
use hone_trace::signed;
use hone_train::evaluate::Difference;

use super::{Behaviour, Comparison};

impl Comparison {
    pub fn verdict(&self) -> String {
        let (Some(Difference { mean, ci: [low, high], tasks }), Some(p)) = (self.difference, self.p_value) else {
            return "The two have no scored task in common.".into();
        };
        let word = match (low > 0.0, high < 0.0) {
            (true, _) => "B is better",
            (_, true) => "B is worse",
            _ => "no difference is shown",
        };
        let [mean, low, high] = [mean, low, high].map(signed);
        format!("{word}: {mean} (95 % {low} to {high}, {tasks} tasks, sign-flip p = {p:.4})")
    }

    pub fn summary(&self) -> Table {
        let tokens = self.rows.iter().any(|row| row.spent.is_some());
        let cost = self.rows.iter().any(|row| row.spent.is_some_and(|spent| spent.cost.is_some()));
        let mut head = vec!["", "pass@1", "95 %", "passed", "reward"];
        head.extend(tokens.then_some("tokens per solved"));
        head.extend(cost.then_some("cost per solved"));
        head.extend(["unscored", "faults"]);
        let mut table = Table::new(head);
        for (letter, (name, row)) in ["A", "B"].into_iter().zip(self.names.iter().zip(&self.rows)) {
            let (mean, ci) = row.pass().map_or(("–".into(), "–".into()), |pass| {
                (format!("{:.3}", pass.mean), format!("{:.3} to {:.3}", pass.ci[0], pass.ci[1]))
            });
            let reward = row.reward.map_or_else(|| "–".into(), |reward| format!("{:.3}", reward.mean));
            let passed = format!("{} of {}", row.passed, row.scored);
            let mut cells = vec![format!("{letter} {name}"), mean, ci, passed, reward];
            cells.extend(tokens.then(|| row.tokens_per_solved()));
            cells.extend(cost.then(|| row.cost_per_solved()));
            cells.extend([row.unscored.to_string(), row.faults.to_string()]);
            table.row(cells);
        }
        table
    }

    pub(crate) fn behaviours(&self) -> Table {
        let head = ["behaviour", "A", "B", "rarer in", "success there", "more in", "success there", "of the change"];
        let mut table = Table::new(head);
        for behaviour in &self.behaviour {
            let Behaviour { name, mean, change, .. } = behaviour;
            if mean.iter().flatten().all(|value| *value == 0.0) {
                continue;
            }
            let number = |value: Option<f64>| value.map_or_else(|| "–".into(), |value| format!("{value:.2}"));
            let signed = |value: Option<f64>| value.map_or_else(|| "–".into(), |value| format!("{value:+.2}"));
            let mut cells = vec![(*name).to_owned(), number(mean[0]), number(mean[1])];
            match change {
                Some(change) => {
                    let [rarer, more] = change.tasks;
                    cells.extend([rarer.to_string(), signed(change.gain[0]), more.to_string(), signed(change.gain[1])]);
                    cells.push(change.share.map_or_else(|| "–".into(), |share| format!("{:.0} %", share * 100.0)));
                }
                None => cells.extend(["–", "–", "–", "–", "–"].map(str::to_owned)),
            }
            table.row(cells);
        }
        table
    }

    /// The page, for the terminal or as Markdown.
    pub fn page(&self, markdown: bool) -> String {
        let shown = |table: Table| if markdown { table.markdown() } else { table.text() };
        let title = |text: &str| if markdown { format!("\n## {text}\n\n") } else { format!("\n{text}\n") };
        let mut page = if markdown { "# Comparison\n\n".to_owned() } else { String::new() };
        let _ = writeln!(page, "{}\n", self.verdict());
        page += &shown(self.summary());
        if self.only != [0, 0] {
            let _ = writeln!(
                page,
                "\nNot compared: {} tasks only A was scored on, {} only B was.",
                self.only[0], self.only[1]
            );
        }
        page += &title("Behaviour");
        page += "Shares of episodes that show it (for turns and calls: means), tasks in which it became rarer or more frequent, and how \
                 success changed in those.\n\n";
        page += &shown(self.behaviours());
        self.explanation(&mut page);
        self.sightings(&mut page, &title("Examples"));
        for example in &self.examples {
            let [before, after] = example.success;
            page += &title(&format!("Task {}: {before:.2} to {after:.2}", clean(&example.task)));
            let _ = writeln!(page, "Trace {} of A, {} of B.\n", example.traces[0], example.traces[1]);
            let fence = if markdown { "```\n" } else { "" };
            page += fence;
            for step in &example.calls {
                let line: String = clean(&step.line()).chars().take(300).collect();
                let _ = writeln!(page, "{line}");
            }
            page += fence;
        }
        page
    }

    fn explanation(&self, page: &mut String) {
        let explaining = self.explaining();
        if explaining.is_empty() {
            return;
        }
        let share = |behaviour: &Behaviour| behaviour.change.as_ref().and_then(|change| change.share).unwrap_or(0.0);
        let named: Vec<String> = explaining
            .iter()
            .take(3)
            .map(|behaviour| format!("{} ({:.0} %)", behaviour.name, 100.0 * share(behaviour)))
            .collect();
        let _ = writeln!(
            page,
            "\nThe change in success is most associated with {}. Tasks can show several; a share says where success changed, not why.",
            named.join(", then ")
        );
    }

    fn sightings(&self, page: &mut String, title: &str) {
        let mut lines = Vec::new();
        for behaviour in &self.behaviour {
            for (letter, example) in ["A", "B"].into_iter().zip(&behaviour.examples) {
                if let Some(sighted) = example {
                    let what = clean(&sighted.what).replace('\n', " ");
                    let task = clean(&sighted.task);
                    lines.push(format!(
                        "- {} in {letter}, trace {} (task {task}): {what}\n",
                        behaviour.name, sighted.trace
                    ));
                }
            }
        }
        if !lines.is_empty() {
            *page += title;
            page.extend(lines);
        }
    }
}

#[cfg(test)]
mod tests {
    use hone_trace::{Limit, Message, Outcome, Trace};
    use serde_json::json;

    use crate::compare::{Comparison, Side};
    use crate::detect::testing::{call, trace};
    use crate::table::Passing;

    fn of_task(number: usize, mut trace: Trace) -> Trace {
        trace.task = format!("t{number}");
        trace
    }

    /// Half of the tasks stopped looping and then passed; the others stayed as they were.
    #[test]
    fn the_behaviour_that_goes_with_the_change_is_named() {
        let looping = || {
            let read = call("read", json!({}));
            let answer = Message::tool("read", "x");
            let messages = [read.clone(), answer.clone(), read.clone(), answer.clone(), read, answer];
            trace(&messages, Outcome::Truncated { limit: Limit::Turns }, 0.0)
        };
        let straight = || {
            trace(
                &[call("read", json!({})), Message::tool("read", "x"), Message::assistant("Done.")],
                Outcome::Finished,
                1.0,
            )
        };
        let before: Vec<Trace> = (0..20).map(|at| of_task(at, if at < 10 { looping() } else { straight() })).collect();
        let after: Vec<Trace> = (0..20).map(|at| of_task(at, straight())).collect();
        let passing = Passing { component: "s".into(), at_least: 1.0 };
        let sides = [
            Side { name: "a", traces: &before, first: 0, price: None },
            Side { name: "b", traces: &after, first: 100, price: None },
        ];
        let comparison = Comparison::of(sides, &passing, 2);
        let difference = comparison.difference.unwrap();
        assert!((difference.mean - 0.5).abs() < 1e-12 && difference.is_gain());
        assert!(comparison.p_value.unwrap() < 0.01);
        let names: Vec<&str> = comparison.explaining().iter().map(|behaviour| behaviour.name).collect();
        assert!(names.contains(&"identical repeats") && names.contains(&"limit hit"), "{names:?}");
        assert!(!names.contains(&"invented ids"), "{names:?}");
        assert!(!["turns", "calls"].contains(&names[0]), "fewer turns are no explanation: {names:?}");
        let repeats = comparison.behaviour.iter().find(|behaviour| behaviour.name == "identical repeats").unwrap();
        let change = repeats.change.as_ref().unwrap();
        assert_eq!((change.tasks, change.share), ([10, 0], Some(1.0)));
        assert_eq!(repeats.examples[0].as_ref().map(|sighted| sighted.trace), Some(0));
        assert_eq!((comparison.examples.len(), comparison.examples[0].traces), (2, [0, 100]));
        let page = comparison.page(true);
        assert!(page.contains("B is better") && page.contains("- read"), "{page}");
    }

    #[test]
    fn the_same_evaluation_twice_shows_nothing() {
        let one: Vec<Trace> = (0..6)
            .map(|at| of_task(at, trace(&[Message::assistant("x")], Outcome::Finished, f64::from(at as u32 % 2))))
            .collect();
        let passing = Passing { component: "s".into(), at_least: 1.0 };
        let side = Side { name: "a", traces: &one, first: 0, price: None };
        let comparison = Comparison::of([side, side], &passing, 3);
        assert_eq!((comparison.p_value, comparison.examples.len(), comparison.explaining().len()), (Some(1.0), 0, 0));
        assert!(comparison.verdict().starts_with("no difference is shown"));
        let other: Vec<Trace> = Vec::new();
        let none = Comparison::of([side, Side { name: "b", traces: &other, first: 0, price: None }], &passing, 3);
        assert_eq!((none.tasks, none.only, none.difference), (0, [6, 0], None));
    }
}
