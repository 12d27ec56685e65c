//! Model directories created on the fly: a tokenizer trained on a few lines, and a template.

use std::path::Path;
use std::sync::OnceLock;

use hone_chat::{ModelDir, TokenizerFiles, train_tokenizer};
use hone_trace::{ToolSet, ToolSpec};
use serde_json::json;

/// Texts in several scripts, so that merges exist that a careless join would cross.
pub(crate) const TEXTS: [&str; 6] = [
    "the weather in Zürich is fine, the weather in Paris is not. assistant user system tool\n\n",
    "{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\"}}\n",
    "東京の天気は 晴れです。 Привет, мир! 안녕하세요 👩‍👩‍👧 12345\n\n\n",
    "def f(x):\n    return x + 1\n\n\tindented  twice   thrice\n",
    "{\"type\": \"function\", \"function\": {\"name\": \"search\", \"parameters\": {\"type\": \"object\"}}}",
    "I will look that up for you. Thank you. You are welcome. Today Date: \n\n",
];

pub(crate) fn files() -> &'static TokenizerFiles {
    static FILES: OnceLock<TokenizerFiles> = OnceLock::new();
    FILES.get_or_init(|| {
        let texts = (0..4).flat_map(|_| TEXTS.iter().map(|text| (*text).to_owned()));
        let extra =
            ["<|head|>", "<|body|>", "<|eot|>", "[INST]", "[/INST]", "[TOOLS]", "[/TOOLS]", "[CALLS]", "[RESULTS]"];
        train_tokenizer(texts, 700, &extra).unwrap()
    })
}

/// A model directory with this template; `end` is its end-of-turn token.
pub(crate) fn model(template: &str, end: &str) -> ModelDir {
    let dir = tempfile::tempdir().unwrap();
    files().write(dir.path()).unwrap();
    let write = |name: &str, text: String| std::fs::write(dir.path().join(name), text).unwrap();
    write("chat_template.jinja", template.to_owned());
    write("tokenizer_config.json", json!({"eos_token": end, "bos_token": "<|endoftext|>"}).to_string());
    std::fs::remove_file(dir.path().join("generation_config.json")).unwrap();
    ModelDir::open(dir.path()).unwrap()
}

pub(crate) fn template(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/render/templates").join(name);
    std::fs::read_to_string(path).unwrap()
}

pub(crate) fn tools() -> ToolSet {
    let weather = json!({"type": "object", "properties": {
        "city": {"type": "string", "description": "a city, <b>bold</b> & \"quoted\""},
        "days": {"type": ["integer", "null"]},
        "place": {"type": "object", "properties": {"street": {"type": "string"}}}}, "required": ["city"]});
    let search = json!({"type": "object", "properties": {"query": {"type": "string"}}});
    ToolSet::new(vec![
        ToolSpec::new("get_weather", "The weather of a city", weather),
        ToolSpec::new("search", "Finds things", search),
    ])
    .unwrap()
}
