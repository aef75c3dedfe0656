//! Texts and tokens: `qwen2` has a byte-level `tokenizer.json`, in which most characters beyond
//! ASCII are several tokens.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use aleatron_transformer::{
    DeviceChoice, Error, GenerateOptions, Precision, TextStream, Tokenizer, Transformer,
};
use common::{folder, load};

const TEXT: &str = "the hat: 5 € naïve Übermaß 漢字 and 😀!";

fn tokenizer() -> Tokenizer {
    Tokenizer::read(&folder("qwen2").join("tokenizer.json")).unwrap()
}

#[test]
fn texts_become_tokens_and_texts_again() {
    let tokenizer = tokenizer();
    // A line break is not among the bytes it knows.
    for text in [TEXT, "", " ", "a", "😀", "the  the\n"] {
        let tokens = tokenizer.encode(text).unwrap();
        // A text begins with its special token, which is not text.
        assert_eq!(tokens[0], 1, "{text:?}");
        assert_eq!(tokenizer.decode(&tokens).unwrap(), text.replace('\n', ""), "{text:?}");
    }
    // "the" is one token, a face several.
    assert_eq!(tokenizer.encode("the").unwrap().len(), 2);
    assert!(tokenizer.encode("字").unwrap().len() > 2);
}

#[test]
fn streams_return_whole_characters_once() {
    let tokenizer = tokenizer();
    // Long enough that a stream forgets its beginning several times.
    let text = TEXT.repeat(12);
    let tokens = tokenizer.encode(&text).unwrap();
    assert!(tokens.len() > 300);
    let (mut stream, mut shown, mut waited) = (TextStream::default(), String::new(), 0);
    for (i, &token) in tokens.iter().enumerate() {
        let new = stream.push(&tokenizer, token).unwrap();
        assert!(!new.contains(char::REPLACEMENT_CHARACTER), "token {i}: {new:?}");
        waited += usize::from(new.is_empty());
        shown += &new;
        // Nothing is held back but the beginning of one character.
        let all = tokenizer.decode(&tokens[..=i]).unwrap();
        assert_eq!(shown, all.trim_end_matches(char::REPLACEMENT_CHARACTER), "token {i}");
    }
    assert!(waited > 12, "{waited} tokens were parts of characters");
    assert_eq!(shown, text);
    assert_eq!(stream.finish(&tokenizer).unwrap(), "");
}

#[test]
fn incomplete_characters_are_shown_at_the_end() {
    let tokenizer = tokenizer();
    let face = tokenizer.encode("😀").unwrap();
    let (first, last) = (face[1], face[face.len() - 1]);
    let mut stream = TextStream::default();
    for (token, expected) in [(first, ""), (last, ""), (last, "")] {
        assert_eq!(stream.push(&tokenizer, token).unwrap(), expected);
    }
    let a = tokenizer.encode("a").unwrap()[1];
    let new = stream.push(&tokenizer, a).unwrap();
    let all = tokenizer.decode(&[first, last, last, a]).unwrap();
    assert!(new == all && new.ends_with("\u{fffd}a"), "{new:?}");
    assert_eq!(stream.push(&tokenizer, first).unwrap(), "");
    assert_eq!(stream.finish(&tokenizer).unwrap(), "\u{fffd}");
}

#[test]
fn generated_text_equals_the_decoded_tokens() {
    let mut model = load("qwen2", DeviceChoice::Cpu, Precision::F32);
    let prompt = model.tokenizer().unwrap().encode("the cat").unwrap();
    let options = GenerateOptions { max_tokens: 100, ..GenerateOptions::default() };
    let tokens: Vec<u32> =
        model.generate(&prompt, &options).unwrap().map(|token| token.unwrap()).collect();
    let tokenizer = model.tokenizer().unwrap();
    let (mut stream, mut text) = (TextStream::default(), String::new());
    for &token in &tokens {
        text += &stream.push(tokenizer, token).unwrap();
    }
    text += &stream.finish(tokenizer).unwrap();
    assert_eq!(text, tokenizer.decode(&tokens).unwrap());
    assert!(!text.is_empty());
}

#[test]
fn missing_or_broken_tokenizer_is_an_error_with_its_name() {
    let model = load("llama", DeviceChoice::Cpu, Precision::F32);
    let error = model.tokenizer().unwrap_err();
    assert!(
        matches!(error, Error::NoTokenizer) && error.to_string().contains("tokenizer.json"),
        "{error}"
    );

    let path = std::env::temp_dir().join(format!("aleatron-{}-tokenizer", std::process::id()));
    std::fs::create_dir_all(&path).unwrap();
    for file in ["config.json", "model.safetensors"] {
        std::fs::copy(folder("qwen2").join(file), path.join(file)).unwrap();
    }
    for broken in ["", "{", "{}", r#"{"version": "1.0", "model": {"type": "BPE", "vocab": 3}}"#] {
        std::fs::write(path.join("tokenizer.json"), broken).unwrap();
        let options =
            aleatron_transformer::LoadOptions { device: DeviceChoice::Cpu, ..Default::default() };
        let error = Transformer::from_pretrained(&path, &options).unwrap_err();
        assert!(error.to_string().contains("tokenizer.json"), "{broken:?}: {error}");
    }
    std::fs::remove_dir_all(&path).unwrap();
}
