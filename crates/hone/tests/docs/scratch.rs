//! The scratch directory of the pages' commands, with the files they name.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use super::page::repository;
use super::{FEW_TASKS, QUICK_TRAIN, command, program, texts};

/// A server that has not printed its address by then never will.
const ADDRESS_DEADLINE: Duration = Duration::from_mins(2);

pub(crate) struct Scratch(tempfile::TempDir);

impl Scratch {
    pub(crate) fn new() -> Self {
        let scratch = Self(tempfile::tempdir().unwrap());
        let (at, repository) = (scratch.path(), repository());
        for name in ["recipes", "docs"] {
            symlink(repository.join(name), at.join(name)).unwrap();
        }
        let foreign = repository.join("crates/foreign/tests/data");
        for (name, data) in [
            ("outputs/completions", foreign.join("trl/completions")),
            ("exports/dumped_evals/global_step_40_evals", foreign.join("skyrl/dumped_evals/global_step_10_evals")),
            ("history.csv", foreign.join("wandb-chart.csv")),
            ("models/Qwen3-0.6B", repository.join("crates/hone/policies/shop")),
        ] {
            fs::create_dir_all(at.join(name).parent().unwrap()).unwrap();
            symlink(data, at.join(name)).unwrap();
        }
        let recipe = fs::read_to_string(repository.join("recipes/quickstart.toml")).unwrap();
        fs::write(at.join("my-recipe.toml"), recipe.replacen("name = \"quickstart\"", "name = \"my-recipe\"", 1))
            .unwrap();
        scratch.run(at, "hone init made && cp made/*.py my_env.py");
        for more in
            ["--run runs/X --set train.steps=12 --set train.groups=3", "--run runs/retail-1 --set policy.lora.rank=2"]
        {
            scratch.run(at, &format!("hone train {QUICK_TRAIN} {FEW_TASKS} {more}"));
        }
        scratch.run(at, "cp -r runs/X runs/Y");
        scratch
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Runs a line and returns the shell's final directory. Exit code 1 is allowed.
    pub(crate) fn run(&self, directory: &Path, line: &str) -> PathBuf {
        let began = Instant::now();
        let place = self.path().join(".place");
        let script = format!("{line}\ncode=$?\npwd > '{}'\nexit $code", place.display());
        let output = command(directory, &script).stdin(Stdio::null()).output().unwrap();
        eprintln!("{:6.1} s  {line}", began.elapsed().as_secs_f64());
        let code = output.status.code();
        let [said, aside] = texts(output);
        assert!(matches!(code, Some(0 | 1)), "{line}\n{code:?}\n{said}{aside}");
        PathBuf::from(fs::read_to_string(place).unwrap().trim_end())
    }

    /// Starts a server, waits for its address and stops it.
    pub(crate) fn serve(directory: &Path, line: &str) {
        let mut command = command(directory, &format!("exec {line}"));
        command.env("HONE_TOKEN", "a-token-of-an-operator").env("HONE_AGENT_TOKEN", "a-token-of-an-agent");
        let mut server =
            Stopped(command.process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
        let (send, lines) = mpsc::channel();
        let pipes: [Box<dyn std::io::Read + Send>; 2] =
            [Box::new(server.0.stdout.take().unwrap()), Box::new(server.0.stderr.take().unwrap())];
        for pipe in pipes {
            let send = send.clone();
            std::thread::spawn(move || {
                BufReader::new(pipe).lines().map_while(Result::ok).all(|line| send.send(line).is_ok())
            });
        }
        drop(send);
        let mut said = String::new();
        loop {
            match lines.recv_timeout(ADDRESS_DEADLINE) {
                Ok(line) if line.contains("http://") => return,
                Ok(line) => said.extend([&*line, "\n"]),
                Err(error) => panic!("{line} ({}): {error}\n{said}", program().display()),
            }
        }
    }
}

/// A program that is killed on drop.
struct Stopped(Child);

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
