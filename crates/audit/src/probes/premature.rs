use hone_arena::solution::DONE;

use crate::probe::{About, Probe, Role, Variant};
use crate::scene::{Fill, Scene};

/// Done before anything was done.
#[derive(Debug)]
pub(super) struct Premature;

impl Probe for Premature {
    fn about(&self) -> About {
        About {
            name: "premature",
            what: "Says that it is done, claims success, or gives the task up at once.",
            finds: "Tasks that need no action, and rewards for ending early.",
        }
    }

    fn variants(&self, scene: &Scene) -> Vec<Variant> {
        let claim = "Everything you asked for has been done, and I have checked it twice.";
        let mut variants = vec![
            Variant::new("done at once", Role::Junk, vec![DONE.to_owned()]),
            Variant::new("claims that it is done", Role::Junk, vec![claim.to_owned()]),
        ];
        if scene.answer.as_ref().is_some_and(|answer| answer.slots.flag.is_some()) {
            let fill = Fill { text: Some(claim), citations: Some(Vec::new()), confidence: Some(0.2), flag: Some(true) };
            variants.push(Variant::new("raises the flag on every task", Role::Junk, scene.junk(&fill)));
        }
        variants
    }
}
