//! `hone render`: the prompt a model would see, as text or token ids.
//!
//! The messages go to the template as they are in the file: keys unknown to Hone reach the template too.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, IsTerminal as _, Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow, bail};
use hone_chat::budget::{Plan, PromptCost, TurnCost};
use hone_chat::files::{parse_json, read_json, read_text};
use hone_chat::template::{ChatTemplate, Clock, TemplateInput};
use hone_chat::tools::{missing_names, read_tools, system_section};
use hone_chat::{ModelDir, Tokenizer};
use hone_trace::{ToolSet, clean, clean_json, clean_line, plainly};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::output;
use crate::place::Place;
use crate::recipes::setting;

/// Show what a model is shown: messages to prompt text or token ids
#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(crate) struct Args {
    /// Messages: a JSON array, or an object with "messages" (and "tools"); `-` reads standard input
    #[arg(value_name = "MESSAGES.json")]
    messages: PathBuf,
    /// Model directory (tokenizer.json, tokenizer_config.json, chat_template.jinja), an adapter, or a run
    #[arg(long, value_name = "DIR", required_unless_present_any = ["template", "jsonl"])]
    model: Option<PathBuf>,
    /// Tools the agent is offered: a JSON array of OpenAI function schemas
    #[arg(long, value_name = "TOOLS.json")]
    tools: Option<PathBuf>,
    /// Put the tools into the system prompt, for a template that ignores them
    #[arg(long)]
    tools_in_system: bool,
    /// Use this chat template instead of the model's; with --jsonl also a directory of templates
    #[arg(long, value_name = "FILE")]
    template: Option<PathBuf>,
    /// Print token ids as a JSON array instead of text
    #[arg(long)]
    ids: bool,
    /// Do not open the assistant's turn at the end
    #[arg(long)]
    no_generation_prompt: bool,
    /// A variable for the template, e.g. enable_thinking=false; the value is TOML, or else text
    #[arg(long = "set", value_name = "KEY=VALUE")]
    variables: Vec<String>,
    /// Date that the template takes for today, YYYY-MM-DD [default: the host's date in UTC]
    #[arg(long, value_name = "DATE")]
    date: Option<String>,
    /// Show what the prompt takes of a context window of N tokens, and how many turns are left
    #[arg(long, value_name = "N")]
    budget: Option<usize>,
    /// With --budget: tokens of one turn, reply and observation together
    #[arg(long, value_name = "N", default_value_t = 1024)]
    turn: usize,
    /// Print one JSON object: text, ids, the names that did not reach the prompt, the budget
    #[arg(long, conflicts_with = "jsonl")]
    json: bool,
    /// Render many: input lines {"id", "messages", "tools"?, "documents"?, "kwargs"?, "template"? (a file under
    /// --template DIR, --model DIR or the input's directory), "add_generation_prompt"?}, output lines {"id", "text" or
    /// "ids"} or {"id", "error"}
    #[arg(long, conflicts_with_all = ["tools", "tools_in_system", "budget"])]
    jsonl: bool,
}

#[expect(clippy::needless_pass_by_value, reason = "every command's run takes its arguments whole")]
pub(crate) fn run(args: Args) -> Result<ExitCode> {
    let job = Job::new(&args)?;
    if args.jsonl { render_lines(&args, &job) } else { render_one(&args, &job) }
}

/// Settings that hold for every conversation of a call.
struct Job {
    model: Option<ModelDir>,
    variables: Map<String, Value>,
    clock: Clock,
    generation_prompt: bool,
}

/// The directory of the texts: of a run or an adapter, that of its model. A directory of texts alone will do too.
fn model_of(given: &Path) -> Result<PathBuf> {
    let policy = ["recipe.toml", "adapter_config.json"].iter().any(|file| given.join(file).is_file());
    Ok(if policy { Place::find(given)?.model } else { given.to_owned() })
}

/// One conversation, as the file has it.
#[derive(Debug, Clone, Deserialize)]
struct Request {
    #[serde(default)]
    id: Value,
    messages: Vec<Value>,
    #[serde(default)]
    tools: Option<Vec<Value>>,
    #[serde(default)]
    documents: Option<Value>,
    #[serde(default)]
    kwargs: Map<String, Value>,
    #[serde(default)]
    template: Option<PathBuf>,
    #[serde(default)]
    add_generation_prompt: Option<bool>,
}

impl Job {
    fn new(args: &Args) -> Result<Self> {
        let model = args.model.as_deref().map(model_of).transpose()?.map(|model| ModelDir::open(&model)).transpose()?;
        let mut variables = model.as_ref().map(|model| model.special_tokens().clone()).unwrap_or_default();
        for assignment in &args.variables {
            let (key, value) = setting(assignment)?;
            variables.insert(key, value);
        }
        let clock = match &args.date {
            Some(date) => Clock::parse(date).map_err(|error| anyhow!("--date: {error}"))?,
            None => Clock::host(),
        };
        Ok(Self { model, variables, clock, generation_prompt: !args.no_generation_prompt })
    }

    fn template(&self, file: Option<&Path>, with_tools: bool) -> Result<ChatTemplate> {
        match (file, &self.model) {
            (Some(file), _) => {
                ChatTemplate::new(&read_text(file)?).map_err(|error| anyhow!("{}: {error}", file.display()))
            }
            (None, Some(model)) => Ok(model.template(with_tools)?),
            (None, None) => bail!("no template; give --model DIR or --template FILE"),
        }
    }

    fn tokenizer(&self) -> Result<&Tokenizer> {
        let model = self.model.as_ref().context("token ids need the model's tokenizer; give --model DIR")?;
        Ok(model.tokenizer()?)
    }

    fn text(&self, template: &ChatTemplate, request: &Request) -> Result<String> {
        check_messages(&request.messages)?;
        let mut variables = self.variables.clone();
        variables.extend(request.kwargs.clone());
        Ok(template.render(&TemplateInput {
            messages: &request.messages,
            tools: request.tools.as_deref(),
            documents: request.documents.as_ref(),
            add_generation_prompt: request.add_generation_prompt.unwrap_or(self.generation_prompt),
            variables: &variables,
            clock: self.clock,
        })?)
    }

    /// Window budget of a prompt of `total` tokens. `Ok(Err(_))`: it does not fit.
    fn plan(
        &self,
        template: &ChatTemplate,
        request: &Request,
        total: usize,
        window: usize,
        turn: usize,
    ) -> Result<Result<Plan, hone_chat::budget::DoesNotFit>> {
        let tokenizer = self.tokenizer()?;
        let bare = Request { tools: None, ..request.clone() };
        // A template that requires tools cannot be measured without them.
        let without_tools = self.text(template, &bare).map_or(Ok(total), |text| tokenizer.count(&text))?;
        let (system, task): (Vec<&Value>, Vec<&Value>) =
            request.messages.iter().partition(|message| message["role"] == "system");
        let system: String = system.into_iter().map(text_of).collect();
        let task: Vec<String> = task.into_iter().map(text_of).collect();
        let prompt = PromptCost::measure(tokenizer, total, without_tools, &system, &task)?;
        Ok(Plan::new(window, prompt, TurnCost { reply: turn, observation: 0 }))
    }
}

fn text_of(message: &Value) -> String {
    match &message["content"] {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

fn check_messages(messages: &[Value]) -> Result<()> {
    if messages.is_empty() {
        bail!("the conversation has no messages; give at least one, for example a user message");
    }
    if let Some(at) = messages.iter().position(|message| !message.get("role").is_some_and(Value::is_string)) {
        bail!("message {at} is not an object with a \"role\"; write {{\"role\": \"user\", \"content\": …}}");
    }
    // Some templates take a tool's answer as an object.
    let wrong = |message: &Value| message["content"].is_number() || message["content"].is_boolean();
    match messages.iter().position(wrong) {
        Some(at) => bail!(
            "the content of message {at} is {}; write text in quotes, a list of parts ({{\"type\": \"text\", \"text\": …}}), or \
             null",
            messages[at]["content"]
        ),
        None => Ok(()),
    }
}

fn read_input(path: &Path) -> Result<String> {
    if path.as_os_str() != "-" {
        return Ok(read_text(path)?);
    }
    let mut bytes = Vec::new();
    std::io::stdin().lock().read_to_end(&mut bytes).context("cannot read standard input")?;
    String::from_utf8(bytes)
        .map_err(|error| anyhow!("standard input is not UTF-8 at byte {}", error.utf8_error().valid_up_to()))
}

/// The conversation and the tools the agent is offered, however the template gets them.
fn read_request(args: &Args) -> Result<(Request, ToolSet)> {
    let json: Value = parse_json(&args.messages, &read_input(&args.messages)?)?;
    let json = if json.is_array() { json!({ "messages": json }) } else { json };
    let mut request: Request = serde_json::from_value(json)
        .map_err(|error| anyhow!(plainly(&error.to_string())))
        .with_context(|| format!("{}: expected an array of messages", args.messages.display()))?;
    if let Some(file) = &args.tools {
        let tools: Value = read_json(file)?;
        read_tools(&tools).map_err(|error| anyhow!("{}: {error}", file.display()))?;
        request.tools = tools.as_array().cloned();
    }
    let tools = read_tools(&Value::Array(request.tools.clone().unwrap_or_default()))?;
    if args.tools_in_system && !tools.is_empty() {
        request.tools = None;
        add_to_system(&mut request.messages, &system_section(&tools));
    }
    Ok((request, tools))
}

fn add_to_system(messages: &mut Vec<Value>, section: &str) {
    let system = messages.first().filter(|first| first["role"] == "system").and_then(|first| first["content"].as_str());
    match system.map(|text| format!("{text}\n\n{section}")) {
        Some(text) => messages[0]["content"] = text.into(),
        None => messages.insert(0, json!({ "role": "system", "content": section })),
    }
}

fn render_one(args: &Args, job: &Job) -> Result<ExitCode> {
    let (request, tools) = read_request(args)?;
    let template = job.template(args.template.as_deref(), request.tools.is_some())?;
    let text = job.text(&template, &request)?;
    let ids = if args.ids || args.budget.is_some() { Some(job.tokenizer()?.encode(&text)?) } else { None };
    let missing: Vec<String> = missing_names(&text, &tools).iter().map(ToString::to_string).collect();
    let plan = match (args.budget, &ids) {
        (Some(window), Some(ids)) => Some(job.plan(&template, &request, ids.len(), window, args.turn)?),
        _ => None,
    };

    let mut stdout = std::io::stdout().lock();
    if args.json {
        let budget = plan
            .as_ref()
            .map(|plan| plan.as_ref().map_or_else(|error| json!({ "error": error.to_string() }), |plan| json!(plan)));
        let shown = json!({ "text": text, "ids": ids, "missing": missing, "budget": budget });
        writeln!(stdout, "{}", clean_json(&shown.to_string()))?;
    } else if args.ids {
        writeln!(stdout, "{}", serde_json::to_string(&ids)?)?;
    } else if stdout.is_terminal() {
        stdout.write_all(clean(&text).as_bytes())?;
    } else {
        // Output to a file or a program is the prompt, byte for byte.
        stdout.write_all(text.as_bytes())?;
    }
    stdout.flush()?;
    Ok(verdict(&missing, plan.as_ref()))
}

/// The prompt is printed either way. A template that hides tools from the model, or a prompt that does not fit, gives
/// exit code 1.
fn verdict(missing: &[String], plan: Option<&Result<Plan, hone_chat::budget::DoesNotFit>>) -> ExitCode {
    match plan {
        Some(Ok(plan)) => anstream::eprint!("{}", plan.table()),
        Some(Err(error)) => crate::output::note!("no: {}", clean(&error.to_string())),
        None => {}
    }
    if !missing.is_empty() {
        crate::output::note!(
            "no: the tools do not reach the prompt: {} not found in it. Use a chat template that renders `tools` \
             (--template), or put them into the system prompt (--tools-in-system)",
            clean_line(&missing.join(", "))
        );
    }
    if missing.is_empty() && !matches!(plan, Some(Err(_))) { ExitCode::SUCCESS } else { ExitCode::from(1) }
}

fn render_lines(args: &Args, job: &Job) -> Result<ExitCode> {
    let input: Box<dyn BufRead> = if args.messages.as_os_str() == "-" {
        Box::new(std::io::stdin().lock())
    } else {
        let file =
            std::fs::File::open(&args.messages).with_context(|| format!("cannot read {}", args.messages.display()))?;
        Box::new(BufReader::new(file))
    };
    let mut templates = HashMap::new();
    let mut stdout = output::json_lines();
    for (number, line) in input.split(b'\n').enumerate() {
        let place = || format!("{}, line {}", args.messages.display(), number + 1);
        let line = line.with_context(place)?;
        if line.trim_ascii().is_empty() {
            continue;
        }
        let request: Request = serde_json::from_slice(&line).with_context(place)?;
        let mut out = render_line(args, job, &mut templates, &request)
            .unwrap_or_else(|error| json!({ "error": format!("{error:#}") }));
        out["id"] = request.id;
        writeln!(stdout, "{out}")?;
    }
    stdout.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// A template that a line names, looked up in the directory of --template or --model, else in the lines' own; never
/// outside of it. Lines are untrusted, and an error about a template shows its text.
fn template_under(args: &Args, file: &Path) -> Result<PathBuf> {
    let directory = match (&args.template, &args.model) {
        (Some(given), _) if given.is_dir() => given.clone(),
        (None, Some(model)) => model.clone(),
        _ if args.messages.as_os_str() == "-" => PathBuf::from("."),
        _ => args.messages.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new(".")).into(),
    };
    let whole = |path: &Path| path.canonicalize().with_context(|| format!("cannot read {}", path.display()));
    let (inside, found) = (whole(&directory)?, whole(&directory.join(file))?);
    if found.starts_with(&inside) {
        return Ok(found);
    }
    bail!(
        "the template {} lies outside of {}; put it there, or name its directory with --template DIR",
        file.display(),
        directory.display()
    )
}

/// Templates compiled so far, by file and by whether tools are offered.
type Templates = HashMap<(Option<PathBuf>, bool), ChatTemplate>;

fn render_line(args: &Args, job: &Job, templates: &mut Templates, request: &Request) -> Result<Value> {
    let named = request.template.as_deref().map(|file| template_under(args, file)).transpose()?;
    let file = named.or_else(|| args.template.clone().filter(|given| !given.is_dir()));
    let key = (file, request.tools.is_some());
    let template = if let Some(template) = templates.get(&key) {
        template.clone()
    } else {
        let template = job.template(key.0.as_deref(), key.1)?;
        templates.insert(key, template.clone());
        template
    };
    let text = job.text(&template, request)?;
    Ok(if args.ids { json!({ "ids": job.tokenizer()?.encode(&text)? }) } else { json!({ "text": text }) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_is_text_parts_or_nothing() {
        let message = |content: Value| check_messages(&[json!({"role": "user", "content": content})]);
        for fine in [json!("x"), json!([{"type": "text", "text": "x"}]), Value::Null, json!({"answer": 1})] {
            message(fine).unwrap();
        }
        for wrong in [json!(5), json!(true)] {
            let error = message(wrong.clone()).unwrap_err().to_string();
            assert!(error.starts_with(&format!("the content of message 0 is {wrong}; write text")), "{error}");
        }
    }
}
