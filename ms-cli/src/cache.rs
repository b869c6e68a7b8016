//! Lists and maintains the compile cache, and explains misses: `ms cache`.

use clap::{Arg, ArgMatches, Command, value_parser};
use ms::{Code, Error};
use ms_cache::{Entry, Ignored, Store, differences};
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

type Result<T = ()> = std::result::Result<T, Error>;

/// Returns the subcommand with its nested subcommands.
pub fn command() -> Command {
    let file = |help: &'static str| Arg::new("FILE").required(true).value_parser(value_parser!(PathBuf)).help(help);
    let path = Arg::new("path").long("path").global(true).value_name("DIR").value_parser(value_parser!(PathBuf));
    Command::new("cache")
        .about("The compile cache")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .arg(path.help("The directory of the cache; default: the one that the environment names"))
        .subcommand(Command::new("path").about("Prints its directory"))
        .subcommand(Command::new("stat").about("Entries, bytes, hits, misses, time saved"))
        .subcommand(Command::new("ls").about("Lists its entries, the most recently used first"))
        .subcommand(
            Command::new("explain")
                .about("Shows how the latest entry of a function differs from the most similar one before it")
                .arg(Arg::new("NAME").required(true).help("The name of the function")),
        )
        .subcommand(Command::new("verify").about("Reads every entry; fails if one would be ignored"))
        .subcommand(Command::new("gc").about("Evicts entries beyond the cap, and removes the files of killed writers"))
        .subcommand(Command::new("clear").about("Removes all entries"))
        .subcommand(Command::new("export").about("Writes all entries into one file").arg(file("The file to write")))
        .subcommand(
            Command::new("import")
                .about("Adds the entries of an exported file, each of which is verified")
                .arg(file("The file to read; code in it will be executed")),
        )
}

/// Runs a nested subcommand.
pub fn run(matches: &ArgMatches) -> Result {
    let (name, arguments) = matches.subcommand().expect("a subcommand is required");
    let path = match arguments.get_one::<PathBuf>("path").or_else(|| matches.get_one("path")) {
        Some(path) => path.clone(),
        None => ms::cache_path().ok_or_else(|| refuse("its directory is not known; pass --path"))?,
    };
    let file = || arguments.get_one::<PathBuf>("FILE").expect("the file is required");
    match name {
        "path" => println!("{}", path.display()),
        "stat" => stat(&open(&path)?)?,
        "ls" => list(&open(&path)?)?,
        "explain" => explain(&open(&path)?, arguments.get_one::<String>("NAME").expect("the name is required"))?,
        "verify" => verify(&open(&path)?)?,
        "gc" | "clear" => {
            let store = open(&path)?;
            let removed = if name == "gc" { store.gc() } else { store.clear() }.map_err(refuse)?;
            println!("removed {}, {}", counted(removed.entries, "entry", "entries"), size(removed.bytes));
        }
        "export" => {
            let count = open(&path)?.export(file()).map_err(refuse)?;
            println!("wrote {} into {}", counted(count, "entry", "entries"), file().display());
        }
        "import" => {
            let imported = made(&path)?.import(file()).map_err(refuse)?;
            let added = counted(imported.entries, "entry", "entries");
            println!("added {added}, skipped {} that are invalid", imported.ignored);
        }
        other => unreachable!("`{other}` is no subcommand"),
    }
    Ok(())
}

fn refuse(what: impl Display) -> Error {
    Error::new(Code::Cache, format!("compile cache: {what}"))
}

/// Opens the store in a directory, which is created if it is missing.
fn made(path: &Path) -> Result<Store> {
    let options = ms::cache_options().map_err(refuse)?;
    Store::open(path, &options).map_err(refuse)
}

/// Opens the store in an existing directory.
fn open(path: &Path) -> Result<Store> {
    if !path.exists() {
        return Err(refuse(format!("there is none at `{}`", path.display())));
    }
    made(path)
}

fn stat(store: &Store) -> Result {
    let listing = store.entries().map_err(refuse)?;
    let bytes = listing.entries.iter().map(|it| it.file_bytes).sum();
    let sums = store.statistics();
    if let Err(error) = &sums {
        ms::error::warn(refuse(error));
    }
    let sums = sums.unwrap_or_default();
    println!("path     {}", store.path().display());
    println!("entries  {}", listing.entries.len());
    println!("ignored  {}", listing.ignored.len());
    println!("size     {}", size(bytes));
    println!("hits     {}", sums.hits);
    println!("misses   {}", sums.misses);
    println!("saved    {:.3} s", sums.saved.as_secs_f64());
    Ok(())
}

/// Returns the name of an entry's function, with the piece of it that the entry contains.
fn title(entry: &Entry) -> String {
    let function = entry.note("function").unwrap_or("?");
    match entry.note("piece").or(entry.note("level")).filter(|it| !it.is_empty()) {
        Some(piece) => format!("{function} ({piece})"),
        None => function.to_owned(),
    }
}

fn list(store: &Store) -> Result {
    let listing = store.entries().map_err(refuse)?;
    println!("{:<32} {:>8} {:>10}  signature", "function", "age", "size");
    for entry in &listing.entries {
        let signature = entry.note("signature").unwrap_or("");
        println!("{:<32} {:>8} {:>10}  {signature}", title(entry), age(entry.created), size(entry.file_bytes));
    }
    listing.ignored.iter().for_each(print_ignored);
    Ok(())
}

fn print_ignored(ignored: &Ignored) {
    println!("{}: {}", ignored.name, ignored.reason);
}

fn explain(store: &Store, name: &str) -> Result {
    let mut entries = store.entries().map_err(refuse)?.entries;
    entries.retain(|it| it.note("function") == Some(name));
    // Entries of the same second are ordered by their last use.
    entries.sort_by_key(|it| std::cmp::Reverse((it.created, it.used)));
    let Some((latest, others)) = entries.split_first() else {
        return Err(refuse(format!("there is no entry of `{name}`")));
    };
    println!(
        "{}, made {} ago, signature {}",
        title(latest),
        age(latest.created),
        latest.note("signature").unwrap_or("")
    );
    let nearest = others.iter().min_by_key(|it| differences(&latest.key, &it.key).len());
    let Some(nearest) = nearest else {
        println!("It is the only entry of this function.");
        return Ok(());
    };
    println!("The most similar one, {}, was made {} ago. Differences:", title(nearest), age(nearest.created));
    for part in differences(&latest.key, &nearest.key) {
        match (nearest.note(&part), latest.note(&part)) {
            (Some(before), Some(now)) if before != now => println!("  {part}: {before} -> {now}"),
            _ => println!("  {part}"),
        }
    }
    if latest.note("source") != nearest.note("source") {
        println!("The source of the function differs.");
    }
    Ok(())
}

fn verify(store: &Store) -> Result {
    let (whole, ignored) = store.verify().map_err(refuse)?;
    ignored.iter().for_each(print_ignored);
    println!("{} whole, {} ignored", counted(whole, "entry", "entries"), ignored.len());
    match ignored.len() {
        0 => Ok(()),
        _ => Err(refuse("some entries are invalid; they are compiled again on demand")),
    }
}

fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{:.1} KiB", bytes as f64 / 1024.0),
        _ => format!("{:.1} MiB", bytes as f64 / 1_048_576.0),
    }
}

/// Formats the age of a time, which is zero if it is in the future.
fn age(time: SystemTime) -> String {
    let seconds = time.elapsed().unwrap_or(Duration::ZERO).as_secs();
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}
