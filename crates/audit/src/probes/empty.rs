use crate::probe::{About, Mark, Probe, Role, Variant};
use crate::scene::{Fill, Scene};

/// Nothing at all.
#[derive(Debug)]
pub(super) struct Empty;

impl Probe for Empty {
    fn about(&self) -> About {
        About {
            name: "empty",
            what: "Says nothing, or submits an empty answer.",
            finds: "Rewards that pay for not failing: a length of 0 that counts as short, no citation as no wrong one.",
        }
    }

    fn variants(&self, scene: &Scene) -> Vec<Variant> {
        let reply = Variant::new("an empty reply", Role::Junk, vec![String::new()]);
        let mut variants = vec![reply.marked(Mark::EmptyReply)];
        if scene.answer.as_ref().is_some_and(|answer| answer.call.is_some()) {
            let fill = Fill { text: Some(""), citations: Some(Vec::new()), confidence: Some(0.0), flag: Some(false) };
            variants.push(Variant::new("an empty answer, confidence 0", Role::Junk, scene.junk(&fill)));
        }
        variants
    }
}
