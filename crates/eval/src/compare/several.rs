//! Several evaluations in one table, on the tasks that all of them were scored on: a small trained model beside large
//! models off the shelf.

use std::collections::BTreeSet;

use hone_data::table::Table;
use hone_trace::{rounded, signed};
use hone_train::evaluate::{Difference, paired};
use serde::Serialize;

use super::{ByTask, success};
use crate::spent::Price;
use crate::table::{Episode, Passing, Row};
use hone_train::interval::bootstrap::sign_flip;

/// One evaluation among several.
#[derive(Debug, Clone)]
pub struct Entrant {
    pub name: String,
    pub episodes: Vec<Episode>,
    pub price: Option<Price>,
}

/// A row of the table.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Standing {
    pub name: String,
    pub row: Row,
    /// Difference from the first, paired by task, with a sign-flip test. Absent for the first itself.
    pub difference: Option<Difference>,
    pub p_value: Option<f64>,
    /// Tasks that it was scored on but others were not.
    pub left_out: usize,
}

/// The whole table.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Several {
    pub passing: Passing,
    /// Tasks that all were scored on.
    pub tasks: usize,
    pub standings: Vec<Standing>,
}

impl Several {
    pub fn of(entrants: &[Entrant], passing: Passing) -> Self {
        let scored: Vec<ByTask> = entrants.iter().map(|entrant| success(&entrant.episodes)).collect();
        let all = |task: &&String| scored.iter().all(|tasks| tasks.contains_key(*task));
        let common: BTreeSet<&String> = scored.first().into_iter().flat_map(ByTask::keys).filter(all).collect();
        let only_common = |tasks: &ByTask| -> ByTask {
            tasks.iter().filter(|(task, _)| common.contains(task)).map(|(task, share)| (task.clone(), *share)).collect()
        };
        let first = scored.first().map(only_common).unwrap_or_default();
        let standing = |(at, entrant): (usize, &Entrant)| {
            let own = only_common(&scored[at]);
            let differences: Vec<f64> = own.iter().map(|(task, share)| share - first[task]).collect();
            let episodes = entrant.episodes.iter().filter(|episode| common.contains(&episode.task));
            Standing {
                name: entrant.name.clone(),
                row: Row::priced(episodes, &[1], entrant.price),
                difference: paired(&first, &own).filter(|_| at > 0),
                p_value: sign_flip(&differences).filter(|_| at > 0),
                left_out: scored[at].len() - common.len(),
            }
        };
        let standings = entrants.iter().enumerate().map(standing).collect();
        Self { passing, tasks: common.len(), standings }
    }

    pub fn table(&self) -> Table {
        let mut table = Table::new([
            "policy",
            "pass@1",
            "95 %",
            "passed",
            "reward",
            "tokens per solved",
            "cost per solved",
            "less the first",
            "95 %",
            "p",
            "unscored",
            "faults",
        ]);
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "–".into());
        for Standing { name, row, difference, p_value, .. } in &self.standings {
            let pass = row.pass();
            table.row([
                name.clone(),
                or_dash(pass.map(|pass| format!("{:.3}", pass.mean))),
                or_dash(pass.map(|pass| format!("{:.3} to {:.3}", pass.ci[0], pass.ci[1]))),
                format!("{} of {}", row.passed, row.scored),
                or_dash(row.reward.map(|reward| format!("{:.3}", rounded(reward.mean, 3)))),
                row.tokens_per_solved(),
                row.cost_per_solved(),
                or_dash(difference.map(|difference| signed(difference.mean))),
                or_dash(difference.map(|difference| difference.ci.map(signed).join(" to "))),
                or_dash(p_value.map(|p| format!("{p:.4}"))),
                row.unscored.to_string(),
                row.faults.to_string(),
            ]);
        }
        table
    }

    /// The page, for the terminal or as Markdown.
    pub fn page(&self, markdown: bool) -> String {
        let Passing { component, at_least } = &self.passing;
        let left_out: usize = self.standings.iter().map(|standing| standing.left_out).sum();
        let left = if left_out > 0 {
            format!(" {left_out} scores of tasks that not all were scored on are left out.")
        } else {
            String::new()
        };
        let about = format!(
            "On the {} tasks that all were scored on. An episode passes where {component} is at least {at_least}; differences \
             are paired by task, p by a sign-flip test. A solved task pays for the failures, too.{left}",
            self.tasks
        );
        if markdown {
            format!("# Comparison\n\n{about}\n\n{}", self.table().markdown())
        } else {
            format!("{}\n{about}\n", self.table().text())
        }
    }
}

#[cfg(test)]
mod tests {
    use hone_trace::Usage;

    use super::*;

    fn entrant(name: &str, passed: &[(&str, bool)], tokens: u64, price: Option<Price>) -> Entrant {
        let episode = |(task, passed): &(&str, bool)| Episode {
            task: (*task).into(),
            fault: false,
            passed: Some(*passed),
            reward: Some(f64::from(u8::from(*passed))),
            usage: (tokens > 0).then_some(Usage { prompt: tokens, completion: 0 }),
        };
        Entrant { name: name.into(), episodes: passed.iter().map(episode).collect(), price }
    }

    #[test]
    fn all_stand_on_the_tasks_they_share_and_a_solved_task_has_its_cost() {
        let price = "5,0".parse().ok();
        let several = Several::of(
            &[
                entrant("small", &[("a", true), ("b", false), ("c", true)], 0, None),
                entrant("large", &[("a", true), ("b", true), ("d", true)], 1_000_000, price),
                entrant("random", &[("b", false), ("a", false)], 100, None),
            ],
            Passing { component: "tau".into(), at_least: 1.0 },
        );
        assert_eq!(several.tasks, 2);
        let passed: Vec<usize> = several.standings.iter().map(|standing| standing.row.passed).collect();
        assert_eq!(passed, [1, 2, 0]);
        assert!(several.standings[0].difference.is_none() && several.standings[2].row.cost_per_solved() == "–");
        assert!((several.standings[1].difference.unwrap().mean - 0.5).abs() < 1e-12);
        let large = several.standings[1].row.spent.unwrap();
        assert_eq!((large.tokens_per_solved, large.cost_per_solved), (Some(1_000_000.0), Some(5.0)));
        let page = several.page(false);
        assert!(page.contains("$5.00") && page.contains("1,000,000") && page.contains("2 scores of tasks"), "{page}");
    }
}
