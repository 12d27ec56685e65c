//! Draw of one token per row of logits by given random numbers. Formulas and layout: `kernels/draw.cu`.

#![expect(unsafe_code, reason = "launches a kernel; shapes are checked first")]

use crate::buffer::{Buffer, View};
use crate::error::{Result, ensure};
use crate::gpu::{Gpu, Launch};

/// Temperature (0 takes the likeliest) and the number in [0, 1) that draws.
#[derive(Clone, Copy, Debug)]
pub struct Ticket {
    pub temperature: f32,
    pub unit: f64,
}

/// A drawn token and its log-probability at the ticket's temperature; `None` where the logits are not finite.
pub type Drawn = Option<(u32, f32)>;

/// Draws for the first rows of `logits` ([rows, vocabulary rounded up to 8]). Waits for the device.
pub fn draw(gpu: &Gpu, logits: View<'_, f32>, vocab: usize, tickets: &[Ticket]) -> Result<Vec<Drawn>> {
    let (rows, stride) = (tickets.len(), vocab.next_multiple_of(8));
    ensure(vocab > 0 && logits.len >= rows * stride, "draw", || format!("{} logits for {rows} rows", logits.len))?;
    let settings: Vec<f64> = tickets.iter().flat_map(|t| [f64::from(t.temperature), t.unit]).collect();
    let mut on_device = Buffer::uninit(gpu, settings.len())?;
    on_device.put(0, &settings)?;
    // Tokens and log-probabilities in one array: one copy brings both back.
    let mut out = Buffer::<i32>::uninit(gpu, 2 * rows)?;
    let launch = Launch { module: "draw", kernel: "draw", grid: (rows as u32, 1), block: 1024, shared: 0 };
    let mut out_view = out.view_mut();
    let tokens = out_view.slice(0..rows).pointer;
    let logprobs = out_view.slice(rows..2 * rows).pointer;
    let args = [
        logits.into(),
        vocab.into(),
        stride.into(),
        on_device.view().into(),
        crate::gpu::Arg::Pointer(tokens),
        crate::gpu::Arg::Pointer(logprobs),
    ];
    // SAFETY: as draw.cu declares; lengths checked above.
    unsafe { gpu.launch(launch, &args) }?;
    let out = out.read()?;
    let drawn = |row: usize| Some((u32::try_from(out[row]).ok()?, f32::from_bits(out[rows + row] as u32)));
    Ok((0..rows).map(drawn).collect())
}
