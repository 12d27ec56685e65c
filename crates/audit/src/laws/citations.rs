use crate::evidence::Evidence;
use crate::law::{Breach, Checked, Law, LawText, if_paid};
use crate::probe::Sweep;

/// Right citations help, wrong ones and repetitions do not.
#[derive(Debug)]
pub(super) struct Citations;

/// A length reward moves a little with every id; a citation reward by more.
const SLACK: f64 = 0.05;

impl Law for Citations {
    fn about(&self) -> LawText {
        LawText {
            name: "citations",
            law: "Adding a right citation never lowers a component, adding a wrong one or giving one twice never raises it.",
            measure: "The solution with 0 to all of its citations, with up to four wrong ones added, and with each given up to \
                      8 times: every step of a task's own sweep, by component; over 0.05 the wrong way in over a quarter of them.",
            repair: "`kind = \"grounding\"`: F-beta over the set of ids, times the share that was really shown; \
                     `kind = \"citation_repetition\"` as a factor against repetitions.",
            explains: &["precision", "oracle_is_best"],
        }
    }

    fn check(&self, evidence: &Evidence) -> Checked {
        let (mut breaches, mut seen) = (Vec::new(), false);
        let sweeps = [
            (Sweep::RightCitations, 1.0, "falls when a right citation is added"),
            (Sweep::WrongCitations, -1.0, "rises when a wrong citation is added"),
            (Sweep::RepeatedCitations, -1.0, "rises when citations are repeated"),
        ];
        for component in &evidence.components {
            let name = component.name.as_str();
            for (sweep, sign, what) in sweeps {
                let (mut steps, mut against, mut worst) = (0, 0, (0.0, 0.0, 0.0));
                for task in 0..evidence.tasks {
                    let curve = evidence.curve(sweep, name, |played| played.task == task);
                    for pair in curve.windows(2) {
                        steps += 1;
                        let step = sign * (pair[1].1 - pair[0].1);
                        against += usize::from(step < -SLACK);
                        if step < worst.0 {
                            worst = (step, pair[0].1, pair[1].1);
                        }
                    }
                }
                seen |= steps > 0;
                // Now and then is a length reward that counts many ids, or a wrong citation near the right one.
                if against * 4 > steps {
                    let says = format!("`{name}` {what}: from {:.3} to {:.3}", worst.1, worst.2);
                    let line = format!("{against} of {steps} steps go the wrong way");
                    breaches.push(Breach::new(if_paid(evidence, name), name, says).line(line));
                }
            }
        }
        if seen {
            Checked::of(breaches)
        } else {
            Checked::Skipped("an answer that cites, and tasks with `gold_ids`".into())
        }
    }
}
