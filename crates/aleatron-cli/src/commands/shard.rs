//! `aleatron eval --shard I/N`: one of several shards of an evaluation, for batch systems;
//! `aleatron merge` merges them.

use super::eval::{progress_bar, resume_hint};
use super::report::{Earlier, fault, open_folder};
use super::{Failure, Outcome};
use crate::invocation::Invocation;
use crate::{Verdict, interrupt, output};
#[cfg(feature = "transformer")]
use aleatron::eval::language::{LanguageJob, LanguageJournal};
use aleatron::eval::{Error as EvalError, Job, Journal, Provenance, Task, plural, whole_lines};
#[cfg(feature = "transformer")]
use aleatron::transformer::Transformer;
use aleatron::{Cancel, CoreError};
use std::io::Write;
use std::path::Path;
use std::str::FromStr;
use std::time::Instant;

/// Tasks of a shard: a process that is killed loses at most one of them.
const TASKS: usize = 64;

/// The beginning and the end of names of shards.
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

/// An evaluation whose tasks are divided into shards.
pub(crate) trait ShardedJob {
    /// Returns the first line of the file of a shard.
    fn header(&self) -> Result<String, EvalError>;
    /// Returns the tasks of a shard, counted from 0.
    fn shard(&self, index: usize, n: usize) -> Vec<Task>;
    /// Splits tasks into about `n`.
    fn split(&self, tasks: &[Task], n: usize) -> Vec<Task>;
    /// Returns the generator, length and seed of a task.
    fn label(&self, task: &Task) -> (String, usize, u64);
    /// Returns the tasks among `tasks` that the file of a shard has not finished; an error if it is
    /// of another evaluation.
    fn missing_in(&self, file: &str, tasks: &[Task]) -> Result<Vec<Task>, EvalError>;
    /// Runs a task and returns its line of the file.
    fn run(&mut self, task: &Task, cancel: Cancel<'_>) -> Result<String, EvalError>;
}

impl ShardedJob for Job<'_> {
    fn header(&self) -> Result<String, EvalError> {
        self.schedule().to_line()
    }

    fn shard(&self, index: usize, n: usize) -> Vec<Task> {
        self.schedule().shard(index, n)
    }

    fn split(&self, tasks: &[Task], n: usize) -> Vec<Task> {
        self.schedule().split(tasks, n)
    }

    fn label(&self, task: &Task) -> (String, usize, u64) {
        self.schedule().label(task)
    }

    fn missing_in(&self, file: &str, tasks: &[Task]) -> Result<Vec<Task>, EvalError> {
        let mut journal = self.journal(None)?;
        journal.merge(Journal::read(file)?)?;
        Ok(journal.missing_of(tasks))
    }

    fn run(&mut self, task: &Task, cancel: Cancel<'_>) -> Result<String, EvalError> {
        Job::run(self, task, cancel, &mut || ())?.to_line()
    }
}

#[cfg(feature = "transformer")]
impl ShardedJob for LanguageJob<Transformer> {
    fn header(&self) -> Result<String, EvalError> {
        self.schedule().to_line()
    }

    fn shard(&self, index: usize, n: usize) -> Vec<Task> {
        self.schedule().shard(index, n)
    }

    fn split(&self, tasks: &[Task], n: usize) -> Vec<Task> {
        self.schedule().split(tasks, n)
    }

    fn label(&self, task: &Task) -> (String, usize, u64) {
        self.schedule().label(task)
    }

    fn missing_in(&self, file: &str, tasks: &[Task]) -> Result<Vec<Task>, EvalError> {
        let mut journal = self.journal();
        journal.merge(LanguageJournal::read(file)?)?;
        Ok(journal.missing_of(tasks))
    }

    fn run(&mut self, task: &Task, cancel: Cancel<'_>) -> Result<String, EvalError> {
        LanguageJob::run(self, task, cancel, &mut |_| ())?.to_line()
    }
}

/// Runs a shard and writes the results into the folder, task by task.
pub(crate) fn run(
    job: &mut impl ShardedJob,
    shard: Shard,
    folder: &Path,
    earlier: Earlier,
    invocation: &Invocation,
    provenance: &Provenance,
) -> Outcome {
    let name = shard.name();
    // Other shards are written into the same folder.
    let _lock = open_folder(folder, &format!(".{name}.lock"))?;
    let path = folder.join(name);
    let mut text = job.header()? + "\n";
    let own = job.shard(shard.index, shard.n);
    if earlier == Earlier::Replace && path.exists() {
        check_replaced(job, &own, &path)?;
    }
    let mut missing = own;
    if earlier == Earlier::Resume && path.exists() {
        let known = read_text(&path)?;
        missing = job.missing_in(&known, &missing).map_err(|error| fault(&path, &error))?;
        whole_lines(&known).clone_into(&mut text);
    }
    text.push_str(&(provenance.to_line()? + "\n"));
    // The whole file, without a line that was cut off.
    aleatron::eval::write(&path, &text)?;
    let mut file =
        std::fs::OpenOptions::new().append(true).open(&path).map_err(|e| fault(&path, &e))?;
    let tasks = job.split(&missing, TASKS);
    interrupt::watch();
    let bar = progress_bar();
    bar.set_length(tasks.len() as u64);
    let (start, mut done) = (Instant::now(), 0);
    for task in &tasks {
        let (generator, length, seed) = job.label(task);
        bar.set_message(format!("{generator}, {length} bits, seed {seed}"));
        match job.run(task, Cancel::when(&interrupt::is_pressed)) {
            Err(error) if error.core() == Some(&CoreError::Cancelled) => break,
            line => {
                let line = line? + "\n";
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

/// Checks that a shard can be replaced without losing work: it is finished, and of the same
/// evaluation.
fn check_replaced(job: &impl ShardedJob, own: &[Task], path: &Path) -> Result<(), Failure> {
    let refuse = |reason: &str| Err(fault(path, &format!("{reason}, or replace it with --force")));
    let foreign = "it is of something else: choose another folder";
    match job.missing_in(&read_text(path)?, own) {
        Err(_) => refuse(foreign),
        Ok(missing) if missing.is_empty() => Ok(()),
        Ok(_) => refuse("it is unfinished: go on with --resume"),
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

/// Reads the file of a shard.
pub(crate) fn read_text(path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path).map_err(|e| fault(path, &e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_shards_follow_from_the_names_of_the_others() {
        let shard = |text: &str| text.parse::<Shard>().unwrap();
        assert_eq!(Shard::of_name("shard-2-of-4.jsonl"), Some(shard("2/4")));
        assert_eq!(Shard::of_name("shard-5-of-4.jsonl"), None);
        assert_eq!(Shard::of_name("shard-x.jsonl"), None);
        assert_eq!(Shard::missing(&[shard("2/4"), shard("4/4")]), [shard("1/4"), shard("3/4")]);
        // Shards of different numbers overlap, and nothing is known to be missing.
        assert!(
            Shard::missing(&[shard("1/2"), shard("1/4")]).is_empty()
                && Shard::missing(&[]).is_empty()
        );
    }
}
