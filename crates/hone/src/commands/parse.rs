//! `hone parse`: one model reply, or many, to the calls it makes.

use std::{
    collections::HashMap,
    fs::File,
    io::{BufRead, BufReader, Read, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, anyhow, bail};
use hone_chat::parse::{Format, Toolbox, explain, parse};
use hone_trace::{ToolSet, clean_line};
use serde_json::Value;

use crate::output;

/// Largest accepted reply. A million tokens are about 5 MB.
const MAX_REPLY: usize = 16 << 20;

/// Largest input line: a reply in JSON's escapes, and its tools.
const MAX_LINE: usize = 64 << 20;

/// Read tool calls out of a model's reply.
///
/// Prints one JSON object: the calls, the text around them, and what is wrong with a reply that is neither valid calls
/// nor plain text, with the calls it was meant to make where only one reading exists.
///
/// Exit code 0: the reply is good; 1: it has an error; 2: it could not be read. With --jsonl verdicts are data: 0 when
/// every line was processed, 2 when some could not be.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The reply: a file, or - for standard input. At most 16 MiB of UTF-8
    #[arg(value_name = "FILE", default_value = "-")]
    file: PathBuf,

    /// The tools on offer: a JSON list of OpenAI function schemas
    #[arg(long, value_name = "TOOLS.json", required_unless_present = "jsonl")]
    tools: Option<PathBuf>,

    /// The format of the reply, or auto: the one whose markers occur
    #[arg(long, value_name = "NAME", default_value = "auto")]
    format: String,

    /// Also say what each format makes of the reply
    #[arg(long)]
    explain: bool,

    /// Read many: lines {"id", "text", "tools"?, "format"?} in, one line out for each
    #[arg(long)]
    jsonl: bool,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let format = named_format(&args.format)?;
    let tools = args.tools.as_deref().map(read_tools).transpose()?;
    let input: Box<dyn Read> = if args.file == Path::new("-") {
        Box::new(std::io::stdin().lock())
    } else {
        Box::new(File::open(&args.file).with_context(|| format!("cannot open {}", args.file.display()))?)
    };
    if args.jsonl {
        let mut job = Lines { tools, format, explain: args.explain, known: HashMap::new() };
        return job.run(BufReader::new(input), output::json_lines());
    }
    let tools = tools.ok_or_else(|| anyhow!("--tools is missing; give the file of tool schemas"))?;
    let text = read_reply(input)?;
    let parsed = parse(&text, &tools, format);
    let explained = args.explain.then(|| explain(&text, &tools));
    writeln!(output::json(), "{}", parsed.to_json(None, explained.as_deref()))?;
    Ok(ExitCode::from(u8::from(parsed.error.is_some())))
}

fn named_format(name: &str) -> anyhow::Result<Option<Format>> {
    if name == "auto" { Ok(None) } else { Ok(Some(name.parse()?)) }
}

fn read_tools(path: &Path) -> anyhow::Result<Toolbox> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read the tools in {}", path.display()))?;
    let tools: ToolSet = serde_json::from_str(&text).with_context(|| {
        format!("{} is not a JSON list of tools like [{{\"type\": \"function\", \"function\": {{…}}}}]", path.display())
    })?;
    Ok(Toolbox::new(&tools)?)
}

fn read_reply(input: impl Read) -> anyhow::Result<String> {
    let mut bytes = Vec::new();
    input.take(MAX_REPLY as u64 + 1).read_to_end(&mut bytes).context("cannot read the reply")?;
    if bytes.len() > MAX_REPLY {
        bail!("the reply is larger than {} MiB; split it, or give --jsonl one reply per line", MAX_REPLY >> 20);
    }
    String::from_utf8(bytes).map_err(not_utf8)
}

fn not_utf8(error: std::string::FromUtf8Error) -> anyhow::Error {
    let at = error.utf8_error().valid_up_to();
    anyhow!("the reply is not UTF-8: byte {at} starts no character; convert it first, e.g. with iconv -t UTF-8")
}

/// Many replies. An unreadable one costs only its own line.
struct Lines {
    tools: Option<Toolbox>,
    format: Option<Format>,
    explain: bool,
    /// Tools by their JSON text: files repeat the same few sets.
    known: HashMap<String, Toolbox>,
}

impl Lines {
    fn run(&mut self, mut input: impl BufRead, mut output: impl Write) -> anyhow::Result<ExitCode> {
        let mut unusable = 0;
        let mut number = 0;
        let mut line = Vec::new();
        while next_line(&mut input, &mut line)? {
            number += 1;
            if line.trim_ascii().is_empty() {
                continue;
            }
            let mut id = None;
            match self.answer(&line, &mut id) {
                Ok(answer) => writeln!(output, "{answer}")?,
                Err(error) => {
                    unusable += 1;
                    let id = id.unwrap_or(Value::Null);
                    writeln!(
                        output,
                        "{}",
                        serde_json::json!({"id": id, "line": number, "unusable": format!("{error:#}")})
                    )?;
                    crate::output::note!("{}", clean_line(&format!("line {number} (id {id}): {error:#}")));
                }
            }
        }
        output.flush()?;
        if unusable > 0 {
            crate::output::note!("{unusable} of {number} lines could not be used; the others were");
        }
        Ok(ExitCode::from(if unusable > 0 { 2 } else { 0 }))
    }

    fn answer(&mut self, line: &[u8], id: &mut Option<Value>) -> anyhow::Result<String> {
        if line.len() > MAX_LINE {
            bail!("the line is longer than {} MiB", MAX_LINE >> 20);
        }
        let case: Value =
            serde_json::from_slice(line).context("not a JSON object {\"id\", \"text\", \"tools\"?, \"format\"?}")?;
        *id = case.get("id").cloned();
        let text = case.get("text").and_then(Value::as_str).ok_or_else(|| anyhow!("\"text\" must be a string"))?;
        if text.len() > MAX_REPLY {
            bail!("the reply is larger than {} MiB", MAX_REPLY >> 20);
        }
        let format = match case.get("format") {
            None | Some(Value::Null) => self.format,
            Some(Value::String(name)) => named_format(name)?,
            Some(other) => bail!("\"format\" must be a string, found {other}"),
        };
        let explain_too = self.explain;
        let tools = self.toolbox(case.get("tools"))?;
        let parsed = parse(text, tools, format);
        let explained = explain_too.then(|| explain(text, tools));
        Ok(parsed.to_json(Some(id.as_ref().unwrap_or(&Value::Null)), explained.as_deref()))
    }

    fn toolbox(&mut self, tools: Option<&Value>) -> anyhow::Result<&Toolbox> {
        let Some(tools) = tools.filter(|tools| !tools.is_null()) else {
            return self
                .tools
                .as_ref()
                .ok_or_else(|| anyhow!("the line has no \"tools\", and there is no --tools; give one of them"));
        };
        let key = tools.to_string();
        if !self.known.contains_key(&key) {
            let set: ToolSet = serde_json::from_value(tools.clone()).context("\"tools\"")?;
            // A file in which every line has new tools must not fill the memory.
            if self.known.len() >= 1024 {
                self.known.clear();
            }
            self.known.insert(key.clone(), Toolbox::new(&set)?);
        }
        self.known.get(&key).ok_or_else(|| anyhow!("the tools were not kept"))
    }
}

/// Reads a line, of which only the first [`MAX_LINE`] bytes (and one) are kept.
fn next_line(input: &mut impl BufRead, line: &mut Vec<u8>) -> anyhow::Result<bool> {
    line.clear();
    let mut any = false;
    loop {
        let buffer = input.fill_buf().context("cannot read the input")?;
        if buffer.is_empty() {
            return Ok(any);
        }
        any = true;
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let part = &buffer[..end.unwrap_or(buffer.len())];
        let room = (MAX_LINE + 1).saturating_sub(line.len());
        line.extend_from_slice(&part[..part.len().min(room)]);
        let used = end.map_or(buffer.len(), |end| end + 1);
        input.consume(used);
        if end.is_some() {
            return Ok(true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOOLS: &str = r#"[{"type": "function", "function": {"name": "ping", "parameters": {"type": "object"}}}]"#;

    #[test]
    fn a_bad_line_costs_itself_alone() {
        let good =
            format!(r#"{{"id": "a", "text": "<tool_call>{{\"name\": \"ping\"}}</tool_call>", "tools": {TOOLS}}}"#);
        let bad = [
            "not json".to_owned(),
            r#"{"id": "b", "text": 3}"#.to_owned(),
            r#"{"id": "c", "text": "x"}"#.to_owned(),
            format!(r#"{{"id": "d", "text": "x", "tools": {TOOLS}, "format": "hermse"}}"#),
            r#"{"id": "e", "text": "x", "tools": [{"name": "f", "parameters": {"type": "strng"}}]}"#.to_owned(),
        ];
        let mut input = bad.join("\n").into_bytes();
        input.extend_from_slice(b"\n{\"id\": \"f\", \"text\": \"\xff\"}\n\n");
        input.extend_from_slice(good.as_bytes());
        let mut job = Lines { tools: None, format: None, explain: false, known: HashMap::new() };
        let mut output = Vec::new();
        let code = job.run(input.as_slice(), &mut output).unwrap();
        assert_eq!(format!("{code:?}"), format!("{:?}", ExitCode::from(2)));
        let lines: Vec<Value> =
            String::from_utf8(output).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 7);
        assert_eq!(lines[6]["calls"][0]["name"], "ping");
        assert_eq!(lines[1]["id"], "b");
        assert!(lines[3]["unusable"].as_str().unwrap().contains("did you mean \"hermes\""));
        assert!(lines[4]["unusable"].as_str().unwrap().contains("tool \"f\""));
        assert_eq!(lines[5]["line"], 6);
    }

    #[test]
    fn replies_have_a_limit_and_an_encoding() {
        assert_eq!(read_reply(&b"hi"[..]).unwrap(), "hi");
        assert!(read_reply(std::io::repeat(b'x')).unwrap_err().to_string().contains("16 MiB"));
        assert!(read_reply(&b"ab\xffc"[..]).unwrap_err().to_string().contains("byte 2"));
    }
}
