//! Parameter table: the layout of all tensors in one flat buffer, shared by weights, gradients and optimizer state.

use std::ops::Range;

use crate::config::Config;

/// One tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Param {
    /// Its Hugging Face name.
    pub name: String,
    pub shape: Vec<usize>,
    pub range: Range<usize>,
}

/// Named tensors in a flat buffer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Table {
    pub params: Vec<Param>,
    len: usize,
}

impl Table {
    /// Length of the flat buffer.
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.params.is_empty()
    }

    /// Number of values, padding not counted.
    pub fn values(&self) -> usize {
        self.params.iter().map(|p| p.range.len()).sum()
    }

    /// Appends tensors that follow each other without a gap, so that they can be used as one matrix; the first starts
    /// on a cache line. Returns the range of all of them.
    pub fn group(&mut self, tensors: &[(String, Vec<usize>)]) -> Range<usize> {
        let start = self.len.next_multiple_of(16);
        let mut at = start;
        for (name, shape) in tensors {
            let end = at + shape.iter().product::<usize>();
            self.params.push(Param { name: name.clone(), shape: shape.clone(), range: at..end });
            at = end;
        }
        self.len = at;
        start..at
    }
}

/// The ranges of one layer. Fused matrices (q, k, v; gate, up) are one range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayerParams {
    pub input_norm: Range<usize>,
    pub qkv: Range<usize>,
    pub qkv_bias: Option<Range<usize>>,
    pub qk_norm: Option<(Range<usize>, Range<usize>)>,
    pub out: Range<usize>,
    pub out_bias: Option<Range<usize>>,
    pub post_norm: Range<usize>,
    pub gate_up: Range<usize>,
    pub gate_up_bias: Option<Range<usize>>,
    pub down: Range<usize>,
    pub down_bias: Option<Range<usize>>,
}

/// The layout of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelParams {
    pub table: Table,
    pub embed: Range<usize>,
    pub layers: Vec<LayerParams>,
    pub norm: Range<usize>,
    /// The embedding's range where the head is tied to it.
    pub head: Range<usize>,
}

impl ModelParams {
    pub fn new(c: &Config) -> Self {
        let mut table = Table::default();
        let matrix = [("model.embed_tokens.weight".to_owned(), vec![c.vocab, c.hidden])];
        let embed = table.group(&matrix);
        let layers = (0..c.layers).map(|layer| layer_params(&mut table, c, layer)).collect();
        let norm = table.group(&[("model.norm.weight".to_owned(), vec![c.hidden])]);
        let head =
            if c.tied { embed.clone() } else { table.group(&[("lm_head.weight".to_owned(), vec![c.vocab, c.hidden])]) };
        Self { table, embed, layers, norm, head }
    }
}

fn layer_params(table: &mut Table, c: &Config, layer: usize) -> LayerParams {
    let name = |part: &str| format!("model.layers.{layer}.{part}");
    let (q, kv) = (c.heads.queries * c.heads.dim, c.heads.keys * c.heads.dim);
    let qkv = [("q", q), ("k", kv), ("v", kv)].map(|(p, n)| (format!("self_attn.{p}_proj"), n, c.hidden));
    let out = [("self_attn.o_proj".to_owned(), c.hidden, q)];
    let gate_up = ["gate", "up"].map(|p| (format!("mlp.{p}_proj"), c.mlp, c.hidden));
    let down = [("mlp.down_proj".to_owned(), c.hidden, c.mlp)];
    let mut vector = |part: &str, n: usize| table.group(&[(name(part), vec![n])]);
    let input_norm = vector("input_layernorm.weight", c.hidden);
    let post_norm = vector("post_attention_layernorm.weight", c.hidden);
    let qk_norm = c
        .qk_norm
        .then(|| (vector("self_attn.q_norm.weight", c.heads.dim), vector("self_attn.k_norm.weight", c.heads.dim)));
    let mut matrices = |parts: &[(String, usize, usize)]| {
        let tensors: Vec<_> = parts.iter().map(|(p, n, k)| (name(&format!("{p}.weight")), vec![*n, *k])).collect();
        table.group(&tensors)
    };
    let (qkv_w, out_w, gate_up_w, down_w) = (matrices(&qkv), matrices(&out), matrices(&gate_up), matrices(&down));
    let mut biases = |wanted: bool, parts: &[(String, usize, usize)]| {
        let tensors: Vec<_> = parts.iter().map(|(p, n, _)| (name(&format!("{p}.bias")), vec![*n])).collect();
        wanted.then(|| table.group(&tensors))
    };
    LayerParams {
        input_norm,
        qkv_bias: biases(c.qkv_bias, &qkv),
        qk_norm,
        out_bias: biases(c.out_bias, &out),
        post_norm,
        gate_up_bias: biases(c.mlp_bias, &gate_up),
        down_bias: biases(c.mlp_bias, &down),
        qkv: qkv_w,
        out: out_w,
        gate_up: gate_up_w,
        down: down_w,
    }
}
