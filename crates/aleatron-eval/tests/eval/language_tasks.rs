//! Evaluations of language models as tasks and shards, and the search for the shortest streams, on
//! the model in the program.

use aleatron_core::Cancel;
use aleatron_eval::language::{
    LanguageEvaluation, LanguageJob, LanguageJournal, LanguagePlan, LanguageTaskResult,
    LanguageText, ModelOrigin, Sensitivity, evaluate_language_model, find_product_lengths,
};
use aleatron_eval::{Error, Found, Measure, Search};
use aleatron_transformer::{ModelSource, Precision, Transformer};

fn origin() -> ModelOrigin {
    ModelOrigin { model: ModelSource::Embedded, precision: Precision::F32, lora: None }
}

fn text(model: &Transformer) -> LanguageText {
    LanguageText::embedded(model.tokenizer().unwrap()).unwrap()
}

/// Seven sequences, the last of which is shorter.
fn plan() -> LanguagePlan {
    LanguagePlan {
        lengths: vec![16, 64],
        seeds: 2,
        context: Some(12),
        calibration: Some(200),
        predicted: Some(77),
        sensitivity: Sensitivity::Enabled,
        margins: vec![1.0, 0.0],
        ..LanguagePlan::default()
    }
}

fn job() -> LanguageJob<Transformer> {
    let model = origin().load().unwrap();
    let text = text(&model);
    LanguageJob::new("bytes", model, &text, &plan(), Cancel::NEVER).unwrap()
}

/// Returns an evaluation without times.
fn timeless(mut found: LanguageEvaluation) -> LanguageEvaluation {
    for row in &mut found.rows {
        row.tokens_per_second = 0.0;
        row.seeds.iter_mut().for_each(|run| run.seconds = 0.0);
    }
    found
}

fn whole() -> LanguageEvaluation {
    let mut model = origin().load().unwrap();
    let text = text(&model);
    let found =
        evaluate_language_model("bytes", &mut model, &text, &plan(), None, Cancel::NEVER, |_| ());
    timeless(found.unwrap())
}

fn run(job: &mut LanguageJob<Transformer>, task: &aleatron_eval::Task) -> LanguageTaskResult {
    job.run(task, Cancel::NEVER, &mut |_| ()).unwrap()
}

#[test]
fn tasks_in_any_order_equal_one_run() {
    let (mut job, whole) = (job(), whole());
    // Bernoulli streams with two seeds and Sobol sequences at two lengths, and each product alone.
    assert_eq!((whole.rows.len(), whole.sensitivity.len(), whole.unfinished), (4, 26, 0));
    for n in [1, 5, 1000] {
        let mut journal = job.journal();
        let tasks = job.schedule().split(&journal.missing(), n);
        for task in tasks.iter().rev() {
            let line = run(&mut job, task).to_line().unwrap();
            // A result that comes twice counts once.
            for _ in 0..2 {
                journal.add(LanguageTaskResult::from_line(&line).unwrap()).unwrap();
            }
        }
        assert!(journal.missing().is_empty());
        assert_eq!(timeless(journal.finish().unwrap()), whole, "{n} tasks");
    }
}

#[test]
fn shards_are_disjoint_and_merge_to_the_whole() {
    let mut job = job();
    let mut merged: Option<LanguageJournal> = None;
    let mut sequences = 0;
    for shard in 0..3 {
        let mut file = job.schedule().to_line().unwrap() + "\n";
        for task in job.schedule().clone().shard(shard, 3) {
            sequences += task.chunks;
            file += &(run(&mut job, &task).to_line().unwrap() + "\n");
        }
        // The line that a killed process has begun.
        let journal = LanguageJournal::read(&(file + "{\"pass\":1")).unwrap();
        match &mut merged {
            Some(merged) => merged.merge(journal).unwrap(),
            None => merged = Some(journal),
        }
    }
    assert_eq!(sequences, 7 * job.schedule().tasks().len());
    assert_eq!(timeless(merged.unwrap().finish().unwrap()), whole());
}

#[test]
fn job_survives_its_bytes() {
    let mut job = job();
    let bytes = job.to_bytes(&origin()).unwrap();
    let mut copy = LanguageJob::from_bytes(&bytes).unwrap();
    assert_eq!(copy.schedule(), job.schedule());
    let task = aleatron_eval::Task { pass: 2, first: 3, chunks: 2 };
    let results = [run(&mut job, &task), run(&mut copy, &task)].map(|result| {
        let mut value: serde_json::Value =
            serde_json::from_str(&result.to_line().unwrap()).unwrap();
        value["sequences"]
            .as_array_mut()
            .unwrap()
            .iter_mut()
            .for_each(|one| one["seconds"] = 0.into());
        value
    });
    assert_eq!(results[0], results[1]);
    for end in [0, 1, bytes.len() / 2, bytes.len() - 1] {
        assert!(LanguageJob::from_bytes(&bytes[..end]).is_err(), "{end}");
    }
    // Weights that are rounded otherwise are another model.
    let other = ModelOrigin { precision: Precision::Int8, ..origin() };
    let error = LanguageJob::from_bytes(&job.to_bytes(&other).unwrap()).unwrap_err().to_string();
    assert!(error.contains("other logits"), "{error}");
}

/// Makes a result inconsistent.
type Change<'a> = &'a dyn Fn(&mut serde_json::Value);

#[test]
fn inconsistent_results_are_errors() {
    let mut job = job();
    let task = aleatron_eval::Task { pass: 1, first: 6, chunks: 1 };
    let line = run(&mut job, &task).to_line().unwrap();
    let read = |change: &dyn Fn(&mut serde_json::Value)| {
        let mut value: serde_json::Value = serde_json::from_str(&line).unwrap();
        change(&mut value);
        let result = LanguageTaskResult::from_line(&value.to_string())?;
        job.journal().add(result)
    };
    read(&|_| ()).unwrap();
    let changes: [(&str, Change<'_>); 8] = [
        ("margins", &|value| value["sequences"][0]["head"][1]["changed"] = 6.into()),
        ("past the end", &|value| value["first"] = 7.into()),
        ("pass 33 of 33", &|value| value["pass"] = 33.into()),
        ("tokens", &|value| value["first"] = 5.into()),
        ("loss", &|value| value["sequences"][0]["nats"] = (-1.0).into()),
        ("saturated", &|value| value["sequences"][0]["saturated"][0] = serde_json::json!([1, 2])),
        ("saturated", &|value| value["pass"] = 0.into()),
        ("unknown field", &|value| value["more"] = 1.into()),
    ];
    for (part, change) in changes {
        let error = read(change).unwrap_err().to_string();
        assert!(error.contains(part), "{part}: {error}");
    }
    let late = aleatron_eval::Task { pass: 1, first: 6, chunks: 2 };
    assert!(job.run(&late, Cancel::NEVER, &mut |_| ()).is_err());
    // A journal of another plan.
    let header = job.schedule().to_line().unwrap();
    let other = header.replacen("\"seeds\":2", "\"seeds\":1", 1);
    let (mut journal, other) = (job.journal(), LanguageJournal::read(&(other + "\n")).unwrap());
    assert!(matches!(journal.merge(other), Err(Error::OtherEvaluation)));
    let broken = header.replacen("\"context\":12", "\"context\":0", 1) + "\n";
    assert!(LanguageJournal::read(&broken).is_err() && LanguageJournal::read("").is_err());
    // Without floating point there is nothing to compare with.
    assert!(
        job.journal().finish().unwrap_err().to_string().contains("sequence 0 of floating point")
    );
}

/// With a margin of 0 every position stops after the first 8 cycles, with the token of a head of 8
/// bits; a margin that no noise reaches stops none. Measuring it changes no loss.
#[test]
fn head_stops_at_its_margins() {
    let mut model = origin().load().unwrap();
    let text = text(&model);
    for generator in ["bernoulli", "sobol"] {
        let plan = LanguagePlan {
            lengths: vec![64],
            generators: vec![generator.parse().unwrap()],
            seeds: 1,
            margins: vec![1e6, 0.0, 0.5],
            sensitivity: Sensitivity::Disabled,
            ..plan()
        };
        let mut best = |plan: &LanguagePlan| -> (LanguageEvaluation, Vec<u64>) {
            let mut job =
                LanguageJob::new("bytes", &mut model, &text, plan, Cancel::NEVER).unwrap();
            let (mut journal, mut tokens) = (job.journal(), Vec::new());
            for task in job.schedule().tasks() {
                let result = job.run(&task, Cancel::NEVER, &mut |_| ()).unwrap();
                let value: serde_json::Value =
                    serde_json::from_str(&result.to_line().unwrap()).unwrap();
                if task.pass == 1 {
                    let all = value["sequences"].as_array().unwrap().iter();
                    let all = all.flat_map(|one| one["best"].as_array().unwrap().clone());
                    tokens = all.map(|token| token.as_u64().unwrap()).collect();
                }
                journal.add(result).unwrap();
            }
            (journal.finish().unwrap(), tokens)
        };
        let (found, full) = best(&plan);
        let head = &found.rows[0].head;
        assert_eq!(head.iter().map(|stop| stop.margin).collect::<Vec<_>>(), [0.0, 0.5, 1e6]);
        assert_eq!(
            (head[0].mean_cycles, head[0].saved, head[0].stopped),
            (8.0, 1.0 - 8.0 / 64.0, 1.0)
        );
        assert_eq!((head[2].mean_cycles, head[2].stopped, head[2].changed), (64.0, 0.0, 0.0));
        assert!(
            head[0].mean_cycles < head[1].mean_cycles && head[1].mean_cycles < head[2].mean_cycles
        );
        assert!(head[1].changed < head[0].changed, "{head:?}");
        // Sequences have the width of the full length.
        let mut short = LanguagePlan { margins: Vec::new(), ..plan.clone() };
        short.layers.insert("head".to_owned(), "length=8,width=5".parse().unwrap());
        let (_, first) = best(&short);
        let changed = full.iter().zip(&first).filter(|(a, b)| a != b).count();
        assert_eq!(head[0].changed, changed as f64 / 77.0, "{generator}");
        short.layers.clear();
        assert_eq!(best(&short).0.rows[0].loss, found.rows[0].loss);
        let table = found.text(usize::MAX);
        assert!(
            table.contains("Early termination of the head") && table.contains("87.50"),
            "{table}"
        );
        assert!(aleatron_eval::report::language(&found).contains("87.50 %"));
    }
}

fn search(
    [shortest, longest]: [usize; 2],
    budget: usize,
    loss: f64,
    known: Option<Found>,
) -> Result<Found, Error> {
    let mut model = origin().load().unwrap();
    let text = text(&model);
    let plan = LanguagePlan { sensitivity: Sensitivity::Disabled, ..plan() };
    let search = Search { generator: "sobol".parse().unwrap(), loss, longest, shortest, budget };
    find_product_lengths(&mut model, &text, &plan, &search, known, Cancel::NEVER, |_| ())
}

/// The found lengths stay within the permitted loss when they are evaluated, and no product could
/// be halved.
#[test]
fn found_lengths_add_the_permitted_loss_at_most() {
    let found = search([32, 256], 100, 0.1, None).unwrap();
    assert!(found.is_good() && found.measure == Measure::NegativeLoss, "{found:?}");
    assert!(found.bit_macs < found.bit_macs_before);
    let mut model = origin().load().unwrap();
    let text = text(&model);
    let mut loss = |lengths: &[usize]| {
        let settings = lengths.iter().map(|length| format!("length={length}").parse().unwrap());
        let plan = LanguagePlan {
            layers: found.layers.iter().cloned().zip(settings).collect(),
            generators: vec!["sobol".parse().unwrap()],
            sensitivity: Sensitivity::Disabled,
            ..plan()
        };
        evaluate_language_model("bytes", &mut model, &text, &plan, None, Cancel::NEVER, |_| ())
            .unwrap()
    };
    let own = loss(&found.lengths);
    assert_eq!(-own.rows[0].loss.mean, found.score);
    assert_eq!(-own.float.loss, found.float_score);
    assert!(own.rows[0].added_loss <= 0.1 + 1e-9);
    for k in 0..found.lengths.len() {
        let mut shorter = found.lengths.clone();
        shorter[k] /= 2;
        let tried = found.trials.iter().any(|trial| trial.lengths == shorter);
        assert!(
            shorter[k] < 32 || tried || found.trials.iter().any(|t| t.lengths[k] == shorter[k])
        );
    }
    // An interrupted search resumes from its trials.
    let part = search([32, 256], 3, 0.1, None).unwrap();
    assert!(!part.is_finished && part.trials.len() == 3);
    assert_eq!(
        search([32, 256], 100, 0.1, Some(Found::from_json(&part.to_json().unwrap()).unwrap()))
            .unwrap(),
        found
    );
}

#[test]
fn searches_out_of_range_are_errors() {
    for (budget, loss, part) in [(0, 0.1, "trials"), (1, -1.0, "-1"), (1, f64::NAN, "NaN")] {
        let error = search([32, 64], budget, loss, None).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
    assert!(search([64, 32], 1, 0.1, None).is_err() && search([0, 32], 1, 0.1, None).is_err());
    // The search would replace the length of a single product.
    let mut model = origin().load().unwrap();
    let text = text(&model);
    let plan = LanguagePlan {
        layers: [("lm_head".to_owned(), "length=8".parse().unwrap())].into(),
        ..plan()
    };
    let generator = "sobol".parse().unwrap();
    let own = Search { generator, loss: 0.1, longest: 64, shortest: 32, budget: 1 };
    let refused = find_product_lengths(&mut model, &text, &plan, &own, None, Cancel::NEVER, |_| ());
    assert!(matches!(refused, Err(Error::SearchedLength { length: 8, .. })), "{refused:?}");
    // Even the longest streams add more.
    let found = search([8, 16], 100, 0.01, None).unwrap();
    assert!(
        !found.is_good() && found.is_finished && found.lengths.iter().all(|&length| length == 16)
    );
    let changed = Found { identity: "other".to_owned(), ..found };
    assert!(matches!(search([8, 16], 1, 0.01, Some(changed)), Err(Error::Checkpoint(_))));
}
