//! `aleatron eval --shard I/N`: one of several shards of an evaluation, for batch systems; `aleatron merge` puts them together.

use super::eval::{progress_bar, resume_hint};
use super::report::{Earlier, fault, open_folder};
use super::{Failure, Outcome};
use crate::invocation::Invocation;
use crate::{Verdict, interrupt, output};
use aleatron::eval::{Error as EvalError, Job, Journal, Task, plural, whole_lines};
use aleatron::{Cancel, CoreError};
use std::io::Write;
use std::path::Path;
use std::str::FromStr;
use std::time::Instant;

/// Tasks of a shard: a process that is killed loses at most one of them.
const TASKS: usize = 64;

/// How the names of shards begin and end.
const BEGINNING: &str = "shard-";
const ENDING: &str = ".jsonl";

/// A shard, counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shard {
    index: usize,
    n: usize,
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let read = || {
            let (index, n) = text.split_once('/')?;
            let (index, n): (usize, usize) = (index.trim().parse().ok()?, n.trim().parse().ok()?);
            (1..=n).contains(&index).then(|| Self { index: index - 1, n })
        };
        read().ok_or_else(|| "use I/N, such as 1/4, 2/4, 3/4 and 4/4".to_owned())
    }
}

impl std::fmt::Display for Shard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.index + 1, self.n)
    }
}

/// Runs a shard and writes the results into the folder, task by task.
pub(crate) fn run(
    job: &Job<'_>,
    shard: Shard,
    folder: &Path,
    earlier: Earlier,
    invocation: &Invocation,
) -> Outcome {
    let name = shard.name();
    // Other shards are written into the same folder.
    let _lock = open_folder(folder, &format!(".{name}.lock"))?;
    let path = folder.join(name);
    let mut journal = job.journal(None)?;
    let mut text = job.schedule().to_line()? + "\n";
    let own = job.schedule().shard(shard.index, shard.n);
    if earlier == Earlier::Replace && path.exists() {
        check_replaced(job, &own, &path)?;
    }
    if earlier == Earlier::Resume && path.exists() {
        let known = read_text(&path)?;
        let finished = Journal::read(&known).and_then(|finished| journal.merge(finished));
        finished.map_err(|error| fault(&path, &error))?;
        whole_lines(&known).clone_into(&mut text);
    }
    // The whole file, without a line that was cut off.
    aleatron::eval::write(&path, &text)?;
    let mut file = std::fs::OpenOptions::new().append(true).open(&path).map_err(|e| fault(&path, &e))?;
    let missing = journal.missing_of(&own);
    let tasks = job.schedule().split(&missing, TASKS);
    interrupt::watch();
    let bar = progress_bar();
    bar.set_length(tasks.len() as u64);
    let (start, mut done) = (Instant::now(), 0);
    for task in &tasks {
        let (generator, length, seed) = job.schedule().label(task);
        bar.set_message(format!("{generator}, {length} bits, seed {seed}"));
        match job.run(task, Cancel::when(&interrupt::is_pressed), &mut || ()) {
            Err(EvalError::Core(CoreError::Cancelled)) => break,
            result => {
                let line = result?.to_line()? + "\n";
                file.write_all(line.as_bytes()).map_err(|e| fault(&path, &e))?;
            }
        }
        done += 1;
        bar.set_position(done as u64);
    }
    bar.finish_and_clear();
    file.sync_all().map_err(|e| fault(&path, &e))?;
    let seconds = start.elapsed().as_secs_f64();
    output::line(format!("Shard {shard}: {} in {seconds:.1} s", plural(done, "task")))?;
    output::line(format!("Written: {}", path.display()))?;
    if done < tasks.len() {
        output::line(format!("unfinished: {} to go", plural(tasks.len() - done, "task")))?;
        output::message(resume_hint(true, invocation));
        return Ok(Verdict::Bad);
    }
    Ok(Verdict::Good)
}

/// Checks that a shard can be replaced without losing work: it is finished, and of the same evaluation.
fn check_replaced(job: &Job<'_>, own: &[Task], path: &Path) -> Result<(), Failure> {
    let refuse = |reason: &str| Err(fault(path, &format!("{reason}, or replace it with --force")));
    let foreign = "it is of something else: choose another folder";
    let Ok(finished) = read(path) else { return refuse(foreign) };
    let mut journal = job.journal(None)?;
    if journal.merge(finished).is_err() {
        return refuse(foreign);
    }
    match journal.missing_of(own).is_empty() {
        true => Ok(()),
        false => refuse("it is unfinished: go on with --resume"),
    }
}

impl Shard {
    /// Returns the name of the file.
    fn name(self) -> String {
        format!("{BEGINNING}{}-of-{}{ENDING}", self.index + 1, self.n)
    }

    /// Reads the name of a file.
    pub(crate) fn of_name(name: &str) -> Option<Self> {
        let (index, n) = name.strip_prefix(BEGINNING)?.strip_suffix(ENDING)?.split_once("-of-")?;
        format!("{index}/{n}").parse().ok()
    }

    /// Returns whether a file has the name of a shard.
    pub(crate) fn is_name(name: &str) -> bool {
        name.starts_with(BEGINNING) && name.ends_with(ENDING)
    }

    /// Returns the shards that are missing among those of the same number.
    pub(crate) fn missing(known: &[Self]) -> Vec<Self> {
        let Some(&Self { n, .. }) = known.first() else { return Vec::new() };
        if known.iter().any(|shard| shard.n != n) {
            return Vec::new();
        }
        let all = (0..n).map(|index| Self { index, n });
        all.filter(|shard| !known.contains(shard)).collect()
    }
}

fn read_text(path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path).map_err(|e| fault(path, &e))
}

/// Reads a file of finished tasks.
pub(crate) fn read(path: &Path) -> Result<Journal, Failure> {
    Journal::read(&read_text(path)?).map_err(|e| fault(path, &e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_shards_are_known_by_the_names_of_the_others() {
        let shard = |text: &str| text.parse::<Shard>().unwrap();
        assert_eq!(Shard::of_name("shard-2-of-4.jsonl"), Some(shard("2/4")));
        assert_eq!(Shard::of_name("shard-5-of-4.jsonl"), None);
        assert_eq!(Shard::of_name("shard-x.jsonl"), None);
        assert_eq!(Shard::missing(&[shard("2/4"), shard("4/4")]), [shard("1/4"), shard("3/4")]);
        // Shards of different numbers overlap, and nothing is known to be missing.
        assert!(Shard::missing(&[shard("1/2"), shard("1/4")]).is_empty() && Shard::missing(&[]).is_empty());
    }
}
