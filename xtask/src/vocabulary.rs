//! Checks the vocabulary of all tracked text files: terms that readers of the field would have to
//! translate are errors, each with the term to use instead.

use std::path::Path;
use std::process::Command;

/// File name extensions that are checked.
const EXTENSIONS: [&str; 8] = ["rs", "py", "pyi", "md", "wgsl", "cu", "v", "toml"];

/// This file, which must contain the terms.
const OWN_SOURCE: &str = "xtask/src/vocabulary.rs";

/// A term to avoid.
struct Term {
    /// The term in lower case. A leading `*` stands for the start of an identifier that ends so.
    avoid: &'static str,
    /// The recommended term.
    recommend: &'static str,
    /// Phrases that contain the term and are allowed.
    allowed: &'static [&'static str],
}

const fn term(avoid: &'static str, recommend: &'static str) -> Term {
    Term { avoid, recommend, allowed: &[] }
}

/// The terms to avoid.
const TERMS: &[Term] = &[
    term("nobody", "name the caller, user or thread"),
    term("somebody", "name the caller, user or thread"),
    term("anybody", "name the caller, user or thread"),
    term("everybody", "name the caller, user or thread"),
    term("whoever", "the caller, the user"),
    term("those who", "callers, users"),
    term("stranger", "of another owner, foreign"),
    term("strangers", "of another owner, foreign"),
    term("storey", "crate, layer"),
    term("storeys", "crates, layers"),
    term("the house", "the project, the architecture"),
    Term { avoid: "the law", recommend: "the specification", allowed: &["the law of large"] },
    term("daily bread", "common"),
    term("under way", "in flight, pending"),
    term("on its way", "in flight, pending"),
    term("is to be", "must be; or state the value"),
    term("are to be", "must be; or state the value"),
    term("was to be", "must be; or state the value"),
    term("were to be", "must be; or state the value"),
    term("for ever", "forever, without end"),
    term("make no sense", "are invalid"),
    term("makes no sense", "is invalid"),
    term("means well", "succeeds"),
    term("judge", "evaluate, check"),
    term("judges", "evaluates, checks"),
    term("judged", "evaluated, checked"),
    term("judging", "evaluating, checking"),
    term("jury", "evaluators"),
    term("has none", "lacks, does not support, is without"),
    term("have none", "lack, do not support, are without"),
    term("not there", "missing, unavailable, out of bounds"),
    term("no form in", "not supported in, not representable in"),
    term("cannot be true", "inconsistent"),
    term("numbers to be found", "targets"),
    term("forgets the oldest", "evicts the least recently used entry"),
    term("looks until", "spins until"),
    term("what judges see", "instrumentation, trace"),
    Term {
        avoid: "is no",
        recommend: "is not a",
        allowed: &[
            "there is no",
            "it is no",
            "is no longer",
            "is no more",
            "is no less",
            "is no fewer",
            "is no higher",
        ],
    },
    Term {
        avoid: "are no",
        recommend: "are not",
        allowed: &[
            "there are no",
            "are no longer",
            "are no more",
            "are no less",
            "are no fewer",
            "are no higher",
        ],
    },
    term("*_unless", "with_cancellation"),
    term("cut_back", "truncate"),
    term("nth_place", "nth_offset"),
    term("enum place", "a precise noun: Placement, Slot, Offset"),
];

/// A use of a term that is allowed in one file: a quotation or a name of another API.
struct Exception {
    file: &'static str,
    avoid: &'static str,
    #[expect(dead_code, reason = "for readers")]
    reason: &'static str,
}

/// The exceptions.
const EXCEPTIONS: &[Exception] = &[];

/// Fails with `file:line`, the term and the recommended term for every avoided term.
pub(crate) fn check() -> Result<(), String> {
    let root =
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or("xtask has no parent folder")?;
    let listed = Command::new("git").args(["ls-files", "-z"]).current_dir(root).output();
    let listed = listed.map_err(|error| format!("git ls-files: {error}"))?;
    if !listed.status.success() {
        return Err(format!("git ls-files failed: {}", listed.status));
    }
    let mut findings = Vec::new();
    for file in String::from_utf8_lossy(&listed.stdout).split_terminator('\0') {
        let extension = Path::new(file).extension().and_then(|extension| extension.to_str());
        let path = root.join(file);
        let is_text = extension.is_some_and(|extension| EXTENSIONS.contains(&extension));
        if is_text && file != OWN_SOURCE && path.is_file() {
            let text =
                std::fs::read_to_string(&path).map_err(|error| format!("{file}: {error}"))?;
            findings.extend(find(file, &text, EXCEPTIONS));
        }
    }
    match findings.len() {
        0 => Ok(()),
        n => Err(format!("vocabulary: {n} terms to avoid\n{}", findings.join("\n"))),
    }
}

/// Returns a message for every avoided term in a file.
fn find(file: &str, text: &str, exceptions: &[Exception]) -> Vec<String> {
    let is_allowed =
        |term: &Term| exceptions.iter().any(|e| e.file == file && e.avoid == term.avoid);
    let terms: Vec<&Term> = TERMS.iter().filter(|term| !is_allowed(term)).collect();
    let mut findings = Vec::new();
    for (k, line) in text.lines().enumerate() {
        let line = line.to_lowercase();
        let words = line.replace('_', " ");
        let text = |term: &Term| if term.avoid.contains('_') { &line } else { &words };
        for term in terms.iter().filter(|term| contains(text(term), term)) {
            let Term { avoid, recommend, .. } = term;
            findings.push(format!("{file}:{}: avoid \"{avoid}\"; use: {recommend}", k + 1));
        }
    }
    findings
}

/// Returns whether a line in lower case contains a term outside its allowed phrases.
fn contains(line: &str, term: &Term) -> bool {
    let is_open = term.avoid.starts_with('*');
    let avoid = term.avoid.trim_start_matches('*');
    line.match_indices(avoid).any(|(start, _)| {
        let end = start + avoid.len();
        let is_word = (is_open || !line[..start].ends_with(char::is_alphanumeric))
            && !line[end..].starts_with(|c: char| c.is_alphanumeric() || (is_open && c == '_'));
        let is_inside = |phrase: &&str| {
            line.match_indices(*phrase).any(|(at, _)| at <= start && end <= at + phrase.len())
        };
        is_word && !term.allowed.iter().any(is_inside)
    })
}

#[cfg(test)]
mod tests {
    use super::{Exception, TERMS, find};

    #[test]
    fn planted_terms_are_found_with_line_and_recommendation() {
        let text = "/// Returns a value.\n/// Nobody reads it.\nfn build_unless() {}\n";
        assert_eq!(
            find("a.rs", text, &[]),
            [
                "a.rs:2: avoid \"nobody\"; use: name the caller, user or thread",
                "a.rs:3: avoid \"*_unless\"; use: with_cancellation",
            ]
        );
    }

    #[test]
    fn exceptions_apply_to_their_file_and_term_only() {
        let exception = Exception { file: "a.rs", avoid: "jury", reason: "a quotation" };
        let findings = |file, text| find(file, text, std::slice::from_ref(&exception)).len();
        assert_eq!(findings("a.rs", "the jury"), 0);
        assert_eq!(findings("b.rs", "the jury"), 1);
        assert_eq!(findings("a.rs", "the judge"), 1);
    }

    #[test]
    fn allowed_phrases_and_parts_of_words_are_ignored() {
        assert!(find("a.rs", "there is no file; it is no longer prejudged", &[]).is_empty());
        assert_eq!(find("a.rs", "there is no file, and a pipe is no file", &[]).len(), 1);
        assert_eq!(find("a.rs", "fn what_makes_no_sense()", &[]).len(), 1);
        assert!(find("a.rs", "required_unless_present", &[]).is_empty());
    }

    #[test]
    fn terms_are_lower_case() {
        assert!(TERMS.iter().all(|term| term.avoid == term.avoid.to_lowercase()));
    }
}
