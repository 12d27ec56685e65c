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
pub struct Reader {
    pub name: &'static str,
    /// The format and where it is found, in a few words.
    pub what: &'static str,
    pub recognises: fn(&Source) -> bool,
    pub read: fn(&Source) -> Result<Record, ForeignError>,
}

/// All formats. W&B is last: its lines have the fewest marks.
pub static READERS: &[Reader] = &[trl::READER, skyrl::READER, art::READER, verifiers::READER, wandb::READER];
