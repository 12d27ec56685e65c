//! A human at the terminal.

use std::io::{BufRead, Write};

use async_trait::async_trait;
use hone_trace::Fault;

use super::{User, UserEnd, UserTurn, broken};

/// Shows the agent's message and reads one line. End of input ends the conversation.
///
/// Reading blocks the thread: a human plays one episode at a time.
#[derive(Debug)]
pub struct HumanUser<R, W> {
    input: R,
    output: W,
}

impl<R: BufRead + Send, W: Write + Send> HumanUser<R, W> {
    pub fn new(input: R, output: W) -> Self {
        Self { input, output }
    }

    fn ask(&mut self, agent: &str) -> std::io::Result<UserTurn> {
        writeln!(self.output, "agent: {agent}")?;
        write!(self.output, "you: ")?;
        self.output.flush()?;
        let mut line = String::new();
        if self.input.read_line(&mut line)? == 0 {
            return Ok(UserTurn { text: String::new(), end: Some(UserEnd::Stop) });
        }
        Ok(UserTurn::read(line.trim_end()))
    }
}

#[async_trait]
impl<R: BufRead + Send, W: Write + Send> User for HumanUser<R, W> {
    async fn reply(&mut self, agent: &str) -> Result<UserTurn, Fault> {
        self.ask(agent).map_err(|error| broken(format!("the terminal broke: {error}"), false))
    }
}
