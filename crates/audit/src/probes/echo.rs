use crate::probe::{About, Probe, Role, Variant};
use crate::scene::{Fill, Scene};

/// The prompt, given back.
#[derive(Debug)]
pub(super) struct Echo;

impl Probe for Echo {
    fn about(&self) -> About {
        About {
            name: "echo",
            what: "Repeats what it was told: as a reply, and as the answer's text with everything cited.",
            finds: "Overlap measures that pay for quoting the question.",
        }
    }

    fn variants(&self, scene: &Scene) -> Vec<Variant> {
        let prompt = scene.prompt.as_str();
        let mut variants = vec![Variant::new("the prompt as a reply", Role::Junk, vec![prompt.to_owned()])];
        if scene.has_text() && scene.answer.is_some() {
            let task = scene.task.prompt.as_str();
            let cites = |all: bool| Some(if all { scene.shown.clone() } else { Vec::new() });
            for (label, text, all) in [
                ("the task's text as the answer, nothing cited", task, false),
                ("the task's text as the answer, everything cited", task, true),
                ("the whole prompt as the answer, everything cited", prompt, true),
            ] {
                let fill = Fill { text: Some(text), citations: cites(all), confidence: Some(0.2), flag: Some(false) };
                variants.push(Variant::new(label, Role::Junk, scene.junk(&fill)));
            }
        }
        variants
    }
}
