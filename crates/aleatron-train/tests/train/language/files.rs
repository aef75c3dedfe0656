//! Files of texts.

use std::path::PathBuf;

use aleatron_train::language::data::{IGNORED, Reader};
use aleatron_transformer::{Config, ModelSource, Tokenizer};

use super::{folder, golden};

fn write(folder: &std::path::Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path
}

fn subject() -> (Config, Tokenizer) {
    let mut config = Config::read(&golden("qwen2").join("config.json")).unwrap();
    config.end_tokens = vec![2];
    (config, Tokenizer::read(&golden("qwen2").join("tokenizer.json")).unwrap())
}

#[test]
fn text_is_cut_into_sequences() {
    let ((config, tokenizer), folder) = (subject(), folder("text"));
    let text = "the cat sat on the mat";
    let path = write(&folder, "text.txt", text);
    let tokens = tokenizer.encode(text).unwrap();
    // A rest of one token has nothing to predict.
    let length = (2..).find(|length| tokens.len() % length == 1).unwrap();
    let corpus =
        Reader { config: &config, tokenizer: Some(&tokenizer), length }.read(&path).unwrap();
    let read: Vec<u32> = corpus.sequences.iter().flat_map(|s| s.tokens()).copied().collect();
    assert_eq!(read, tokens[..tokens.len() - 1]);
    assert!(corpus.sequences.iter().all(|sequence| sequence.tokens().len() == length));
    assert_eq!(corpus.truncated, 0);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn lines_become_sequences_with_labels() {
    let ((config, tokenizer), folder) = (subject(), folder("lines"));
    let lines = r#"{"text": "the cat"}

{"prompt": "the cat", "completion": " sat"}
{"tokens": [5, 6, 7, 8, 9], "labels": [-100, 6, -100, 8, 9]}
{"tokens": [5, 6]}
"#;
    let path = write(&folder, "data.jsonl", lines);
    let corpus =
        Reader { config: &config, tokenizer: Some(&tokenizer), length: 64 }.read(&path).unwrap();
    let [text, pair, masked, plain] = &corpus.sequences[..] else { unreachable!() };
    let own = tokenizer.encode("the cat").unwrap();
    assert_eq!(text.tokens(), [&own[..], &[2]].concat());
    assert_eq!(text.labels().last(), Some(&2));
    assert_eq!(pair.tokens(), [&tokenizer.encode("the cat sat").unwrap()[..], &[2]].concat());
    let ignored = pair.labels().iter().take_while(|&&label| label == IGNORED).count();
    assert_eq!(ignored, own.len());
    assert_eq!(pair.targets(), pair.tokens().len() - own.len());
    assert_eq!(masked.labels(), [-100, 6, -100, 8, 9]);
    assert_eq!((masked.targets(), plain.targets()), (3, 1));
    let short = Reader { config: &config, tokenizer: Some(&tokenizer), length: 4 };
    let lines = "{\"tokens\": [5, 6, 7, 8, 9]}\n{\"tokens\": [5, 6, 7, 8]}";
    let corpus = short.read(&write(&folder, "long.jsonl", lines)).unwrap();
    assert_eq!((corpus.sequences[0].tokens(), corpus.truncated), (&[5, 6, 7, 8][..], 1));
    std::fs::remove_dir_all(&folder).unwrap();
}

/// The first token of `generation_config.json` that ends texts ends those of the training.
#[test]
fn texts_end_with_the_end_token_of_generation() {
    let folder = folder("end-token");
    let model = folder.join("model");
    std::fs::create_dir_all(&model).unwrap();
    for name in ["config.json", "tokenizer.json"] {
        std::fs::copy(golden("qwen2").join(name), model.join(name)).unwrap();
    }
    let path = write(&folder, "data.jsonl", "{\"text\": \"the cat\"}");
    let last = || {
        let source = ModelSource::Folder(model.clone());
        let (config, tokenizer) = (source.config().unwrap(), source.tokenizer().unwrap());
        let reader = Reader { config: &config, tokenizer: tokenizer.as_ref(), length: 64 };
        *reader.read(&path).unwrap().sequences[0].tokens().last().unwrap()
    };
    assert_eq!(last(), 2);
    write(&model, "generation_config.json", "{\"eos_token_id\": [7, 2]}");
    assert_eq!(last(), 7);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn faults_name_the_file_and_the_line() {
    let ((config, tokenizer), folder) = (subject(), folder("faults"));
    let reader = Reader { config: &config, tokenizer: Some(&tokenizer), length: 64 };
    let cases = [
        ("{\"tokens\": [5, 6]}\n{\"tokens\": [5]}", "line 2: number of labels to predict is 0"),
        ("{\"tokens\": [5, 6], \"labels\": [5]}", "line 1: number of labels is 1 for 2 tokens"),
        ("{\"tokens\": [5, 600]}", "line 1: token is 600"),
        ("{\"tokens\": [5, 6], \"labels\": [5, -7]}", "line 1: label is -7"),
        ("{\"tokens\": [5, 6], \"lables\": [5, 6]}", "line 1: unknown field `lables`"),
        ("{\"prompt\": \"a\"}", "line 1: combination of fields"),
        ("{\"text\": \"a\", \"tokens\": [5, 6]}", "line 1: combination of fields"),
        ("{\"labels\": [5, 6]}", "line 1: combination of fields"),
        ("[1, 2", "line 1: "),
        ("", "no sequence"),
    ];
    for (text, expected) in cases {
        let error = reader.read(&write(&folder, "bad.jsonl", text)).unwrap_err().to_string();
        assert!(error.contains(expected) && error.contains("bad.jsonl"), "{error}");
    }
    assert!(reader.read(&folder).unwrap_err().to_string().contains("not a regular file"));
    let without = Reader { tokenizer: None, ..reader };
    let text = write(&folder, "text.txt", "the cat");
    assert!(without.read(&text).unwrap_err().to_string().contains("tokenizer.json"));
    for length in [0, 1, config.max_positions + 1] {
        let error = Reader { length, ..reader }.read(&text).unwrap_err().to_string();
        assert!(error.contains("length of sequences"), "{error}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
