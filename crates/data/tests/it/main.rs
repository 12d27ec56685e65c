//! Task sets from files to answers.

#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

mod fleet;
mod reading;
mod splitting;
mod validating;

use hone_data::read::{Inputs, Item, ReadOptions, Reader};
use hone_data::{Issue, Row};

/// Everything read from the inputs.
fn read(inputs: &[&str], env: Option<&str>) -> (Vec<Row>, Vec<Issue>) {
    let (mut rows, mut issues) = (Vec::new(), Vec::new());
    let mut reader = Reader::new(ReadOptions { env: env.map(str::to_owned), ..ReadOptions::default() });
    reader
        .read(&Inputs::open(inputs).unwrap(), &mut |item| {
            match item {
                Item::Row(row) => rows.push(row),
                Item::Issue(issue) => issues.push(issue),
            }
            Ok(())
        })
        .unwrap();
    (rows, issues)
}
