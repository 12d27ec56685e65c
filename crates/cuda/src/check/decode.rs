//! Decode attention: scattered pages, lengths around a page and a split, every group size; the same in any batch.

use half::bf16;

use super::{Measured, measure, poisoned, rounded, upload};
use crate::attention::Rows;
use crate::buffer::Buffer;
use crate::decode::{Cache, PAGE, Pages, attention, write};
use crate::error::Result;
use crate::gpu::Gpu;
use crate::random::Random;
use crate::reference;
use crate::rope::Heads;

pub(super) fn decode(gpu: &Gpu) -> Result<Vec<Measured>> {
    let mut all = Vec::new();
    for dim in [64, 128] {
        for group in 1..=8 {
            all.extend(case(gpu, Heads { q: 2 * group, kv: 2, dim }, &[1, 15, 16, 17, 511, 512, 513, 0, 1300])?);
        }
    }
    Ok(all)
}

fn case(gpu: &Gpu, heads: Heads, lengths: &[usize]) -> Result<Vec<Measured>> {
    let Heads { q: qh, kv, dim } = heads;
    let mut random = Random((qh * dim) as u64);
    let total: usize = lengths.iter().map(|l| l.div_ceil(PAGE)).sum();
    // Pages of all sequences interleaved: page i of the cache goes to whoever still needs one.
    let mut tables: Vec<Vec<usize>> = vec![Vec::new(); lengths.len()];
    let mut page = 0;
    while page < total {
        for (table, length) in tables.iter_mut().zip(lengths) {
            if table.len() * PAGE < *length {
                table.push(page);
                page += 1;
            }
        }
    }
    let mut cache = Cache::zeros(gpu, heads, total)?;
    cache.k.fill_bytes(0xff)?;
    cache.v.fill_bytes(0xff)?;
    let queries = rounded::<bf16>(&random.normal(lengths.len() * qh * dim, 1.5));
    let mut want = Vec::new();
    for (s, (&length, table)) in lengths.iter().zip(&tables).enumerate() {
        let mut draw = |scale| rounded::<bf16>(&random.normal(length * kv * dim, scale));
        let (k, v) = (draw(1.5), draw(1.0));
        let query = &queries[s * qh * dim..(s + 1) * qh * dim];
        want.extend(reference::decode(heads, query, &k, &v, length));
        let slots: Vec<usize> = (0..length).map(|t| table[t / PAGE] * PAGE + t % PAGE).collect();
        let (gk, gv): (Buffer<bf16>, Buffer<bf16>) = (upload(gpu, &k)?, upload(gpu, &v)?);
        let rows = |b| Rows { view: b, stride: kv * dim };
        write(gpu, &mut cache, rows(gk.view()), rows(gv.view()), &slots)?;
    }
    let pages = Pages::new(gpu, &tables, lengths, total)?;
    let q: Buffer<bf16> = upload(gpu, &queries)?;
    let mut o = poisoned(gpu, queries.len())?;
    attention(gpu, heads, q.view(), &cache, &pages, &mut o.view_mut())?;
    let mut all = vec![measure(format!("{qh}/{kv}x{dim}"), &o, &want, 4e-3)?];

    // The last sequence alone must give the same bits as among the others.
    let last = lengths.len() - 1;
    let alone = Pages::new(gpu, &tables[last..], &lengths[last..], total)?;
    let mut single = poisoned(gpu, qh * dim)?;
    let query = q.view().slice(last * qh * dim..queries.len());
    attention(gpu, heads, query, &cache, &alone, &mut single.view_mut())?;
    let (batch, single) = (o.read()?, single.read()?);
    let same = batch[last * qh * dim..].iter().zip(&single).all(|(a, b)| a.to_bits() == b.to_bits());
    let what = format!("alone and in a batch differ, {qh}/{kv}x{dim}");
    all.push(Measured { what, error: f64::from(u8::from(!same)), bound: 0.0 });
    Ok(all)
}
