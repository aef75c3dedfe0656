//! Evaluations as tasks: the result does not depend on the order or the worker of the tasks.

use crate::support::{self, network, samples};
use aleatron_core::Cancel;
use aleatron_data::Dataset;
use aleatron_engine::network::{Arithmetic, Network};
use aleatron_eval::{
    Error, Evaluation, Job, Journal, Plan, Schedule, Task, TaskResult, evaluate, whole_lines,
};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Samples that are not a whole number of chunks.
fn data() -> Dataset {
    let (train, n) = (Dataset::digits_train(), 700);
    let features = train.features()[..n * 64].to_vec();
    Dataset::new("some digits", 64, features, train.labels()[..n].to_vec()).unwrap()
}

/// Returns the same samples with targets.
fn targets() -> Dataset {
    let features = data().features().to_vec();
    let targets = Network::digits_plain().unwrap().forward(&features).unwrap();
    let targets = targets.iter().map(|score| 1.25 * score - 0.5).collect();
    Dataset::with_targets("some targets", 64, features, 10, targets).unwrap()
}

fn plan() -> Plan {
    let generators = ["bernoulli", "lfsr", "sobol"].map(|name| name.parse().unwrap()).to_vec();
    let layers = [("output".to_owned(), "length=48".parse().unwrap())].into();
    // Margins in no order, one of them twice.
    let margins = vec![2.0, 0.5, 2.0, 1.0];
    Plan { lengths: vec![40, 16, 64], generators, seeds: 2, layers, margins, ..Plan::default() }
}

fn job_of(data: Dataset, plan: &Plan) -> Job<'static> {
    Job::new(Arc::new(Network::digits_plain().unwrap()), Cow::Owned(data), plan.clone()).unwrap()
}

fn job(plan: &Plan) -> Job<'static> {
    job_of(data(), plan)
}

fn whole_of(data: &Dataset, plan: &Plan) -> Evaluation {
    let network = Network::digits_plain().unwrap();
    evaluate(&network, data, plan, None, Cancel::NEVER, |_| ()).unwrap().without_times()
}

fn whole(plan: &Plan) -> Evaluation {
    whole_of(&data(), plan)
}

fn run(job: &Job<'_>, task: &Task) -> TaskResult {
    job.run(task, Cancel::NEVER, &mut || ()).unwrap()
}

fn chunks(tasks: &[Task]) -> Vec<(usize, usize)> {
    tasks.iter().flat_map(|t| (t.first..t.first + t.chunks).map(|chunk| (t.pass, chunk))).collect()
}

#[test]
fn results_in_any_order_merge_to_the_whole() {
    let integer = Plan { arithmetic: Arithmetic::Integer, ..plan() };
    for (data, plan) in [(data(), plan()), (data(), integer), (targets(), plan())] {
        let whole = whole_of(&data, &plan);
        let job = job_of(data, &plan);
        // A worker on another machine has the bytes alone.
        let worker = Job::from_bytes(&job.to_bytes().unwrap()).unwrap();
        assert!(whole.is_complete() && whole.cells.len() == 15);
        for n in [1, 1000] {
            let mut journal = job.journal(None).unwrap();
            let tasks = job.schedule().split(&journal.missing(), n);
            // The more tasks, the more expensive passes are split; at last all into their three
            // chunks.
            let expensive = tasks.iter().filter(|task| task.pass == tasks[0].pass).count();
            assert_eq!(expensive, if n < 50 { 1 } else { 3 }, "{n}");
            let all: BTreeSet<_> = chunks(&tasks).into_iter().collect();
            assert_eq!(all.len(), chunks(&tasks).len(), "nothing is run twice");
            assert_eq!(
                all.len(),
                3 * job.schedule().tasks().len(),
                "three chunks of 256 samples each"
            );
            for (k, task) in tasks.iter().rev().enumerate() {
                let result = run(if k % 3 == 0 { &worker } else { &job }, task);
                // Some come twice, and all through text.
                (0..1 + k % 2).for_each(|_| {
                    journal
                        .add(TaskResult::from_line(&result.to_line().unwrap()).unwrap())
                        .unwrap();
                });
            }
            assert!(journal.missing().is_empty());
            assert_eq!(journal.finish().unwrap().without_times(), whole);
        }
    }
}

#[test]
fn shards_are_disjoint_and_merge_to_the_whole() {
    for data in [data(), targets()] {
        let whole = whole_of(&data, &plan());
        let job = job_of(data, &plan());
        let everything: BTreeSet<_> = chunks(&job.schedule().tasks()).into_iter().collect();
        for n in [1, 2, 3, 5, 1000] {
            let shards: Vec<_> =
                (0..n).flat_map(|shard| chunks(&job.schedule().shard(shard, n))).collect();
            assert_eq!(shards.len(), everything.len(), "{n}");
            assert_eq!(shards.into_iter().collect::<BTreeSet<_>>(), everything, "{n}");
        }
        let file = |shard| {
            let mut text = job.schedule().to_line().unwrap() + "\n";
            for task in job.schedule().shard(shard, 3) {
                text.push_str(&(run(&job, &task).to_line().unwrap() + "\n"));
            }
            text
        };
        let files = [file(2), file(0), file(1)];
        let merged = |files: &[String]| {
            let mut journals = files.iter().map(|text| Journal::read(text).unwrap());
            let mut all = journals.next().unwrap();
            journals.for_each(|journal| all.merge(journal).unwrap());
            all
        };
        assert_eq!(merged(&files).finish().unwrap().without_times(), whole);
        // Without one shard, its tasks are missing and the cells of the others are complete.
        let rest = merged(&files[1..]);
        let missing: BTreeSet<_> = chunks(&rest.missing()).into_iter().collect();
        assert_eq!(missing, chunks(&job.schedule().shard(2, 3)).into_iter().collect());
        let rest = rest.finish().unwrap();
        assert!(rest.unfinished > 0 && !rest.cells.is_empty());
        assert_eq!(rest.cells.len() + rest.unfinished, 15);
        // A process was killed while it wrote: half a line at the end is ignored, a broken line
        // before it is an error.
        let cut = &files[1][..files[1].len() - 10];
        assert_eq!(whole_lines(cut).lines().count() + 1, files[1].lines().count());
        assert!(Journal::read(cut).is_ok());
        assert!(matches!(Journal::read(&(cut.to_owned() + "\n")), Err(Error::Format { .. })));
        assert!(matches!(Journal::read(""), Err(Error::Format { .. })));
        // A journal of another plan is refused.
        let other = job_of(self::data(), &Plan { seeds: 1, ..plan() }).journal(None).unwrap();
        assert!(matches!(merged(&files).merge(other), Err(Error::OtherEvaluation)));
    }
}

#[test]
fn cells_of_a_checkpoint_do_not_run_again() {
    let short = Plan { lengths: vec![16], ..plan() };
    let known = whole(&short);
    let job = job(&plan());
    let mut journal = job.journal(Some(known.clone())).unwrap();
    let fresh = job.journal(None).unwrap();
    assert!(journal.missing().len() < fresh.missing().len());
    for task in journal.missing() {
        journal.add(run(&job, &task)).unwrap();
    }
    let found = journal.finish().unwrap();
    assert!(known.cells.iter().all(|cell| found.cells.contains(cell)), "retained, without times");
    assert_eq!(found.without_times(), whole(&plan()));
    let other = Evaluation { float: support::float_accuracy(0.5), ..known };
    let mut journal = job.journal(Some(other)).unwrap();
    journal.add(run(&job, &job.schedule().tasks()[0])).unwrap();
    assert!(matches!(journal.finish(), Err(Error::Checkpoint("the score in floating point"))));
}

#[test]
fn job_survives_its_bytes() {
    let job = job(&plan());
    let bytes = job.to_bytes().unwrap();
    let there = Job::from_bytes(&bytes).unwrap();
    assert_eq!(there.schedule(), job.schedule());
    let task = job.schedule().tasks()[3];
    let classes = |result: TaskResult| {
        result.to_line().unwrap().split("\"layers\"").next().unwrap().to_owned()
    };
    assert_eq!(classes(run(&there, &task)), classes(run(&job, &task)));
    for end in [0, 7, 8, 100, bytes.len() - 8, bytes.len() - 1] {
        assert!(Job::from_bytes(&bytes[..end]).is_err(), "{end}");
    }
    let mut huge = bytes.clone();
    huge[..8].copy_from_slice(&u64::MAX.to_le_bytes());
    assert!(matches!(Job::from_bytes(&huge), Err(Error::Format { .. })));
    // A feature that was changed in transit changes the hash.
    let mut changed = bytes;
    let last = changed.len() - 9;
    changed[last] ^= 1;
    assert!(Job::from_bytes(&changed).unwrap_err().to_string().contains("another version"));
}

#[test]
fn inconsistent_results_are_errors() {
    let job = job(&plan());
    let line = run(&job, &Task { pass: 1, first: 2, chunks: 1 }).to_line().unwrap();
    let mut journal = job.journal(None).unwrap();
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
        let refused = TaskResult::from_line(&changed).and_then(|result| journal.add(result));
        assert!(matches!(refused, Err(Error::Format { .. })), "{to}");
    }
    journal.add(TaskResult::from_line(&line).unwrap()).unwrap();
    assert!(journal.finish().unwrap_err().to_string().contains("floating point"));
    let task = Task { pass: 1, first: usize::MAX, chunks: 2 };
    assert!(job.run(&task, Cancel::NEVER, &mut || ()).is_err());
}

#[test]
fn tasks_have_labels() {
    let job = job(&Plan { device: "cpu".parse().unwrap(), ..plan() });
    let labels = job.schedule().tasks().into_iter().map(|task| job.schedule().label(&task));
    let labels: BTreeSet<(String, usize, u64)> = labels.collect();
    let mut expected: BTreeSet<(&str, usize, u64)> = [("floating point", 0, 0)].into();
    // The lengths, and the partial lengths of early termination: 8 cycles and every doubling.
    for length in [40, 16, 64, 8, 32] {
        expected.insert(("sobol", length, 0));
        for seed in 0..2 {
            expected.extend([("bernoulli", length, seed), ("lfsr", length, seed)]);
        }
    }
    assert_eq!(
        labels,
        expected.into_iter().map(|(name, length, seed)| (name.to_owned(), length, seed)).collect()
    );
    assert_eq!(job.device().to_string(), "cpu");
    assert!(format!("{job:?}").starts_with("Job"), "{job:?}");
}

#[test]
fn inconsistent_schedules_are_errors() {
    for (data, labels) in
        [(data(), "/labels/classes/labels"), (targets(), "/labels/targets/targets")]
    {
        let job = job_of(data, &plan());
        let line = job.schedule().to_line().unwrap();
        assert_eq!(&Schedule::from_line(&line).unwrap(), job.schedule());
        let whole: serde_json::Value = serde_json::from_str(&line).unwrap();
        let with = |pointer: &str, value: serde_json::Value| {
            let mut changed = whole.clone();
            *changed.pointer_mut(pointer).unwrap() = value;
            Schedule::from_line(&changed.to_string())
        };
        assert!(with(&format!("{labels}/0"), 9.into()).is_ok());
        let mut faults = vec![
            (labels, serde_json::json!([])),
            ("/chunk", serde_json::json!(0)),
            ("/layers", serde_json::json!([])),
            ("/evaluation/plan/lengths", serde_json::json!([64, 16])),
            ("/evaluation/plan/lengths", serde_json::json!([1_u64 << 60])),
            ("/evaluation/plan/seeds", serde_json::json!(1_u64 << 40)),
            ("/evaluation/plan/generators/0", serde_json::json!("sobl")),
            ("/evaluation/data/samples", serde_json::json!(699)),
        ];
        match labels.contains("classes") {
            true => faults.extend([
                ("/labels/classes/labels/0", serde_json::json!(10)),
                ("/labels/classes/n_classes", serde_json::json!(11)),
            ]),
            false => faults.push(("/labels/targets/n_outputs", serde_json::json!(5))),
        }
        for (pointer, value) in faults {
            let shown = value.to_string();
            assert!(with(pointer, value).is_err(), "{pointer}: {shown}");
        }
    }
}

#[test]
fn data_fingerprint_covers_features_labels_and_targets() {
    let fingerprint = |answers: &[Vec<u64>]| {
        let hash = aleatron_core::conformance::digest(answers.iter().map(Vec::as_slice));
        format!("{hash:016x}")
    };
    let bits = |values: &[f64]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
    let data = samples();
    let labels = data.labels().iter().map(|&label| label as u64).collect();
    let found = support::run(&support::plan(&["sobol"], &[8]));
    assert_eq!(found.data.fingerprint, fingerprint(&[bits(data.features()), labels]));
    let targets = [0.5, 1.5, -0.5, 0.25, 1.0, 2.0, -1.0, 0.0, 3.0];
    let numbers =
        Dataset::with_targets("t", 2, data.features().to_vec(), 3, targets.to_vec()).unwrap();
    let plan = support::plan(&["sobol"], &[8]);
    let found = evaluate(&network(), &numbers, &plan, None, Cancel::NEVER, |_| ());
    let expected = fingerprint(&[bits(data.features()), Vec::new(), bits(&targets)]);
    assert_eq!(found.unwrap().data.fingerprint, expected);
}

/// The memory that is checked is the memory that is allocated.
#[test]
fn job_bytes_are_allocated_once() {
    let bytes = job(&plan()).to_bytes().unwrap();
    assert_eq!(bytes.capacity(), bytes.len());
}

#[test]
fn every_number_of_a_result_is_checked() {
    let n = 300;
    let features: Vec<f64> = (0..2 * n).map(|k| k as f64 / (2 * n) as f64).collect();
    let classes = Dataset::new("d", 2, features.clone(), vec![0; n]).unwrap();
    let targets = Dataset::with_targets("t", 2, features, 3, vec![0.5; 3 * n]).unwrap();
    let [classes, targets] = [classes, targets].map(|data| {
        Job::new(Arc::new(network()), Cow::Owned(data), support::plan(&["sobol"], &[8, 16]))
            .unwrap()
    });
    let changed =
        |job: &Job<'_>, [pass, first]: [usize; 2], pointer: &str, value: serde_json::Value| {
            let line = run(job, &Task { pass, first, chunks: 1 }).to_line().unwrap();
            let mut result: serde_json::Value = serde_json::from_str(&line).unwrap();
            *result.pointer_mut(pointer).unwrap() = value;
            Journal::read(&format!("{}\n{result}\n", job.schedule().to_line().unwrap())).is_ok()
        };
    // Three classes or outputs, two margins, and 256 samples in the first of two chunks.
    let most = (1_u64 << 40) - 1;
    let nothing: [usize; 0] = [];
    for (job, pass, pointer, value, is_right) in [
        (&classes, 1, "/chunks/0/classes/0", serde_json::json!(2), true),
        (&classes, 1, "/chunks/0/classes/0", serde_json::json!(3), false),
        (&classes, 1, "/chunks/0/classes", serde_json::json!(vec![0; 255]), false),
        (&classes, 1, "/chunks/0/outputs", serde_json::json!(vec![0.5; 768]), false),
        (&classes, 1, "/chunks/0/reached/0", serde_json::json!(2), true),
        (&classes, 1, "/chunks/0/reached/0", serde_json::json!(3), false),
        (&classes, 1, "/chunks/0/reached", serde_json::json!(vec![0; 255]), false),
        (&classes, 1, "/chunks/0/reached", serde_json::json!(nothing), false),
        (&classes, 1, "/chunks/0/clipped", serde_json::json!(most), true),
        (&classes, 1, "/chunks/0/clipped", serde_json::json!(most + 1), false),
        (&classes, 1, "/chunks/0/seconds", serde_json::json!(-1.0), false),
        (&classes, 1, "/chunks/0/layers", serde_json::json!(nothing), false),
        (&classes, 0, "/chunks/0/reached", serde_json::json!(vec![0; 256]), false),
        (&classes, 1, "/pass", serde_json::json!(0), false),
        (&classes, 1, "/first", serde_json::json!(2), false),
        (&targets, 1, "/chunks/0/outputs/0", serde_json::json!(-0.5), true),
        (&targets, 1, "/chunks/0/outputs", serde_json::json!(vec![0.5; 256]), false),
        (&targets, 1, "/chunks/0/outputs/0", serde_json::json!(null), false),
        (&targets, 1, "/chunks/0/classes", serde_json::json!(vec![0; 256]), false),
        (&targets, 1, "/chunks/0/reached", serde_json::json!(vec![0; 256]), false),
    ] {
        let found = changed(job, [pass, 0], pointer, value.clone());
        assert_eq!(found, is_right, "pass {pass}: {pointer} {value}");
    }
    // The second chunk has 44 samples, not the 256 of the first.
    for job in [&classes, &targets] {
        assert!(
            changed(job, [1, 1], "/first", 1.into()) && !changed(job, [1, 1], "/first", 0.into())
        );
    }
}

#[test]
fn cells_are_in_the_order_of_the_plan() {
    let plan = support::plan(&["lfsr", "bernoulli"], &[16, 8]);
    let whole = support::run(&plan);
    let order: Vec<_> =
        whole.cells.iter().map(|cell| (cell.generator, cell.seed, cell.length)).collect();
    let of = |name: &str| {
        let name = support::generator(name);
        (0..2).flat_map(move |seed| [(name, seed, 8), (name, seed, 16)])
    };
    assert_eq!(order, of("lfsr").chain(of("bernoulli")).collect::<Vec<_>>());
    let mut known = whole.clone();
    known.cells.retain(|cell| cell.length == 16 && cell.seed == 1);
    let again = evaluate(&network(), &samples(), &plan, Some(known), Cancel::NEVER, |_| ());
    assert_eq!(again.unwrap().without_times(), whole.without_times());
}
