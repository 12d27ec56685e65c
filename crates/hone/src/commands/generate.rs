//! `hone generate`: prompts of a file to replies.

use std::io::{BufRead, BufReader, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use futures::StreamExt as _;
use hone_chat::parse::{Toolbox, parse};
use hone_chat::template::{Clock, TemplateInput};
use hone_chat::tools::read_tools;
use hone_trace::{SamplingParams, Seed, StopReason};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::speaker::{Sampling, Speaker};

/// Continue the prompts of a file: JSON lines in, JSON lines out
///
/// A line of input has "prompt" (text, taken as it is), "messages" (rendered by the model's template, with "tools" if there
/// are any) or "ids"; and an "id", which comes back. A line of output has "id", "text", "stop" (stop or length), "tokens",
/// and for messages "content", "calls" and "failure", as `hone parse` reads them. A line that fails has "error" alone, and the
/// exit code is 1.
///
///   echo '{"id": 1, "messages": [{"role": "user", "content": "Hello."}]}' | hone generate policy -
///   hone generate runs/garden-1 prompts.jsonl --samples 4 --temperature 1 > replies.jsonl
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// A model directory, an adapter, a checkpoint, or a run (its best checkpoint)
    model: PathBuf,
    /// JSON lines; `-` reads standard input
    #[arg(value_name = "PROMPTS.jsonl")]
    prompts: PathBuf,
    /// Replies to each prompt; more than one need a temperature
    #[arg(long, value_name = "N", default_value_t = 1)]
    samples: u32,
    /// Prompts generated concurrently
    #[arg(long, value_name = "N", default_value_t = 16)]
    concurrency: usize,
    #[command(flatten)]
    sampling: Sampling,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    #[serde(default)]
    id: Value,
    #[serde(default)]
    prompt: Option<String>,
    #[serde(default)]
    messages: Option<Vec<Value>>,
    #[serde(default)]
    ids: Option<Vec<u32>>,
    #[serde(default)]
    tools: Option<Vec<Value>>,
}

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    let params = args.sampling.params()?;
    if args.samples > 1 && params.temperature == 0.0 {
        bail!("--samples {} at temperature 0 are all the same; add --temperature 1", args.samples);
    }
    let input: Box<dyn BufRead> = if args.prompts.as_os_str() == "-" {
        Box::new(BufReader::new(std::io::stdin()))
    } else {
        let open = || {
            let file = args.prompts.display();
            format!("cannot read {file}; name a file of JSON lines ({{\"prompt\": …}} each), or - for stdin")
        };
        Box::new(BufReader::new(std::fs::File::open(&args.prompts).with_context(open)?))
    };
    let runtime = tokio::runtime::Runtime::new().context("cannot start the runtime")?;
    runtime.block_on(async {
        let speaker = Speaker::open(&args.model, args.sampling.threads).await?;
        let lines =
            input.lines().enumerate().filter(|(_, line)| !line.as_ref().is_ok_and(|line| line.trim().is_empty()));
        let work = lines.flat_map(|(number, line)| {
            let line = line.map_err(|error| error.to_string());
            (0..args.samples).map(move |sample| (number, sample, line.clone()))
        });
        let jobs = work.map(|(number, sample, line)| {
            let seed = Seed::root(args.sampling.seed).at(number as u64).at(u64::from(sample)).value();
            one(&speaker, &params, seed, number, line)
        });
        let mut replies = futures::stream::iter(jobs).buffered(args.concurrency.max(1));
        let (mut out, mut failed) = (crate::output::json(), false);
        while let Some(reply) = replies.next().await {
            failed |= reply.get("text").is_none();
            writeln!(out, "{reply}")?;
        }
        Ok(ExitCode::from(u8::from(failed)))
    })
}

/// The reply to one line, or why there is none.
async fn one(
    speaker: &Speaker,
    params: &SamplingParams,
    seed: u64,
    number: usize,
    line: Result<String, String>,
) -> Value {
    let read = line.and_then(|line| serde_json::from_str::<Request>(&line).map_err(|error| error.to_string()));
    let (id, reply) = match read {
        Err(error) => {
            let what = format!(
                "line {} is not a request ({error}); write {{\"prompt\": …}} or {{\"messages\": […]}}",
                number + 1
            );
            (Value::Null, Err(anyhow::Error::msg(what)))
        }
        Ok(request) => (request.id.clone(), reply(speaker, params, seed, &request).await),
    };
    let mut reply = reply.unwrap_or_else(|error| json!({"error": format!("{error:#}")}));
    reply["id"] = id;
    reply
}

async fn reply(speaker: &Speaker, params: &SamplingParams, seed: u64, request: &Request) -> Result<Value> {
    let tools = read_tools(&Value::Array(request.tools.clone().unwrap_or_default()))?;
    let encode = |text: &str| speaker.renderer.tokenizer().encode(text);
    let prompt = match (&request.prompt, &request.messages, &request.ids) {
        (Some(text), None, None) => encode(text)?,
        (None, Some(messages), None) => {
            let template = speaker.renderer.template(!tools.is_empty());
            encode(&template.render(&TemplateInput {
                messages,
                tools: request.tools.as_deref(),
                documents: None,
                add_generation_prompt: true,
                variables: speaker.texts.special_tokens(),
                clock: Clock::host(),
            })?)?
        }
        (None, None, Some(ids)) => ids.clone(),
        _ => bail!("a line needs exactly one of \"prompt\", \"messages\" and \"ids\"; add one, or remove the others"),
    };
    if prompt.is_empty() {
        bail!("the prompt is empty; a model continues at least one token");
    }
    let params = SamplingParams { stop_ids: speaker.texts.stop_ids().to_vec(), ..params.clone() };
    let sample = speaker.sample(prompt, params, seed).await?;
    let text = speaker.text(&sample.tokens);
    let stop = if sample.stop == StopReason::StopId { "stop" } else { "length" };
    let mut reply = json!({"text": text, "stop": stop, "tokens": sample.tokens.len()});
    if request.messages.is_some() {
        let read = parse(&text, &Toolbox::new(&tools)?, speaker.format);
        reply["content"] = read.content.into();
        reply["calls"] = read.calls.iter().map(|parsed| json!(parsed.call)).collect();
        reply["failure"] = json!(read.error);
    }
    Ok(reply)
}
