use crate::evidence::{Evidence, Played, mean};
use crate::law::{Breach, Checked, Law, LawText, if_paid};
use crate::probe::Mark;

/// Citation precision: citing everything earns little.
#[derive(Debug)]
pub(super) struct Precision;

const MOST: f64 = 0.5;

impl Law for Precision {
    fn about(&self) -> LawText {
        LawText {
            name: "precision",
            law: "Citing everything that was shown earns at most half of what the right citations earn of a component that \
                  pays for citations.",
            measure: "Film trivia with everything cited against the solution, over tasks that show at least four ids for each \
                      right one, for components that rise by over 0.1 when the same trivia cites.",
            repair: "`kind = \"grounding\"` with its `beta = 0.5`: a wrong citation costs more than a missing one, and citing \
                     four where one is right earns 0.29. No floor under it.",
            explains: &["blind_weight", "floor", "honest_work"],
        }
    }

    fn check(&self, evidence: &Evidence) -> Checked {
        let count = |played: &Played, fact: &str| match played.trace.facts.get(fact) {
            Some(serde_json::Value::Object(map)) => map.len(),
            Some(serde_json::Value::Array(list)) => list.len(),
            _ => 0,
        };
        let crowded = |played: &&Played| {
            let (shown, gold) = (count(played, "context"), count(played, "gold_ids"));
            gold > 0 && shown >= 4 * gold
        };
        let shots: Vec<&Played> = evidence.marked(Mark::EverythingCited).filter(crowded).collect();
        if shots.is_empty() {
            return Checked::Skipped("tasks that show four ids for each right one (`context`, `gold_ids`)".into());
        }
        // The same text and confidence without a citation: what rises between the two is paid for citing.
        let same = |played: &&Played| shots.iter().any(|shot| shot.task == played.task);
        let plain: Vec<&Played> = evidence.marked(Mark::NothingCited).filter(same).collect();
        let mut breaches = Vec::new();
        for component in &evidence.components {
            let name = component.name.as_str();
            let cited = mean(shots.iter().filter_map(|played| played.value(name)));
            let uncited = mean(plain.iter().filter_map(|played| played.value(name)));
            let rise = cited.zip(uncited).map_or(0.0, |(cited, uncited)| cited - uncited);
            let share = shots.iter().filter_map(|played| {
                let oracle = evidence.oracle(played.task, name).filter(|oracle| *oracle > 0.0)?;
                Some(played.value(name)? / oracle)
            });
            let Some(share) = mean(share).filter(|share| rise > 0.1 && *share > MOST) else { continue };
            let says = format!(
                "`{name}` pays {:.0} % of its full value for citing everything under film trivia",
                100.0 * share
            );
            let line = format!("{} tasks show at least four ids for each right one", shots.len());
            breaches.push(Breach::new(if_paid(evidence, name), name, says).line(line));
        }
        Checked::of(breaches)
    }
}
