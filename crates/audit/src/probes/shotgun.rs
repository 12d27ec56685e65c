use crate::filler::filler;
use crate::probe::{About, Mark, Probe, Role, Variant};
use crate::scene::{Fill, Scene};

/// Everything cited.
#[derive(Debug)]
pub(super) struct Shotgun;

impl Probe for Shotgun {
    fn about(&self) -> About {
        About {
            name: "shotgun",
            what: "Cites everything it was shown, under a text of the solution's length that says nothing.",
            finds: "Citation rewards with a floor, or with recall and no precision.",
        }
    }

    fn variants(&self, scene: &Scene) -> Vec<Variant> {
        let Some(answer) = scene.answer.as_ref().filter(|answer| answer.slots.list.is_some()) else {
            return Vec::new();
        };
        let text = filler(answer.text.split_whitespace().count());
        let with = |label: &str, citations: Vec<String>| {
            let fill = Fill { text: Some(&text), citations: Some(citations), confidence: Some(0.0), flag: Some(false) };
            Variant::new(label, Role::Junk, scene.junk(&fill))
        };
        let invented = (0..8).map(|number| format!("KB-{number:04}")).collect();
        vec![
            with("everything shown is cited", scene.shown.clone()).marked(Mark::EverythingCited),
            with("the first thing shown is cited", scene.shown.iter().take(1).cloned().collect()),
            with("ids nobody has shown are cited", invented),
        ]
    }
}
