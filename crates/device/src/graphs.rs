//! CUDA graphs of decoding steps: a step of one token per sequence is a few hundred short launches, which the host takes
//! longer to queue than the device to run. A step whose shape recurs is recorded, and then queued by one call.

use std::collections::HashMap;
use std::sync::Arc;

use hone_cuda::graph::Graph;
use hone_cuda::scratch::Scratch;
use hone_cuda::{Buffer, CudaError, Float, Gpu, Matmul};
use hone_engine::Result;

use crate::body::Body;
use crate::cuda::fault;
use crate::decode::{Call, Layout};

/// Number of runs of a step before it is recorded: recording costs as much as a few runs.
const BEFORE: usize = 3;
/// Maximum number of recorded steps; beyond it all are dropped, because those of weights that have moved are never used again.
const KEPT: usize = 64;

/// Key of a recorded step: the graph serves every step with the same key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    layout: Layout,
    /// Addresses of weights, adapter, pages, angles, integers and logits.
    addresses: [u64; 6],
    /// Rank and scale of the adapter.
    adapter: Option<(usize, u32)>,
}

#[derive(Debug, Default)]
pub(crate) struct Graphs {
    recorder: Option<Recorder>,
    steps: HashMap<Key, Known>,
}

/// State of a step that has run before.
#[derive(Debug)]
enum Known {
    /// Number of runs.
    Run(usize),
    Recorded(Graph),
}

/// Handles that run and record a step with the same scratch memory.
#[derive(Debug)]
struct Recorder {
    plain: (Gpu, Matmul),
    recording: (Gpu, Matmul),
}

impl Recorder {
    fn new(gpu: &Gpu, matmul: &Matmul) -> std::result::Result<Self, CudaError> {
        let scratch = Arc::new(Scratch::new(gpu));
        let (plain, recording) = (gpu.with_scratch(&scratch), gpu.recorder(&scratch)?);
        let products = |gpu: &Gpu| matmul.through(gpu);
        Ok(Self { plain: (plain.clone(), products(&plain)), recording: (recording.clone(), products(&recording)) })
    }
}

impl Graphs {
    /// Runs a step: directly at first, then by its graph.
    pub(crate) fn run<T: Float>(
        &mut self,
        body: &Body<'_, T>,
        layout: Layout,
        call: &Call<'_, T>,
        logits: &mut Buffer<f32>,
    ) -> Result<()> {
        let recorder = match &self.recorder {
            Some(recorder) => recorder,
            None => self.recorder.insert(Recorder::new(body.gpu, body.matmul).map_err(fault)?),
        };
        let through = |(gpu, matmul): &'_ (Gpu, Matmul), logits: &mut Buffer<f32>| {
            Body { gpu, matmul, ..*body }.decode(call, logits)
        };
        let key = Key::of(body, layout, call, logits);
        if self.steps.len() >= KEPT && !self.steps.contains_key(&key) {
            self.steps.clear();
        }
        let known = self.steps.entry(key).or_insert(Known::Run(0));
        match known {
            // Kernels are loaded and products planned by their first launch, which cannot be recorded.
            Known::Run(times) if *times < BEFORE => {
                *times += 1;
                through(&recorder.plain, logits)
            }
            Known::Run(_) => {
                let gpu = &recorder.recording.0;
                Graph::begin(gpu).map_err(fault)?;
                let queued = through(&recorder.recording, logits);
                let recorded = Graph::end(gpu).map_err(fault);
                queued?;
                let graph = recorded?;
                graph.launch_on(body.gpu).map_err(fault)?;
                *known = Known::Recorded(graph);
                Ok(())
            }
            Known::Recorded(graph) => graph.launch_on(body.gpu).map_err(fault),
        }
    }
}

impl Key {
    fn of<T: Float>(body: &Body<'_, T>, layout: Layout, call: &Call<'_, T>, logits: &Buffer<f32>) -> Self {
        let adapter = body.adapter.map(|adapter| (adapter.rank, adapter.scale.to_bits()));
        let addresses = [
            body.weights.address(),
            body.adapter.map_or(0, |adapter| adapter.values.address()),
            call.pages.address(),
            call.angles.address(),
            call.address(),
            logits.address(),
        ];
        Self { layout, addresses, adapter }
    }
}
