//! tau-bench's and tau2-bench's task files, read by the environment's own reader.

use hone_worlds::domains::{Kind, tasks};
use serde_json::{Map, Value};

use super::{Context, Read, Trouble};

pub(crate) type Domain = Kind;

pub(super) fn read(fields: Map<String, Value>, at: usize, context: &Context) -> Result<Read, Trouble> {
    let by_env = context.env.as_deref().and_then(domain_of);
    let Some(kind) = by_env.or(context.domain).or_else(|| by_tools(&fields)) else {
        return Err(Trouble::new(
            "env",
            "nothing says whether this tau-bench task is of retail, airline or telecom",
            "name the domain with --env retail, --env airline or --env telecom",
        ));
    };
    let value = Value::Object(fields);
    let task = if value.get("user_scenario").is_some() {
        tasks::tau2(kind, &value)
    } else {
        tasks::tau1(kind, &context.split, at, &value)
    };
    let task = task.map_err(|what| Trouble::new("", what, "use the file as tau-bench has it"))?;
    Ok(Read { task, side: None, repairs: Vec::new(), env_by_file: false })
}

/// The domain named by a name or a path.
pub(crate) fn domain_of(name: &str) -> Option<Kind> {
    [Kind::Retail, Kind::Airline, Kind::Telecom]
        .into_iter()
        .find(|kind| name.split(['/', '\\', '-', '_', '.']).any(|part| part == kind.name()))
}

/// Domain by the reference's calls: every tool except the shared ones belongs to one domain.
fn by_tools(fields: &Map<String, Value>) -> Option<Kind> {
    let criteria = fields.get("evaluation_criteria").and_then(|criteria| criteria.get("actions"));
    let actions = fields.get("actions").or(criteria)?.as_array()?;
    actions.iter().filter_map(|action| action.get("name")?.as_str()).find_map(|name| {
        if ["order", "product", "item"].iter().any(|word| name.contains(word)) {
            Some(Kind::Retail)
        } else if ["flight", "reservation", "airport", "certificate"].iter().any(|word| name.contains(word)) {
            Some(Kind::Airline)
        } else if ["toggle_", "_roaming", "_line", "_device", "apn_", "payment_request"]
            .iter()
            .any(|word| name.contains(word))
        {
            Some(Kind::Telecom)
        } else {
            None
        }
    })
}
