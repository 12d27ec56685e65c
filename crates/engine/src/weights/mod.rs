//! Model weights on the host: parameter tables, safetensors, random initialisation. Their device form is the backend's.

mod fingerprint;
mod init;
mod load;
mod params;
mod save;

pub(crate) use fingerprint::{Noted, fingerprint};
pub use init::Fresh;
pub(crate) use init::normal;
pub(crate) use load::read_into;
pub use load::{Checked, TensorFiles};
pub use params::{LayerParams, ModelParams, Param, Table};
pub(crate) use save::save_model;
pub use save::{Storage, Tensor, tensors, write_tensors};

use crate::error::Result;

/// Source of parameter values, one tensor at a time: a device need not hold a second copy of a model while it loads.
pub trait TensorSource {
    /// Writes the values of a parameter to `out`, which has its length.
    fn read(&self, param: &Param, out: &mut [f32]) -> Result<()>;
}

/// Values on the host, laid out by a parameter table.
#[derive(Debug, Clone, Copy)]
pub struct Host<'a>(pub &'a [f32]);

impl TensorSource for Host<'_> {
    fn read(&self, param: &Param, out: &mut [f32]) -> Result<()> {
        out.copy_from_slice(&self.0[param.range.clone()]);
        Ok(())
    }
}
