//! Goals of customers, and the phrasings they come in.

use hone_trace::Rng;

use super::words::Vocabulary;
use super::world::Status;

/// A customer's goal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Goal {
    Cancel,
    ChangeCity,
    Return,
    Exchange,
    /// Getting rid of an item. Whether that is a cancellation or a return depends on the order's status, which has to
    /// be looked up: the shop accepts either.
    GiveUp,
}

/// Pairs of goals that one customer may have. Training combines the first few, at most [`TRAINED_PAIRS`]; held-out
/// tasks combine all.
pub(super) const PAIRS: [[Goal; 2]; 7] = [
    [Goal::Cancel, Goal::Return],
    [Goal::ChangeCity, Goal::Exchange],
    [Goal::Return, Goal::Exchange],
    [Goal::ChangeCity, Goal::Return],
    [Goal::GiveUp, Goal::Exchange],
    [Goal::GiveUp, Goal::Return],
    [Goal::Cancel, Goal::Exchange],
];

/// Pairs that training tasks may combine; the others are held out.
pub const TRAINED_PAIRS: usize = 6;

impl Goal {
    pub const ALL: [Self; 5] = [Self::Cancel, Self::ChangeCity, Self::Return, Self::Exchange, Self::GiveUp];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Cancel => "cancel",
            Self::ChangeCity => "city",
            Self::Return => "return",
            Self::Exchange => "exchange",
            Self::GiveUp => "give_up",
        }
    }

    /// The status of its order; `None` if it may be either.
    pub(super) fn needs(self) -> Option<Status> {
        match self {
            Self::Cancel | Self::ChangeCity => Some(Status::Pending),
            Self::Return | Self::Exchange => Some(Status::Delivered),
            Self::GiveUp => None,
        }
    }

    /// Phrasings: those of training tasks and those of held-out tasks, in the same words.
    fn phrasings(self, words: Vocabulary) -> &'static [&'static str] {
        use Vocabulary::{HeldOut, Training};
        match (self, words) {
            (Self::Cancel, Training) => &[
                "cancel the order with \"{item}\"",
                "stop the order with \"{item}\"",
                "cancel my order of \"{item}\"",
                "call off my order of \"{item}\"",
            ],
            (Self::Cancel, HeldOut) => &["stop my order of \"{item}\"", "call off the order with \"{item}\""],
            (Self::ChangeCity, Training) => &[
                "send the order with \"{item}\" to \"{city}\"",
                "ship the order with \"{item}\" to \"{city}\"",
                "send my order of \"{item}\" to \"{city}\"",
                "ship my \"{item}\" to \"{city}\"",
            ],
            (Self::ChangeCity, HeldOut) => {
                &["ship my order of \"{item}\" to \"{city}\"", "send my \"{item}\" to \"{city}\""]
            }
            (Self::Return, Training) => {
                &["return my \"{item}\"", "take back my \"{item}\"", "take back the \"{item}\"", "return \"{item}\""]
            }
            (Self::Return, HeldOut) => &["return the \"{item}\"", "take back \"{item}\""],
            (Self::Exchange, Training) => &[
                "exchange my \"{item}\" for \"{colour}\"",
                "swap \"{item}\" for \"{colour}\"",
                "exchange the \"{item}\" for \"{colour}\"",
                "swap the \"{item}\" for \"{colour}\"",
            ],
            (Self::Exchange, HeldOut) => {
                &["swap my \"{item}\" for \"{colour}\"", "exchange \"{item}\" for \"{colour}\""]
            }
            (Self::GiveUp, Training) => &[
                "rid me of \"{item}\"",
                "rid me of my \"{item}\"",
                "relieve me of the \"{item}\"",
                "relieve me of \"{item}\"",
            ],
            (Self::GiveUp, HeldOut) => &["rid me of the \"{item}\"", "relieve me of my \"{item}\""],
        }
    }

    /// A request in a customer's words; `detail` is the city or colour it names.
    pub(super) fn wish(self, words: Vocabulary, item: &str, detail: &str, rng: &mut Rng) -> String {
        let phrasing = rng.pick(self.phrasings(words)).copied().unwrap_or_default();
        phrasing.replace("{item}", item).replace("{city}", detail).replace("{colour}", detail)
    }
}

/// Everything a customer says: a name and one or two requests.
pub(super) fn request(words: Vocabulary, name: &str, wishes: &[String], rng: &mut Rng) -> String {
    let (frames, joints): (&[&str], &[&str]) = match words {
        Vocabulary::Training => (
            &[
                "I am \"{name}\". Please {wishes}.",
                "\"{name}\" here. Please {wishes}.",
                "My name is \"{name}\", please {wishes}.",
            ],
            &[" and ", ". Please ", " and please "],
        ),
        Vocabulary::HeldOut => (
            &["I am \"{name}\", please {wishes}.", "My name is \"{name}\". Please {wishes}."],
            &[", please ", ", and "],
        ),
    };
    let (frame, joint) = (rng.pick(frames).copied().unwrap_or_default(), rng.pick(joints).copied().unwrap_or_default());
    frame.replace("{name}", name).replace("{wishes}", &wishes.join(joint))
}
