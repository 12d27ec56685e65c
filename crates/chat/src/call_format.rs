//! Call format of a model: the one its chat template writes earlier calls in.

use hone_trace::{ToolCall, ToolSet, ToolSpec};
use serde_json::{Map, Value as Json, json};

use crate::parse::{Format, Toolbox, parse};
use crate::template::{ChatTemplate, Clock, TemplateInput};

/// The format a template writes calls in, proven by reading a call back; `None` if it writes no known format.
///
/// `variables` are the model's special tokens, which some templates require.
pub fn call_format(template: &ChatTemplate, variables: &Map<String, Json>) -> Option<Format> {
    let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]});
    let tool = ToolSpec::new("get_weather", "The weather of a city", schema);
    let tools = [tool.to_openai()];
    let toolbox = Toolbox::new(&ToolSet::new(vec![tool]).ok()?).ok()?;
    let arguments = json!({ "city": "Bern" });
    let expected = ToolCall::new("get_weather", arguments.as_object()?.clone());

    let clock = Clock::parse("2024-01-01").ok()?;
    let render = |messages: &[Json], add_generation_prompt| {
        template
            .render(&TemplateInput {
                messages,
                tools: Some(&tools),
                documents: None,
                add_generation_prompt,
                variables,
                clock,
            })
            .ok()
    };
    let user = json!({ "role": "user", "content": "What is the weather in Bern?" });
    let text = arguments.to_string();
    for arguments in [arguments, Json::String(text)] {
        let function = json!({ "name": "get_weather", "arguments": arguments });
        let calls = json!([{ "type": "function", "id": "callno000", "function": function }]);
        let reply = json!({ "role": "assistant", "content": "", "tool_calls": calls });
        let Some(called) = render(&[user.clone(), reply], false) else { continue };
        // The reply by itself: the text after its generation prompt, or at least after the prompt before its header.
        let prompts =
            [true, false].into_iter().filter_map(|generation| render(std::slice::from_ref(&user), generation));
        let replies = prompts.filter_map(|prompt| called.strip_prefix(prompt.as_str()).map(str::to_owned));
        let mut replies: Vec<String> = replies.collect();
        replies.push(called.rsplit_once("Bern?").map_or_else(String::new, |(_, after)| after.to_owned()));
        if let Some(format) = replies.iter().find_map(|reply| read_back(reply, &toolbox, &expected)) {
            return Some(format);
        }
    }
    None
}

/// The format in which a reply is exactly the expected call. A format with markers is the detected one. Formats without
/// markers overlap; those that would write the call exactly like this come first, apart from a leading token, which
/// templates often leave to the model.
fn read_back(reply: &str, toolbox: &Toolbox, expected: &ToolCall) -> Option<Format> {
    let solid = |text: &str| text.split_whitespace().collect::<String>();
    let written = solid(reply);
    let writes = |format: &Format| {
        let text = format.render_calls(std::slice::from_ref(expected), toolbox);
        let untagged = |text: &str| match text.strip_prefix("<|").and_then(|tag| tag.split_once("|>")) {
            Some((_, rest)) => solid(rest),
            None => solid(text),
        };
        text.is_ok_and(|text| written.contains(&untagged(&text)))
    };
    let detected = Format::detect(reply, toolbox);
    let marked = detected.filter(|format| *format != Format::BareJson);
    let formats = marked.into_iter().chain(Format::ALL.into_iter().filter(writes)).chain(detected).chain(Format::ALL);
    formats.into_iter().find(|format| {
        let parsed = parse(reply, toolbox, Some(*format));
        parsed.error.is_none()
            && matches!(parsed.calls.as_slice(), [read] if read.call.name == expected.name && read.call.arguments == expected.arguments)
    })
}
