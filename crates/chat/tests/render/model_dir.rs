//! Model directories as they are found in the wild.

use std::path::Path;

use crate::support::{TEXTS, files, template, tools};
use hone_chat::parse::Format;
use hone_chat::{CHATML, ModelDir, ModelDirError, RenderSettings, Renderer, Tokenizer, call_format, train_tokenizer};
use serde_json::{Map, Value, json};

fn write(dir: &Path, name: &str, json: &Value) {
    std::fs::write(dir.join(name), json.to_string()).unwrap();
}

fn with_tokenizer() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("tokenizer.json"), &files().tokenizer).unwrap();
    dir
}

#[test]
fn tokens_are_strings_or_objects_and_stop_ids_numbers_or_lists() {
    let dir = with_tokenizer();
    write(
        dir.path(),
        "tokenizer_config.json",
        &json!({
            "bos_token": null,
            "eos_token": {"__type": "AddedToken", "content": "<|im_end|>", "special": true},
            "pad_token": "<|endoftext|>",
            "chat_template": "x",
        }),
    );
    write(dir.path(), "generation_config.json", &json!({"eos_token_id": [0, 7]}));
    write(dir.path(), "config.json", &json!({"eos_token_id": 99, "max_position_embeddings": 2048}));
    let model = ModelDir::open(dir.path()).unwrap();
    assert_eq!(
        Value::Object(model.special_tokens().clone()),
        json!({"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"})
    );
    assert_eq!(model.stop_ids(), [0, 7, 2]);
    assert_eq!(model.context_window(), Some(2048));
    write(dir.path(), "generation_config.json", &json!({"eos_token_id": 0}));
    assert_eq!(ModelDir::open(dir.path()).unwrap().stop_ids(), [0, 2]);
    std::fs::remove_file(dir.path().join("generation_config.json")).unwrap();
    std::fs::remove_file(dir.path().join("tokenizer_config.json")).unwrap();
    assert_eq!(ModelDir::open(dir.path()).unwrap().stop_ids(), [99]);
}

#[test]
fn templates_come_from_four_places() {
    let dir = with_tokenizer();
    let source = |model: &ModelDir, tools| model.template(tools).unwrap().source().to_owned();
    write(dir.path(), "chat_template.json", &json!({"chat_template": "processor"}));
    assert_eq!(source(&ModelDir::open(dir.path()).unwrap(), false), "processor");
    write(
        dir.path(),
        "tokenizer_config.json",
        &json!({"chat_template": [
        {"name": "default", "template": "plain"}, {"name": "tool_use", "template": "with tools"}]}),
    );
    let named = ModelDir::open(dir.path()).unwrap();
    assert_eq!((source(&named, false), source(&named, true)), ("plain".into(), "with tools".into()));
    std::fs::write(dir.path().join("chat_template.jinja"), "file").unwrap();
    assert_eq!(source(&ModelDir::open(dir.path()).unwrap(), true), "file");
    std::fs::create_dir(dir.path().join("additional_chat_templates")).unwrap();
    std::fs::write(dir.path().join("additional_chat_templates/tool_use.jinja"), "more").unwrap();
    assert_eq!(source(&ModelDir::open(dir.path()).unwrap(), true), "more");
}

#[test]
fn what_is_missing_is_named_with_its_fix() {
    let dir = tempfile::tempdir().unwrap();
    let model = ModelDir::open(dir.path()).unwrap();
    assert!(model.tokenizer().unwrap_err().to_string().contains("save_pretrained"));
    assert!(model.template(false).unwrap_err().to_string().contains("chat_template.jinja"));
    assert!(matches!(ModelDir::open(&dir.path().join("none")), Err(ModelDirError::NotADirectory(_))));
    write(dir.path(), "tokenizer_config.json", &json!({"chat_template": [{"name": "rag", "template": "x"}]}));
    let error = ModelDir::open(dir.path()).unwrap().template(false).unwrap_err();
    assert!(error.to_string().contains("rag"), "{error}");
    std::fs::write(dir.path().join("tokenizer_config.json"), "{\n  \"eos_token\": \n}").unwrap();
    let error = ModelDir::open(dir.path()).unwrap_err().to_string();
    assert!(error.contains("line 3 column 1"), "{error}");
    std::fs::write(dir.path().join("tokenizer_config.json"), [b'{', 0xff, b'}']).unwrap();
    let error = ModelDir::open(dir.path()).unwrap_err().to_string();
    assert!(error.contains("not UTF-8") && error.contains("offset 1"), "{error}");
    std::fs::write(dir.path().join("tokenizer_config.json"), "{}").unwrap();
    std::fs::write(dir.path().join("tokenizer.json"), "{\"version\": \"1.0\"}").unwrap();
    let error = ModelDir::open(dir.path()).unwrap_err().to_string();
    assert!(error.contains("tokenizer.json") && error.contains("save_pretrained"), "{error}");
}

#[test]
fn tokens_known_to_the_config_alone_are_added() {
    let dir = with_tokenizer();
    let plain = Tokenizer::from_json(&files().tokenizer).unwrap();
    let id = plain.vocab_size() as u32;
    write(
        dir.path(),
        "tokenizer_config.json",
        &json!({"added_tokens_decoder": {
        (id.to_string()): {"content": "<|new|>", "special": true, "lstrip": false, "rstrip": false, "normalized": false, "single_word": false},
        "2": {"content": "<|im_end|>", "special": true}}}),
    );
    let model = ModelDir::open(dir.path()).unwrap();
    assert_eq!(model.tokenizer().unwrap().encode("<|new|>").unwrap(), [id]);
    assert!(plain.encode("<|new|>").unwrap().len() > 1);
    write(
        dir.path(),
        "tokenizer_config.json",
        &json!({"added_tokens_decoder": {"5": {"content": "<|im_end|>", "special": true}}}),
    );
    let error = ModelDir::open(dir.path()).unwrap_err().to_string();
    assert!(error.contains("different models"), "{error}");
}

#[test]
fn truncation_and_padding_saved_with_a_tokenizer_are_not_applied() {
    let mut json: Value = serde_json::from_str(&files().tokenizer).unwrap();
    json["truncation"] = json!({"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0});
    json["padding"] = json!({"strategy": {"Fixed": 512}, "direction": "Right", "pad_to_multiple_of": null, "pad_id": 0, "pad_type_id": 0, "pad_token": "<|endoftext|>"});
    let cut = Tokenizer::from_json(&json.to_string()).unwrap();
    let plain = Tokenizer::from_json(&files().tokenizer).unwrap();
    let text = TEXTS.concat();
    assert_eq!(cut.encode(&text).unwrap(), plain.encode(&text).unwrap());
}

#[test]
fn streamed_text_is_decoded_text_and_characters_stay_whole() {
    let tokenizer = Tokenizer::from_json(&files().tokenizer).unwrap();
    let text = format!("{}<|im_end|>\n{}ÅßЖ漢\u{1f9ff}", TEXTS.concat(), "<tool_call> x");
    let ids = tokenizer.encode(&text).unwrap();
    let mut stream = tokenizer.stream();
    let mut streamed: String = ids.iter().map(|&id| stream.push(id)).collect();
    streamed.push_str(&stream.finish());
    assert_eq!(streamed, text);
    assert_eq!(tokenizer.decode(&ids).unwrap(), text);
    // A character cut in two is held back, then emitted as broken at the end.
    let emoji = tokenizer.encode("\u{1f9ff}").unwrap();
    let mut stream = tokenizer.stream();
    assert_eq!(stream.push(emoji[0]), "");
    assert_eq!(stream.finish(), "\u{fffd}");
    // A model that emits endless broken bytes does not make the stream hold them forever.
    let mut stream = tokenizer.stream();
    let broken: String = (0..64).map(|_| stream.push(emoji[0])).collect();
    assert!(broken.chars().count() > 32, "{}", broken.len());
}

#[test]
fn a_trained_tokenizer_is_deterministic_and_reads_back() {
    let train =
        || train_tokenizer(TEXTS.iter().cycle().take(24).map(|text| (*text).to_owned()), 500, &["<|extra|>"]).unwrap();
    let files = train();
    assert_eq!(files, train());
    let dir = tempfile::tempdir().unwrap();
    files.write(dir.path()).unwrap();
    let model = ModelDir::open(dir.path()).unwrap();
    let tokenizer = model.tokenizer().unwrap();
    assert!(tokenizer.vocab_size() <= 500);
    let ids = |text: &str| tokenizer.encode(text).unwrap();
    assert_eq!([ids("<|endoftext|>"), ids("<|im_start|>"), ids("<|im_end|>")], [[0], [1], [2]]);
    assert_eq!(ids("<tool_call>").len() + ids("<|extra|>").len(), 2);
    assert_eq!(ids("12345").len(), 5, "digits are single");
    assert_eq!(tokenizer.special_ids(), [0, 1, 2]);
    assert_eq!(model.stop_ids(), [2, 0]);
    let odd = "any bytes \u{0}\u{10ffff} ünïcode 漢字 \t\n";
    assert_eq!(tokenizer.decode(&ids(odd)).unwrap(), odd);
    Renderer::new(&model, RenderSettings::default()).unwrap();
    let error = train_tokenizer(["x".to_owned()], 100, &[]).unwrap_err().to_string();
    assert!(error.contains("265") && error.contains("; raise the vocabulary"), "{error}");
}

#[test]
fn a_templates_call_format_is_found_by_reading_a_call_back() {
    let format = |source: &str| {
        let template = hone_chat::template::ChatTemplate::new(source).unwrap();
        let mut tokens = Map::new();
        tokens.insert("eos_token".into(), "</s>".into());
        tokens.insert("bos_token".into(), "<s>".into());
        call_format(&template, &tokens)
    };
    assert_eq!(format(CHATML), Some(Format::Hermes));
    assert_eq!(format(&template("qwen_like.jinja")), Some(Format::Hermes));
    assert_eq!(format(&template("llama_like.jinja")), Some(Format::Llama3Json));
    assert_eq!(format(&template("alternating.jinja")), None);
    let mistral = template("mistral_like.jinja").replace("[CALLS]", "[TOOL_CALLS]");
    assert_eq!(format(&mistral), Some(Format::Mistral));
}

/// The directory of the shared data whose template ignores tools.
#[test]
fn the_shared_tiny_model_is_refused_with_tools_and_encodes_as_python_does() {
    let model = ModelDir::open(&hone_testdata::committed("tiny-qwen3")).unwrap();
    assert_eq!(model.stop_ids(), [2]);
    let renderer = Renderer::new(&model, RenderSettings::default()).unwrap();
    let messages = [hone_trace::Message::user("hi")];
    let none = indexmap::IndexMap::new();
    let prompt =
        hone_chat::Prompt { system: None, messages: &messages, tools: &tools(), variables: &none, sections: &[] };
    let error = renderer.open(&prompt).unwrap_err().to_string();
    assert!(error.contains("get_weather") && error.contains("tools_in_system"), "{error}");
    let renderer =
        Renderer::new(&model, RenderSettings { tools_in_system: true, ..RenderSettings::default() }).unwrap();
    let conversation = renderer.open(&prompt).unwrap();
    assert!(renderer.tokenizer().decode(conversation.prompt()).unwrap().contains("get_weather"));
}
