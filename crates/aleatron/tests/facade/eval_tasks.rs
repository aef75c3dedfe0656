//! Evaluations as tasks: whoever runs which, in whatever order, what comes of them is the same.

use aleatron::data::Dataset;
use aleatron::eval::{Assembly, Evaluation, Job, Outline, Part, Plan, Task, evaluate, read_lines};
use aleatron::network::{Arithmetic, Network};
use aleatron::{Cancel, Error};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Samples that are not a whole number of pieces.
fn data() -> Dataset {
    let (train, n) = (Dataset::digits_train(), 700);
    let features = train.features()[..n * 64].to_vec();
    Dataset::new("some digits", 64, features, train.labels()[..n].to_vec()).unwrap()
}

fn plan() -> Plan {
    let generators = ["bernoulli", "lfsr", "sobol"].map(|name| name.parse().unwrap()).to_vec();
    let layers = [("output".to_owned(), "length=48".parse().unwrap())].into();
    // Margins in no order, one of them twice.
    let margins = vec![2.0, 0.5, 2.0, 1.0];
    Plan { lengths: vec![40, 16, 64], generators, seeds: 2, layers, margins, ..Plan::default() }
}

fn job(plan: &Plan) -> Job<'static> {
    Job::new(Arc::new(Network::digits_plain().unwrap()), Cow::Owned(data()), plan.clone()).unwrap()
}

fn whole(plan: &Plan) -> Evaluation {
    let network = Network::digits_plain().unwrap();
    evaluate(&network, &data(), plan, None, Cancel::NEVER, |_| ()).unwrap().without_times()
}

fn run(job: &Job<'_>, task: &Task) -> Part {
    job.run(task, Cancel::NEVER, &mut || ()).unwrap()
}

fn pieces(tasks: &[Task]) -> Vec<(usize, usize)> {
    tasks.iter().flat_map(|t| (t.first..t.first + t.pieces).map(|piece| (t.pass, piece))).collect()
}

#[test]
fn parts_make_the_same_in_any_order() {
    for plan in [plan(), Plan { arithmetic: Arithmetic::Integer, ..plan() }] {
        let (job, whole) = (job(&plan), whole(&plan));
        assert!(whole.is_complete() && whole.cells.len() == 15);
        for n in [1, 1000] {
            let mut assembly = Assembly::new(job.outline().clone(), None).unwrap();
            let tasks = job.outline().split(&assembly.missing(), n);
            // The more there are, the more costly passes are cut; at last all into their three pieces.
            let costly = tasks.iter().filter(|task| task.pass == tasks[0].pass).count();
            assert_eq!(costly, if n < 50 { 1 } else { 3 }, "{n}");
            let all: BTreeSet<_> = pieces(&tasks).into_iter().collect();
            assert_eq!(all.len(), pieces(&tasks).len(), "nothing is run twice");
            assert_eq!(all.len(), 3 * job.outline().tasks().len(), "three pieces of 256 samples each");
            for (k, task) in tasks.iter().rev().enumerate() {
                let part = run(&job, task);
                // Some come twice, and all through text.
                (0..1 + k % 2).for_each(|_| {
                    assembly.add(Part::from_line(&part.to_line().unwrap()).unwrap()).unwrap();
                });
            }
            assert!(assembly.missing().is_empty());
            assert_eq!(assembly.finish().unwrap().without_times(), whole);
        }
    }
}

#[test]
fn shards_are_disjoint_and_make_the_whole() {
    let (plan, job) = (plan(), job(&plan()));
    let everything: BTreeSet<_> = pieces(&job.outline().tasks()).into_iter().collect();
    for n in [1, 2, 3, 5, 1000] {
        let shards: Vec<_> = (0..n).flat_map(|shard| pieces(&job.outline().shard(shard, n))).collect();
        assert_eq!(shards.len(), everything.len(), "{n}");
        assert_eq!(shards.into_iter().collect::<BTreeSet<_>>(), everything, "{n}");
    }
    let file = |shard| {
        let mut text = job.outline().to_line().unwrap() + "\n";
        for task in job.outline().shard(shard, 3) {
            text.push_str(&(run(&job, &task).to_line().unwrap() + "\n"));
        }
        text
    };
    let files = [file(2), file(0), file(1)];
    let merged = |files: &[String]| {
        let mut assembly: Option<Assembly> = None;
        for text in files {
            let (outline, parts) = read_lines(text).unwrap();
            let assembly = assembly.get_or_insert_with(|| Assembly::new(outline, None).unwrap());
            parts.into_iter().for_each(|part| assembly.add(part).unwrap());
        }
        assembly.unwrap()
    };
    assert_eq!(merged(&files).finish().unwrap().without_times(), whole(&plan));
    // Without a shard there is something missing, and the rest is good.
    let rest = merged(&files[1..]);
    let missing: BTreeSet<_> = pieces(&rest.missing()).into_iter().collect();
    assert_eq!(missing, pieces(&job.outline().shard(2, 3)).into_iter().collect());
    let rest = rest.finish().unwrap();
    assert!(rest.unfinished > 0 && !rest.cells.is_empty());
    assert_eq!(rest.cells.len() + rest.unfinished, 15);
    // A program was killed while it wrote: the half line is not there, a broken one before it is an error.
    let cut = &files[1][..files[1].len() - 10];
    assert_eq!(read_lines(cut).unwrap().1.len() + 1, read_lines(&files[1]).unwrap().1.len());
    assert!(matches!(read_lines(&(cut.to_owned() + "\n")), Err(Error::Format { .. })));
    assert!(matches!(read_lines(""), Err(Error::Format { .. })));
}

#[test]
fn what_a_checkpoint_holds_is_not_run_again() {
    let short = Plan { lengths: vec![16], ..plan() };
    let known = whole(&short);
    let job = job(&plan());
    let mut assembly = Assembly::new(job.outline().clone(), Some(known.clone())).unwrap();
    let fresh = Assembly::new(job.outline().clone(), None).unwrap();
    assert!(assembly.missing().len() < fresh.missing().len());
    for task in assembly.missing() {
        assembly.add(run(&job, &task)).unwrap();
    }
    let found = assembly.finish().unwrap();
    assert!(known.cells.iter().all(|cell| found.cells.contains(cell)), "kept as they were, without times");
    assert_eq!(found.without_times(), whole(&plan()));
    let other = Evaluation { float_accuracy: 0.5, ..known };
    let mut assembly = Assembly::new(job.outline().clone(), Some(other)).unwrap();
    assembly.add(run(&job, &job.outline().tasks()[0])).unwrap();
    assert!(matches!(assembly.finish(), Err(Error::Checkpoint("the accuracy in floating point"))));
}

#[test]
fn jobs_travel_as_bytes() {
    let job = job(&plan());
    let bytes = job.to_bytes().unwrap();
    let there = Job::from_bytes(&bytes).unwrap();
    assert_eq!(there.outline(), job.outline());
    let task = job.outline().tasks()[3];
    let classes = |part: Part| part.to_line().unwrap().split("\"layers\"").next().unwrap().to_owned();
    assert_eq!(classes(run(&there, &task)), classes(run(&job, &task)));
    for end in [0, 7, 8, 100, bytes.len() - 8, bytes.len() - 1] {
        assert!(Job::from_bytes(&bytes[..end]).is_err(), "{end}");
    }
    let mut huge = bytes.clone();
    huge[..8].copy_from_slice(&u64::MAX.to_le_bytes());
    assert!(matches!(Job::from_bytes(&huge), Err(Error::Format { .. })));
    // A feature that changed on the way changes the hash.
    let mut changed = bytes;
    let last = changed.len() - 9;
    changed[last] ^= 1;
    assert!(Job::from_bytes(&changed).unwrap_err().to_string().contains("another version"));
}

#[test]
fn parts_that_cannot_be_true_are_refused() {
    let job = job(&plan());
    let line = run(&job, &Task { pass: 1, first: 2, pieces: 1 }).to_line().unwrap();
    let mut assembly = Assembly::new(job.outline().clone(), None).unwrap();
    for (from, to) in [
        ("\"pass\":1", "\"pass\":1000"),
        ("\"first\":2", "\"first\":3"),
        ("\"first\":2", "\"first\":18446744073709551615"),
        ("\"first\":2", "\"first\":0"),
        ("\"classes\":[", "\"classes\":[10,"),
        ("\"classes\":[", "\"classes\":[0,"),
        ("\"reached\":[", "\"reached\":[5,"),
        ("\"clipped\":0", "\"clipped\":18446744073709551615"),
        ("\"seconds\":", "\"seconds\":-1"),
    ] {
        let changed = line.replacen(from, to, 1);
        assert_ne!(changed, line, "{from}");
        let refused = Part::from_line(&changed).and_then(|part| assembly.add(part));
        assert!(matches!(refused, Err(Error::Format { .. })), "{to}");
    }
    assembly.add(Part::from_line(&line).unwrap()).unwrap();
    assert!(assembly.finish().unwrap_err().to_string().contains("floating point"));
    let task = Task { pass: 1, first: usize::MAX, pieces: 2 };
    assert!(job.run(&task, Cancel::NEVER, &mut || ()).is_err());
    let head = job.outline().to_line().unwrap();
    for (from, to) in [
        ("\"labels\":[", "\"labels\":[10,"),
        ("\"n_classes\":10", "\"n_classes\":11"),
        ("\"kind\":\"float\"", "\"kind\":\"flat\""),
    ] {
        let changed = head.replacen(from, to, 1);
        assert_ne!(changed, head, "{from}");
        assert!(Outline::from_line(&changed).is_err(), "{to}");
    }
    assert_eq!(&Outline::from_line(&head).unwrap(), job.outline());
}
