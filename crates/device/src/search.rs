//! Search for the kernel output that was the first not to be finite, after a pass whose gradient is not.

use hone_cuda::watch::Watch;
use hone_cuda::{Buffer, Float};
use hone_engine::{LossGradients, Result};

use crate::backward::Grads;
use crate::cuda::fault;
use crate::forward::{Body, State, Stay, Through};

impl<T: Float> Body<'_, T> {
    /// Watch that makes an output not finite where a test asked for it.
    pub(crate) fn poison(&self) -> Result<Option<Watch>> {
        let poisoned = self.weights.shared.faults().poisoned.clone();
        poisoned.map(|name| Watch::new(self.gpu, false, Some(name)).map_err(fault)).transpose()
    }

    /// Every element is a number and not infinite. Waits for the device.
    pub(crate) fn finite(&self, output: &Buffer<T>) -> Result<bool> {
        let watch = Watch::new(self.gpu, true, None).map_err(fault)?;
        watch.see(self.gpu, String::new(), output).map_err(fault)?;
        Ok(watch.found().map_err(fault)?.is_none())
    }

    /// Repeats both passes with a look at every output, and notes the first that is not finite. The weights' gradient is added
    /// to once more: the embedding's part of it is not finite already, and the step is skipped. An adapter's may be finite.
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
