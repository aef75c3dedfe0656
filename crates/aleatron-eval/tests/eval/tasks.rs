//! Evaluations as tasks: the result does not depend on the order or the worker of the tasks.

use crate::support::{self, network, samples};
use aleatron_core::Cancel;
use aleatron_data::Dataset;
use aleatron_engine::network::{Arithmetic, Network};
use aleatron_eval::{Assembly, Error, Evaluation, Job, Outline, Part, Plan, Task, evaluate, read_lines};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Samples that are not a whole number of chunks.
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
fn parts_in_any_order_assemble_to_the_whole() {
    for plan in [plan(), Plan { arithmetic: Arithmetic::Integer, ..plan() }] {
        let (job, whole) = (job(&plan), whole(&plan));
        assert!(whole.is_complete() && whole.cells.len() == 15);
        for n in [1, 1000] {
            let mut assembly = Assembly::new(job.outline().clone(), None).unwrap();
            let tasks = job.outline().split(&assembly.missing(), n);
            // The more tasks, the more costly passes are split; at last all into their three chunks.
            let costly = tasks.iter().filter(|task| task.pass == tasks[0].pass).count();
            assert_eq!(costly, if n < 50 { 1 } else { 3 }, "{n}");
            let all: BTreeSet<_> = pieces(&tasks).into_iter().collect();
            assert_eq!(all.len(), pieces(&tasks).len(), "nothing is run twice");
            assert_eq!(all.len(), 3 * job.outline().tasks().len(), "three chunks of 256 samples each");
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
fn shards_are_disjoint_and_assemble_to_the_whole() {
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
    // Without one shard, its tasks are missing and the cells of the others are complete.
    let rest = merged(&files[1..]);
    let missing: BTreeSet<_> = pieces(&rest.missing()).into_iter().collect();
    assert_eq!(missing, pieces(&job.outline().shard(2, 3)).into_iter().collect());
    let rest = rest.finish().unwrap();
    assert!(rest.unfinished > 0 && !rest.cells.is_empty());
    assert_eq!(rest.cells.len() + rest.unfinished, 15);
    // A process was killed while it wrote: half a line at the end is ignored, a broken line before it is an error.
    let cut = &files[1][..files[1].len() - 10];
    assert_eq!(read_lines(cut).unwrap().1.len() + 1, read_lines(&files[1]).unwrap().1.len());
    assert!(matches!(read_lines(&(cut.to_owned() + "\n")), Err(Error::Format { .. })));
    assert!(matches!(read_lines(""), Err(Error::Format { .. })));
}

#[test]
fn cells_of_a_checkpoint_do_not_run_again() {
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
fn job_survives_its_bytes() {
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
    // A feature that was changed in transit changes the hash.
    let mut changed = bytes;
    let last = changed.len() - 9;
    changed[last] ^= 1;
    assert!(Job::from_bytes(&changed).unwrap_err().to_string().contains("another version"));
}

#[test]
fn inconsistent_parts_are_errors() {
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

#[test]
fn tasks_have_labels() {
    let job = job(&Plan { device: "cpu".parse().unwrap(), ..plan() });
    let labels: BTreeSet<_> = job.outline().tasks().iter().map(|task| job.outline().label(task)).collect();
    let mut expected: BTreeSet<(&str, usize, u64)> = [("floating point", 0, 0)].into();
    // The lengths, and the partial lengths of early termination: 8 cycles and every doubling.
    for length in [40, 16, 64, 8, 32] {
        expected.insert(("sobol", length, 0));
        for seed in 0..2 {
            expected.extend([("bernoulli", length, seed), ("lfsr", length, seed)]);
        }
    }
    assert_eq!(labels, expected);
    assert_eq!(job.device().to_string(), "cpu");
    assert!(format!("{job:?}").starts_with("Job"), "{job:?}");
}

#[test]
fn inconsistent_outlines_are_errors() {
    let job = job(&plan());
    let whole: serde_json::Value = serde_json::from_str(&job.outline().to_line().unwrap()).unwrap();
    let n_passes = whole["passes"].as_array().unwrap().len();
    let samples = whole["labels"].as_array().unwrap().len();
    let looks = whole["cells"][0]["looks"].as_array().unwrap().clone();
    let length = whole["cells"][0]["length"].as_u64().unwrap();
    assert!(samples == 700 && looks.len() >= 2, "{looks:?}");
    let with = |pointer: &str, value: serde_json::Value| {
        let mut changed = whole.clone();
        *changed.pointer_mut(pointer).unwrap() = value;
        Outline::from_line(&changed.to_string())
    };
    assert!(with("/labels/0", 9.into()).is_ok());
    let (first, last) = (&looks[0], &looks[looks.len() - 1]);
    let at = |look: &serde_json::Value, k: usize, value: u64| {
        let mut look = look.clone();
        look[k] = value.into();
        look
    };
    for (pointer, value) in [
        ("/labels/0", serde_json::json!(10)),
        ("/labels", serde_json::json!([])),
        ("/chunk", serde_json::json!(0)),
        ("/passes/1/lengths", serde_json::json!([])),
        ("/passes/1/lengths", serde_json::json!([8, 8, 8])),
        ("/passes/1/lengths", serde_json::json!([1_u64 << 40, 8])),
        ("/cells/0/looks", serde_json::json!([])),
        // Not in order, twice the same, and not up to the end.
        ("/cells/0/looks", serde_json::json!([last, first, last])),
        ("/cells/0/looks", serde_json::json!([first, last, last])),
        ("/cells/0/looks", serde_json::json!([first])),
        ("/cells/0/looks", serde_json::json!([first, at(last, 0, length + 1)])),
        // Passes of floating point, and past the last one.
        ("/cells/0/looks", serde_json::json!([first, at(last, 1, 0)])),
        ("/cells/0/looks", serde_json::json!([first, at(last, 1, n_passes as u64)])),
    ] {
        let shown = value.to_string();
        assert!(with(pointer, value).is_err(), "{pointer}: {shown}");
    }
    // A length that no stream has, with matching partial lengths.
    let mut changed = whole.clone();
    changed["cells"][0]["length"] = (1_u64 << 40).into();
    changed["cells"][0]["looks"] = serde_json::json!([first, at(last, 0, 1 << 40)]);
    assert!(Outline::from_line(&changed.to_string()).is_err());
    let first_pass = whole["passes"][0].clone();
    assert!(with("/passes/0", whole["passes"][1].clone()).is_err(), "{first_pass}");
}

/// The small network with four chunks of samples: floating point and two lengths of streams.
fn small_outline() -> serde_json::Value {
    let plan = Plan { seeds: 1, margins: vec![1.0], ..support::plan(&["bernoulli"], &[8, 16]) };
    let job = Job::new(Arc::new(network()), Cow::Owned(samples()), plan).unwrap();
    let mut outline: serde_json::Value = serde_json::from_str(&job.outline().to_line().unwrap()).unwrap();
    outline["labels"] = serde_json::json!(vec![0; 1000]);
    outline["evaluation"]["data"]["samples"] = 1000.into();
    outline
}

#[test]
fn cost_of_a_pass_is_that_of_its_products() {
    let outline = small_outline();
    let costs: Vec<u64> =
        outline["passes"].as_array().unwrap().iter().map(|pass| pass["cost"].as_u64().unwrap()).collect();
    // Four products and six. A thousand bits each to find the exact ones, their own bits, and one for the pass. The partial length of the longer
    // streams after eight cycles is the cell of the shorter ones.
    let exact = 10 * 1000;
    assert_eq!(costs, [exact, exact + 10 * 8 + 1, exact + 10 * 16 + 1]);
    assert_eq!(outline["cells"][1]["looks"], serde_json::json!([[8, 1], [16, 2]]));
    assert_eq!(outline["cells"][1]["bits"], 160.0);
}

#[test]
fn tasks_are_split_by_cost() {
    let mut outline = small_outline();
    for (pass, cost) in [1, 3, 2].into_iter().enumerate() {
        outline["passes"][pass]["cost"] = cost.into();
    }
    let outline = Outline::from_line(&outline.to_string()).unwrap();
    let task = |(pass, first, pieces)| Task { pass, first, pieces };
    let tasks = |all: &[(usize, usize, usize)]| all.iter().copied().map(task).collect::<Vec<_>>();
    assert_eq!(outline.tasks(), tasks(&[(0, 0, 4), (1, 0, 4), (2, 0, 4)]));
    // A chunk costs one, three or two, so all cost 24: of six tasks none should cost more than four, but chunks stay whole.
    let split = [(1, 0, 1), (1, 1, 1), (1, 2, 2), (2, 0, 2), (2, 2, 2), (0, 0, 4)];
    assert_eq!(outline.split(&outline.tasks(), 6), tasks(&split));
    assert_eq!(outline.split(&tasks(&[(1, 1, 3)]), 2), tasks(&[(1, 1, 1), (1, 2, 2)]));
    assert_eq!(outline.split(&outline.tasks(), 0), tasks(&[(1, 0, 4), (2, 0, 4), (0, 0, 4)]));
    // By the middle of each chunk among the 24: below 8, below 16, and the rest.
    let shards = [vec![(0, 0, 4), (1, 0, 1)], vec![(1, 1, 3)], vec![(2, 0, 4)]];
    for (shard, expected) in shards.iter().enumerate() {
        assert_eq!(outline.shard(shard, 3), tasks(expected), "{shard}");
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
    let numbers = Dataset::with_targets("t", 2, data.features().to_vec(), 3, targets.to_vec()).unwrap();
    let plan = support::plan(&["sobol"], &[8]);
    let found = aleatron_eval::evaluate_regression(&network(), &numbers, &plan, None, Cancel::NEVER, |_| ());
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
fn every_number_of_a_part_is_checked() {
    let n = 300;
    let features = (0..2 * n).map(|k| k as f64 / (2 * n) as f64).collect();
    let data = Dataset::new("d", 2, features, vec![0; n]).unwrap();
    let plan = support::plan(&["sobol"], &[8, 16]);
    let job = Job::new(Arc::new(network()), Cow::Owned(data), plan).unwrap();
    let line = |pass, first| run(&job, &Task { pass, first, pieces: 1 }).to_line().unwrap();
    let changed = |pass: usize, first: usize, pointer: &str, value: serde_json::Value| {
        let mut part: serde_json::Value = serde_json::from_str(&line(pass, first)).unwrap();
        *part.pointer_mut(pointer).unwrap() = value;
        let text = format!("{}\n{part}\n", job.outline().to_line().unwrap());
        read_lines(&text).is_ok()
    };
    // Three classes, two margins, and 256 samples in the first of two chunks.
    let most = (1_u64 << 40) - 1;
    let nothing: [usize; 0] = [];
    for (pass, pointer, value, is_right) in [
        (1, "/pieces/0/classes/0", serde_json::json!(2), true),
        (1, "/pieces/0/classes/0", serde_json::json!(3), false),
        (1, "/pieces/0/classes", serde_json::json!(vec![0; 255]), false),
        (1, "/pieces/0/reached/0", serde_json::json!(2), true),
        (1, "/pieces/0/reached/0", serde_json::json!(3), false),
        (1, "/pieces/0/reached", serde_json::json!(vec![0; 255]), false),
        (1, "/pieces/0/reached", serde_json::json!(nothing), false),
        (1, "/pieces/0/clipped", serde_json::json!(most), true),
        (1, "/pieces/0/clipped", serde_json::json!(most + 1), false),
        (1, "/pieces/0/seconds", serde_json::json!(-1.0), false),
        (1, "/pieces/0/layers", serde_json::json!(nothing), false),
        (0, "/pieces/0/reached", serde_json::json!(vec![0; 256]), true),
        (0, "/pieces/0/reached", serde_json::json!(vec![0; 255]), false),
        (0, "/pieces/0/reached", serde_json::json!(vec![3; 256]), false),
        (1, "/pass", serde_json::json!(0), false),
        (1, "/first", serde_json::json!(2), false),
    ] {
        assert_eq!(changed(pass, 0, pointer, value.clone()), is_right, "pass {pass}: {pointer} {value}");
    }
    // The second chunk has 44 samples, not the 256 of the first.
    assert!(changed(1, 1, "/first", 1.into()) && !changed(1, 1, "/first", 0.into()));
}

#[test]
fn cells_are_in_the_order_of_the_plan() {
    let plan = support::plan(&["lfsr", "bernoulli"], &[16, 8]);
    let whole = support::run(&plan);
    let order: Vec<_> =
        whole.cells.iter().map(|cell| (cell.generator.as_str(), cell.seed, cell.length)).collect();
    let of = |name: &'static str| (0..2).flat_map(move |seed| [(name, seed, 8), (name, seed, 16)]);
    assert_eq!(order, of("lfsr").chain(of("bernoulli")).collect::<Vec<_>>());
    let mut known = whole.clone();
    known.cells.retain(|cell| cell.length == 16 && cell.seed == 1);
    let again = evaluate(&network(), &samples(), &plan, Some(known), Cancel::NEVER, |_| ());
    assert_eq!(again.unwrap().without_times(), whole.without_times());
}
