//! Recorded evaluations, judged as in `hone eval` and `hone compare`.

use std::collections::BTreeMap;

use hone_eval::compare::{Comparison, Side};
use hone_eval::table::{Episode, Passing, Row};
use hone_trace::Trace;

use crate::run::{Part, Run};

/// Maximum traces of one evaluation held in memory; `hone compare` takes more.
const MOST: u64 = 20_000;

/// One evaluation of a run: its traces, and the number of the first.
struct Read {
    name: String,
    traces: Vec<Trace>,
    first: u64,
}

/// Two evaluations of the same tasks.
pub(crate) fn comparison(a: (&Run, &Part), b: (&Run, &Part)) -> Result<Comparison, String> {
    let (passing, other) = (passing(a.0)?, passing(b.0)?);
    if passing != other {
        return Err(format!(
            "A counts {:?} as success and B {:?}; compare evaluations of one rubric",
            passing.component, other.component
        ));
    }
    let (a, b) = (read(a.0, a.1)?, read(b.0, b.1)?);
    Ok(Comparison::of([a.side(), b.side()], &passing, 0))
}

/// Rows of an evaluation by environment.
pub(crate) type Environments = BTreeMap<String, Row>;

/// Evaluations by environment, each under its name.
pub(crate) fn by_environment(run: &Run, parts: &[Part]) -> Result<Vec<(Part, Environments)>, String> {
    let passing = passing(run)?;
    let each = parts.iter().map(|part| {
        let mut episodes: BTreeMap<String, Vec<Episode>> = BTreeMap::new();
        for trace in &read(run, part)?.traces {
            episodes.entry(trace.env.clone()).or_default().push(Episode::of(trace, &passing));
        }
        let rows = episodes.into_iter().map(|(env, episodes)| (env, Row::of(&episodes, &[1])));
        Ok((part.clone(), rows.collect()))
    });
    each.collect()
}

fn passing(run: &Run) -> Result<Passing, String> {
    let component = run.success().ok_or("the recipe names no eval.success, the component that counts")?;
    Ok(Passing { component: component.to_owned(), at_least: 1.0 })
}

/// The traces of an evaluation that can be read.
fn read(run: &Run, part: &Part) -> Result<Read, String> {
    let range = run.range(part).map_err(|error| error.to_string())?;
    if range.end - range.start > MOST {
        return Err(format!("{part} has {} traces; `hone compare` reads as many", range.end - range.start));
    }
    let reader = run.traces().map_err(|error| error.to_string())?;
    let traces = reader.range(range.start..range.end.min(reader.len())).collect::<Result<_, _>>();
    let traces = traces.map_err(|error| error.to_string())?;
    Ok(Read { name: format!("{} {part}", run.name), traces, first: range.start })
}

impl Read {
    fn side(&self) -> Side<'_> {
        Side { name: &self.name, traces: &self.traces, first: self.first, price: None }
    }
}
