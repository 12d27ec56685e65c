//! `hone export`: a run for other tools.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::builder::PossibleValuesParser;
use hone_view::exports::FORMATS;
use hone_view::exports::wandb::{Mode, send};
use hone_view::run::Run;

/// Write a run in the format of another tool.
///
/// Reads only the run directory, live or finished, one trace at a time. Prints the files it wrote. Nothing leaves this
/// machine except W&B's rows if `WANDB_API_KEY` is set: those are also sent to its server, unless `WANDB_MODE` is
/// offline.
#[derive(Debug, clap::Args)]
#[command(after_help = help())]
pub(crate) struct Args {
    /// A run directory.
    run: PathBuf,
    /// One of the formats below.
    #[arg(long, value_name = "FORMAT", value_parser = PossibleValuesParser::new(FORMATS.iter().map(|format| format.name)), hide_possible_values = true)]
    to: String,
    /// Output directory, created if it does not exist. Default: RUN/exports/FORMAT
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

fn help() -> String {
    let lines = FORMATS.iter().map(|format| format!("  {:<12} {}", format.name, format.about));
    let formats: Vec<String> = lines.collect();
    format!(
        "Formats:\n{}\n\nExamples:\n  hone export runs/quickstart-1 --to tensorboard\n  hone export runs/quickstart-1 --to parquet --out tables",
        formats.join("\n")
    )
}

pub(crate) fn run(args: Args) -> Result<ExitCode> {
    let mode = if args.to == "wandb" { Mode::from_env().map_err(anyhow::Error::msg)? } else { Mode::Offline };
    if mode == Mode::Disabled {
        bail!("WANDB_MODE is disabled: nothing is exported; unset it, or set it to offline");
    }
    let run = Run::open(&args.run)?;
    for note in run.notes() {
        crate::output::note!("note: {}", hone_view::text::clean(&note));
    }
    let out = args.out.unwrap_or_else(|| args.run.join("exports").join(&args.to));
    let mut stdout = crate::output::text();
    for format in FORMATS.iter().filter(|format| format.name == args.to) {
        for path in format.write(&run, &out)? {
            writeln!(stdout, "{}", path.display())?;
        }
    }
    if let Mode::Online(account) = mode {
        match send(&run, account) {
            Ok(place) => crate::output::note!("sent: {}", hone_view::text::clean(&place)),
            Err(why) => bail!(
                "{}; the offline run is whole: `wandb sync {}` uploads it later",
                hone_view::text::clean(&why),
                out.join("offline-run-*").display()
            ),
        }
    }
    Ok(ExitCode::SUCCESS)
}
