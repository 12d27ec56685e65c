//! docs/formats.md, from the catalogue.

use std::fmt::Write as _;

use hone_trace::{ToolCall, ToolSet, ToolSpec};
use serde_json::json;

use super::{Format, Toolbox};

const LEAD: &str = "# Tool-call formats

Written from the catalogue in `crates/chat/src/parse/formats`; change it there and run
`HONE_BLESS=1 cargo test -p hone-chat formats_page`.

`hone parse --format NAME` and `rollout.format = \"NAME\"` read a reply in one format; `auto` takes the one whose markers
occur, and training takes the one the model's chat template writes. A reply in another format's markup is a fault
(`malformed_markup`), not an answer. Nothing inside reasoning is a call, and neither is anything behind an end token or
inside a `<tool_response>` that the model wrote itself.

The example is a call of `get_weather` with `city = \"Bern\"` and `days = 2`, as the format's own writer writes it.
";

/// The reference page of the formats.
pub fn markdown() -> String {
    let mut page = String::from(LEAD);
    let tools = example_tools();
    let arguments = json!({ "city": "Bern", "days": 2 });
    let call = ToolCall::new("get_weather", arguments.as_object().cloned().unwrap_or_default());
    for format in Format::ALL {
        let entry = format.entry();
        let _ = write!(page, "\n## {}\n\n{}\\\nModels: {}.\\\n", entry.name, entry.summary, entry.models);
        let markers: Vec<String> = entry.markers.iter().map(|marker| format!("`{marker}`")).collect();
        let told = if markers.is_empty() { "its shape".to_owned() } else { markers.join(", ") };
        let _ = write!(page, "Markers: {told}.\n\n");
        let text = tools.as_ref().and_then(|tools| format.render_calls(std::slice::from_ref(&call), tools).ok());
        if let Some(text) = text {
            let _ = write!(page, "````text\n{text}\n````\n\n");
        }
        let _ = writeln!(page, "{}", format.guidance());
    }
    page
}

fn example_tools() -> Option<Toolbox> {
    let properties = json!({ "city": { "type": "string" }, "days": { "type": "integer" } });
    let tool = ToolSpec::new("get_weather", "", json!({ "type": "object", "properties": properties }));
    Toolbox::new(&ToolSet::new(vec![tool]).ok()?).ok()
}
