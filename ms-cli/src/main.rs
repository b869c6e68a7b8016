//! The command-line tool `ms`.

mod cache;
mod explain;

use clap::Command;
use std::process::ExitCode;

fn main() -> ExitCode {
    let program = Command::new("ms")
        .about("Tools around programs that use ms")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(cache::command())
        .subcommand(explain::command());
    let result = match program.get_matches().subcommand() {
        Some(("cache", matches)) => ms::catch(|| cache::run(matches)).flatten(),
        Some(("explain", matches)) => ms::catch(|| explain::run(matches)).flatten(),
        _ => unreachable!("a subcommand is required, and there is no other"),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}
