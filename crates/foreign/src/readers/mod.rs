//! The formats, one file each.

mod art;
mod skyrl;
mod trl;
mod verifiers;
mod wandb;

use crate::ForeignError;
use crate::record::Record;
use crate::source::Source;

/// One format.
#[derive(Debug)]
pub(crate) struct Reader {
    /// The format and where it is found, in a few words.
    pub(crate) what: &'static str,
    pub(crate) recognises: fn(&Source) -> bool,
    pub(crate) read: fn(&Source) -> Result<Record, ForeignError>,
}

/// All formats. W&B is last: its lines have the fewest marks.
pub(crate) static READERS: &[Reader] = &[trl::READER, skyrl::READER, art::READER, verifiers::READER, wandb::READER];
