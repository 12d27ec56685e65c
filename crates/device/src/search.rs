//! Search for the first non-finite kernel output, after a pass with a non-finite gradient.

use hone_cuda::watch::{self, Watch};
use hone_cuda::{Buffer, Float};
use hone_engine::{LossGradients, Result};

use crate::backward::Grads;
use crate::body::Body;
use crate::cuda::fault;
use crate::forward::{State, Stay, Through};

impl<T: Float> Body<'_, T> {
    /// Watch that makes an output non-finite if a test asked for it.
    pub(crate) fn poison(&self) -> Result<Option<Watch>> {
        let poisoned = self.weights.shared.faults().poisoned.clone();
        poisoned.map(|name| Watch::new(self.gpu, false, Some(name)).map_err(fault)).transpose()
    }

    /// True if every element is finite. Waits for the device.
    pub(crate) fn finite(&self, output: &Buffer<T>) -> Result<bool> {
        watch::finite(self.gpu, output).map_err(fault)
    }

    /// Reruns both passes, checking every output, and records the first that is not finite. This accumulates the weights' gradient
    /// a second time, which does no harm: the embedding's part is non-finite already, and the step is skipped. An adapter's may be
    /// finite, so its gradient goes aside.
    pub(crate) fn search(&self, loss: LossGradients<'_>, state: State<T>, grads: &mut Grads<'_>) -> Result<()> {
        let shared = &self.weights.shared;
        let poisoned = shared.faults().poisoned.clone();
        let watch = Watch::new(self.gpu, true, poisoned).map_err(fault)?;
        let body = Body { watch: Some(&watch), ..*self };
        let State { batch, angles, inverse, scores, .. } = state;
        let Through { last, hidden, rstd, kept } = body.layers(&batch, &angles, &Stay::INPUTS)?;
        let scored = body.scored(&batch, hidden)?;
        let (layers, logits, loan) = (kept, None, None);
        let mut again = State { batch, angles, layers, last, rstd, scored, inverse, scores, logits, loan };
        match grads {
            Grads::Full(..) => body.descend(loss, &mut again, grads)?,
            Grads::Adapter(own) => {
                let mut aside = Buffer::zeros(self.gpu, own.len()).map_err(fault)?;
                body.descend(loss, &mut again, &mut Grads::Adapter(aside.view_mut()))?
            }
        };
        shared.faults().found = watch.found().map_err(fault)?;
        Ok(())
    }
}
