use crate::filler::filler;
use crate::probe::{About, Probe, Role, Sweep, Variant};
use crate::scene::{Fill, Scene};

/// Film trivia of growing length.
#[derive(Debug)]
pub(super) struct Filler;

/// Words of an episode each. Close together where length rewards bend, and far beyond any answer.
pub(super) const LENGTHS: [usize; 12] = [1, 4, 8, 16, 24, 36, 52, 72, 100, 140, 190, 260];

impl Probe for Filler {
    fn about(&self) -> About {
        About {
            name: "filler",
            what: "Answers with film trivia of 1 to 260 words, cites everything it was shown and states hardly any \
                   confidence.",
            finds: "The film-trivia fault: a length reward with a bent or inverted branch, and content rewards that do not \
                    read the content.",
        }
    }

    fn variants(&self, scene: &Scene) -> Vec<Variant> {
        if !scene.has_text() {
            return Vec::new();
        }
        let at = |words: usize| {
            let text = filler(words);
            let cited = Some(scene.shown.clone());
            let fill = Fill { text: Some(&text), citations: cited, confidence: Some(0.05), flag: Some(false) };
            let label =
                if words == 1 { "one word of film trivia".to_owned() } else { format!("{words} words of film trivia") };
            Variant::new(label, Role::Junk, scene.junk(&fill)).at(Sweep::FillerWords, words as f64)
        };
        LENGTHS.map(at).into()
    }
}
