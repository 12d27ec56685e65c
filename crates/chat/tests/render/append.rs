//! The append-only law: a turn never changes what comes before it, and what the policy sampled is never encoded again.

use crate::support::{model, template, tools};
use hone_chat::render::Rewrite;
use hone_chat::template::{Clock, TemplateInput};
use hone_chat::{CHATML, Conversation, Prompt, RenderError, RenderSettings, Renderer, SpecialTokens, to_template};
use hone_trace::{Message, ToolCall, ToolSet};
use indexmap::IndexMap;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

fn renderer(source: &str, end: &str, settings: RenderSettings) -> Renderer {
    Renderer::new(&model(source, end), settings).unwrap()
}

/// Special tokens in messages stay tokens, so that a whole render encoded as transformers does can be compared.
fn frozen() -> RenderSettings {
    let date = Some(Clock::parse("2024-05-15").unwrap());
    RenderSettings { date, special_tokens: SpecialTokens::Keep, ..RenderSettings::default() }
}

fn open(renderer: &Renderer, tools: &ToolSet) -> Result<Conversation, RenderError> {
    let first = [Message::user("What is the weather in Zürich?")];
    renderer.open(&Prompt {
        system: Some("You are helpful."),
        messages: &first,
        tools,
        variables: &IndexMap::new(),
        sections: &[],
    })
}

/// Our own templates, with the token that ends a turn and whether they leave earlier turns alone.
const TEMPLATES: [(&str, &str, bool); 4] = [
    ("chatml", "<|im_end|>", true),
    ("qwen_like.jinja", "<|im_end|>", false),
    ("llama_like.jinja", "<|eot|>", true),
    ("mistral_like.jinja", "<|im_end|>", false),
];

fn source(name: &str) -> String {
    if name == "chatml" { CHATML.to_owned() } else { template(name) }
}

/// A reply as a policy might write it, and the observation that answers it.
#[derive(Debug, Clone)]
struct Turn {
    reply: String,
    calls: usize,
    /// Number of tokens of the reply's canonical encoding that are cut into single bytes, as a policy may sample them.
    end: End,
    observation: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum End {
    Turn,
    Length,
    OtherStop,
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z ]{0,12}",
        Just("the weather in Paris\n\n".to_owned()),
        Just("  leading and trailing  \n".to_owned()),
        Just("東京 👩‍👩‍👧 {\"a\": 1}".to_owned()),
        Just("<think>\nhm\n</think>\n\nyes".to_owned()),
        Just("<tool_response>".to_owned()),
        "\\PC{0,20}",
    ]
}

fn turn() -> impl Strategy<Value = Turn> {
    let end = prop_oneof![3 => Just(End::Turn), 1 => Just(End::Length), 1 => Just(End::OtherStop)];
    (text(), 0..3_usize, end, proptest::collection::vec(text(), 1..3))
        .prop_map(|(reply, calls, end, observation)| Turn { reply, calls, end, observation })
}

fn observation(turn: &Turn) -> Vec<Message> {
    if turn.calls == 0 {
        return vec![Message::user(turn.observation[0].clone())];
    }
    (0..turn.calls)
        .map(|index| Message::tool("search", turn.observation[index % turn.observation.len()].clone()))
        .collect()
}

fn check(name: &str, end: &str, turns: &[Turn]) {
    let renderer = renderer(&source(name), end, frozen());
    let tokenizer = renderer.tokenizer();
    let end_id = tokenizer.token_to_id(end).unwrap();
    let other = tokenizer.token_to_id("<|endoftext|>").unwrap();
    let mut conversation = open(&renderer, &tools()).unwrap();
    let mut expected = conversation.prompt().to_vec();
    for turn in turns {
        // Ids of a policy need not be canonical: every second one is spelled out byte by byte.
        let mut sampled = Vec::new();
        for (index, c) in turn.reply.chars().enumerate() {
            let piece = c.to_string();
            sampled.extend(tokenizer.encode(&piece).unwrap());
            if index % 5 == 4 {
                sampled.push(tokenizer.token_to_id("Ġ").unwrap());
            }
        }
        match turn.end {
            End::Turn => sampled.push(end_id),
            End::Length => {}
            End::OtherStop => sampled.push(other),
        }
        let before = conversation.ids().to_vec();
        let messages = observation(turn);
        let suffix = conversation.extend(&sampled, &messages).unwrap();
        let ends_itself = sampled.last() == Some(&end_id);
        assert_eq!(suffix.forced, if ends_itself { vec![] } else { vec![end_id] }, "{name}");
        expected.extend_from_slice(&sampled);
        expected.extend_from_slice(&suffix.forced);
        expected.extend_from_slice(&suffix.observation);
        assert_eq!(conversation.ids(), expected, "{name}");
        assert!(conversation.ids().starts_with(&before), "{name}");
        let shown = tokenizer.decode(&suffix.observation).unwrap();
        for message in &messages {
            let text = message.content().unwrap().text();
            let text = text.trim();
            let escaped = Value::from(text).to_string();
            let in_json = escaped.trim_matches('"');
            assert!(shown.contains(text) || shown.contains(in_json), "{name}: {text:?} not in {shown:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn ids_of_a_turn_extend_the_ids_of_the_turn_before(turns in proptest::collection::vec(turn(), 1..5)) {
        for (name, end, _) in TEMPLATES {
            check(name, end, &turns);
        }
    }

    /// Appending equals encoding the whole conversation, if the template leaves earlier turns alone and the policy's
    /// ids are canonical. (Both prompts end so that nothing merges with a trimmed reply: the seam between prompt and
    /// reply is the policy's own, and ids sampled across it need not be canonical.)
    #[test]
    fn appending_gives_what_rendering_the_whole_gives(turns in proptest::collection::vec(turn(), 1..4)) {
        for (name, end, _) in TEMPLATES.into_iter().filter(|(_, _, plain)| *plain) {
            let renderer = renderer(&source(name), end, frozen());
            let tokenizer = renderer.tokenizer();
            let mut conversation = open(&renderer, &tools()).unwrap();
            let mut messages = vec![Message::system("You are helpful."), Message::user("What is the weather in Zürich?")];
            for turn in &turns {
                // Trimmed, because the Llama-like template trims what it is given.
                let reply = turn.reply.trim().to_owned();
                let sampled = tokenizer.encode(&format!("{reply}{end}")).unwrap();
                conversation.extend(&sampled, &observation(turn)).unwrap();
                messages.push(Message::assistant(reply));
                messages.extend(observation(turn));
            }
            let messages: Vec<Value> = messages.iter().map(to_template).collect();
            let tools: Vec<Value> = tools().iter().map(hone_trace::ToolSpec::to_openai).collect();
            let mut variables = Map::new();
            variables.insert("bos_token".into(), "<|endoftext|>".into());
            let whole = renderer.template(true).render(&TemplateInput {
                messages: &messages,
                tools: Some(&tools),
                documents: None,
                add_generation_prompt: true,
                variables: &variables,
                clock: Clock::parse("2024-05-15").unwrap(),
            }).unwrap();
            prop_assert_eq!(tokenizer.decode(conversation.ids()).unwrap(), whole.clone());
            prop_assert_eq!(conversation.ids(), tokenizer.encode(&whole).unwrap());
        }
    }
}

#[test]
fn a_suffix_is_what_the_template_writes_after_the_reply() {
    let renderer = renderer(&source("qwen_like.jinja"), "<|im_end|>", frozen());
    let mut conversation = open(&renderer, &tools()).unwrap();
    let tokenizer = renderer.tokenizer();
    let call =
        tokenizer.encode("<tool_call>\n{\"name\": \"search\", \"arguments\": {}}\n</tool_call><|im_end|>").unwrap();
    let suffix = conversation.extend(&call, &[Message::tool("search", "one"), Message::tool("search", "two")]).unwrap();
    assert!(suffix.forced.is_empty());
    assert_eq!(
        tokenizer.decode(&suffix.observation).unwrap(),
        "\n<|im_start|>user\n<tool_response>\none\n</tool_response>\n<tool_response>\ntwo\n</tool_response><|im_end|>\n\
         <|im_start|>assistant\n"
    );
}

#[test]
fn thinking_turned_off_is_part_of_every_suffix() {
    let mut settings = frozen();
    settings.variables.insert("enable_thinking".into(), false.into());
    let renderer = renderer(&source("qwen_like.jinja"), "<|im_end|>", settings);
    let mut conversation = open(&renderer, &ToolSet::none()).unwrap();
    let prompt = renderer.tokenizer().decode(conversation.prompt()).unwrap();
    assert!(prompt.ends_with("assistant\n<think>\n\n</think>\n\n"), "{prompt}");
    let suffix = conversation.extend(&[5], &[Message::user("more")]).unwrap();
    let shown = renderer.tokenizer().decode(&suffix.observation).unwrap();
    assert_eq!(shown, "\n<|im_start|>user\nmore<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n");
}

#[test]
fn a_template_that_strips_reasoning_is_told_with_its_line() {
    let source = source("qwen_like.jinja");
    let line = 1 + source.lines().position(|line| line.contains("loop.index0 > ns.last_query")).unwrap();
    let conversation = open(&renderer(&source, "<|im_end|>", frozen()), &tools()).unwrap();
    assert_eq!(conversation.rewrites(), [Rewrite::Reasoning { line: Some(line) }]);
    let chatml = open(&renderer(CHATML, "<|im_end|>", frozen()), &tools()).unwrap();
    assert_eq!(chatml.rewrites(), []);
}

#[test]
fn a_template_that_moves_the_tools_is_told_with_its_line() {
    let source = source("mistral_like.jinja");
    let line = 1 + source.lines().position(|line| line.contains("loop.index0 == ns.last")).unwrap();
    let conversation = open(&renderer(&source, "<|im_end|>", frozen()), &tools()).unwrap();
    assert_eq!(conversation.rewrites(), [Rewrite::Prompt { line: Some(line) }]);
}

#[test]
fn a_template_that_forgets_replies_is_refused_with_its_line() {
    let source = source("forgetful.jinja");
    let line = 1 + source.lines().position(|line| line.contains("loop.last")).unwrap();
    let error = open(&renderer(&source, "<|im_end|>", frozen()), &ToolSet::none()).unwrap_err();
    assert!(matches!(error, RenderError::NotAppendOnly { line: Some(found), .. } if found == line), "{error}");
    assert!(error.to_string().contains("drops the reply"), "{error}");
}

#[test]
fn a_turn_that_ends_without_a_special_token_is_refused() {
    let plain = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}";
    let error = open(&renderer(plain, "<|im_end|>", frozen()), &ToolSet::none()).unwrap_err();
    assert!(matches!(error, RenderError::NoBoundary { .. }), "{error}");
}

#[test]
fn the_templates_own_end_of_turn_joins_the_stop_ids() {
    // The directory names only <|endoftext|>, as generation configs of base models do.
    let renderer = renderer(CHATML, "<|endoftext|>", frozen());
    let conversation = open(&renderer, &ToolSet::none()).unwrap();
    let id = |token: &str| renderer.tokenizer().token_to_id(token).unwrap();
    assert_eq!(conversation.stop_ids(), [id("<|endoftext|>"), id("<|im_end|>")]);
}

#[test]
fn a_template_that_ignores_tools_is_refused() {
    let bare = "{% for m in messages %}<|im_start|>{{m.role}}\n{{m.content}}<|im_end|>\n{% endfor %}\
                {% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";
    let error = open(&renderer(bare, "<|im_end|>", frozen()), &tools()).unwrap_err();
    let message = error.to_string();
    assert!(matches!(error, RenderError::ToolsLost { .. }), "{message}");
    for word in ["get_weather", "search", "tools_in_system", "ignores `tools`"] {
        assert!(message.contains(word), "{word} not in {message}");
    }
    open(&renderer(bare, "<|im_end|>", frozen()), &ToolSet::none()).unwrap();
}

#[test]
fn names_in_the_system_prompt_do_not_pass_for_tools() {
    let bare =
        "{% for m in messages %}<|im_start|>{{m.role}}\n{{m.content}}<|im_end|>\n{% endfor %}<|im_start|>assistant\n";
    let renderer = renderer(bare, "<|im_end|>", frozen());
    let error = renderer
        .open(&Prompt {
            system: Some("Use get_weather (city, days, place, street) and search (query)."),
            messages: &[Message::user("hi")],
            tools: &tools(),
            variables: &IndexMap::new(),
            sections: &[],
        })
        .unwrap_err();
    assert!(error.to_string().contains("mentions their names elsewhere"), "{error}");
}

#[test]
fn a_template_that_leaves_out_parameters_is_refused() {
    let names = "<|im_start|>system\n{% for t in tools or [] %}{{ t.function.name }} {% endfor %}<|im_end|>\n\
                 {% for m in messages %}<|im_start|>{{m.role}}\n{{m.content}}<|im_end|>\n{% endfor %}<|im_start|>assistant\n";
    let error = open(&renderer(names, "<|im_end|>", frozen()), &tools()).unwrap_err();
    assert!(error.to_string().contains("parameter place.street of get_weather"), "{error}");
}

#[test]
fn tools_in_system_serves_templates_without_tools() {
    let settings = RenderSettings { tools_in_system: true, ..frozen() };
    let renderer = renderer(&source("alternating.jinja"), "<|im_end|>", settings);
    let mut conversation = open(&renderer, &tools()).unwrap();
    let prompt = renderer.tokenizer().decode(conversation.prompt()).unwrap();
    assert!(prompt.contains("\"street\"") && prompt.contains("<tool_call>"), "{prompt}");
    // The template knows no tool role; the result is shown as a user message.
    let suffix = conversation.extend(&[5], &[Message::tool("search", "found")]).unwrap();
    let shown = renderer.tokenizer().decode(&suffix.observation).unwrap();
    assert_eq!(shown, "\n<|im_start|>user\n<tool_response>\nfound\n</tool_response><|im_end|>\n<|im_start|>model\n");
}

#[test]
fn a_template_that_refuses_tool_results_is_refused_before_sampling() {
    let shows = template("alternating.jinja")
        .replace("{%- for message in messages %}", "{{- tools | tojson }}{%- for message in messages %}");
    let error = open(&renderer(&shows, "<|im_end|>", frozen()), &tools()).unwrap_err();
    assert!(matches!(error, RenderError::ObservationLost { role: "tool", .. }), "{error}");
    assert!(error.to_string().contains("must alternate"), "{error}");
}

#[test]
fn variables_reach_the_prompt_and_today_is_the_tasks_date() {
    let renderer = renderer(&source("llama_like.jinja"), "<|eot|>", RenderSettings::default());
    let variables: IndexMap<String, String> =
        [("CURRENT_DATE", "2024-02-29"), ("LOGGED_IN_USER", "mia_li")].map(|(k, v)| (k.into(), v.into())).into();
    let conversation = renderer
        .open(&Prompt {
            system: Some("Policy."),
            messages: &[Message::user("hi")],
            tools: &ToolSet::none(),
            variables: &variables,
            sections: &["# Examples\nnone".into()],
        })
        .unwrap();
    let prompt = renderer.tokenizer().decode(conversation.prompt()).unwrap();
    assert!(prompt.contains("Today Date: 29 Feb 2024"), "{prompt}");
    assert!(
        prompt
            .contains("Policy.\n\n# Context\n- Today's date: 2024-02-29\n- Logged-in user: mia_li\n\n# Examples\nnone"),
        "{prompt}"
    );
}

#[test]
fn earlier_calls_go_in_as_objects_or_as_text_where_a_template_glues_strings() {
    let glue = "{% for m in messages %}<|im_start|>{{m.role}}\n{{m.content or ''}}{% for c in m.tool_calls or [] %}\
                {{ c.function.name + c.function.arguments }}{% endfor %}<|im_end|>\n{% endfor %}<|im_start|>assistant\n";
    let renderer = renderer(glue, "<|im_end|>", frozen());
    let arguments = json!({"city": "Bern"}).as_object().unwrap().clone();
    let conversation = renderer
        .open(&Prompt {
            system: None,
            messages: &[
                Message::user("hi"),
                Message::calls(vec![ToolCall::new("get", arguments)]),
                Message::tool("get", "1"),
            ],
            tools: &ToolSet::none(),
            variables: &IndexMap::new(),
            sections: &[],
        })
        .unwrap();
    let prompt = renderer.tokenizer().decode(conversation.prompt()).unwrap();
    assert!(prompt.contains("get{\"city\":\"Bern\"}"), "{prompt}");
}
