//! `aleatron eval --shard I/N`: one of several shares of an evaluation, for batch systems; `aleatron merge` puts them together.

use super::report::{Earlier, fault, try_writing};
use super::{Failure, Outcome};
use crate::{Verdict, interrupt, output};
use aleatron::eval::{Assembly, Job, plural, read_lines};
use aleatron::{Cancel, CoreError, Error};
use std::io::Write;
use std::path::Path;
use std::str::FromStr;
use std::time::Instant;

/// Tasks a shard is cut into: what is lost when it is killed is at most one of them.
const TASKS: usize = 64;

/// How the names of shards begin and end.
pub(crate) const BEGINNING: &str = "shard-";
pub(crate) const ENDING: &str = ".jsonl";

/// A share, counted from 0.
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

/// Runs a share and writes what it finds into the folder, task by task.
pub(crate) fn run(job: &Job<'_>, shard: Shard, folder: &Path, earlier: Earlier) -> Outcome {
    std::fs::create_dir_all(folder).map_err(|e| fault(folder, &e))?;
    try_writing(folder)?;
    let path = folder.join(format!("{BEGINNING}{}-of-{}{ENDING}", shard.index + 1, shard.n));
    let mut assembly = Assembly::new(job.outline().clone(), None)?;
    let mut text = job.outline().to_line()? + "\n";
    if earlier == Earlier::Resume && path.exists() {
        let (outline, parts) = read(&path)?;
        if outline != *job.outline() {
            return Err(fault(&path, &"it is of another network, data set, plan or version"));
        }
        for part in parts {
            text.push_str(&(part.to_line()? + "\n"));
            assembly.add(part)?;
        }
    }
    // As a whole: a line that was cut off is gone.
    aleatron::eval::write(&path, &text)?;
    let mut file = std::fs::OpenOptions::new().append(true).open(&path).map_err(|e| fault(&path, &e))?;
    let missing = assembly.missing_of(&job.outline().shard(shard.index, shard.n));
    let tasks = job.outline().split(&missing, TASKS);
    interrupt::watch();
    let bar = super::eval::progress_bar();
    bar.set_length(tasks.len() as u64);
    let (start, mut done) = (Instant::now(), 0);
    for task in &tasks {
        let (generator, length, seed) = job.outline().label(task);
        bar.set_message(format!("{generator}, {length} bits, seed {seed}"));
        match job.run(task, Cancel::when(&interrupt::is_pressed), &mut || ()) {
            Err(Error::Core(CoreError::Cancelled)) => break,
            part => {
                let line = part?.to_line()? + "\n";
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
        return Ok(Verdict::Bad);
    }
    Ok(Verdict::Good)
}

impl Shard {
    /// Whether a file has the name of a shard.
    pub(crate) fn is_name(name: &str) -> bool {
        name.starts_with(BEGINNING) && name.ends_with(ENDING)
    }
}

/// Reads the lines of a file of tasks.
pub(crate) fn read(path: &Path) -> Result<(aleatron::eval::Outline, Vec<aleatron::eval::Part>), Failure> {
    let text = std::fs::read_to_string(path).map_err(|e| fault(path, &e))?;
    read_lines(&text).map_err(|e| fault(path, &e))
}
