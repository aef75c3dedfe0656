//! Data as lines of text.

use super::{Answers, Dataset, LabelKind, class};
use crate::{Error, Result};
use std::fmt;
use std::io::Read;
use std::str::FromStr;

/// Whether the first line names the columns. As text: `auto`, `yes` or `no`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Header {
    /// Where one of its fields is not a number, or they count the columns: `0,1,2`, as pandas writes columns without names.
    #[default]
    Auto,
    /// It does.
    Yes,
    /// It is a sample.
    No,
}

impl FromStr for Header {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "auto" => Ok(Self::Auto),
            "yes" => Ok(Self::Yes),
            "no" => Ok(Self::No),
            _ => Err(Error::Header(text.to_owned())),
        }
    }
}

/// Which column holds the classes. As text: a name, or an index from 0 on, or from -1 down, the last one.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub enum LabelColumn {
    /// The last one.
    #[default]
    Last,
    /// The one at an index, counted from the end where it is negative.
    Index(i64),
    /// The one with this name.
    Name(String),
}

impl FromStr for LabelColumn {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Ok(match text.parse() {
            Ok(-1) => Self::Last,
            Ok(index) => Self::Index(index),
            Err(_) => Self::Name(text.to_owned()),
        })
    }
}

impl fmt::Display for LabelColumn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Last => f.write_str("-1"),
            Self::Index(index) => index.fmt(f),
            Self::Name(name) => f.write_str(name),
        }
    }
}

/// What is where in a text file. Fields are separated by commas, semicolons or tabs, whichever the first line has most of.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct CsvOptions {
    /// Whether the first line names the columns.
    pub header: Header,
    /// The column of the classes.
    pub label: LabelColumn,
}

/// Columns from which on a first line that counts them is taken for a header: a sample of two numbers may well be 0 and 1.
const COUNTED: usize = 3;

/// Reads lines of features and a class, or a number to be found.
pub(super) fn read(
    mut source: impl Read,
    name: String,
    options: &CsvOptions,
    kind: LabelKind,
) -> Result<Dataset> {
    let mut text = Vec::new();
    source.read_to_end(&mut text).map_err(|e| Error::file(&name, e))?;
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&text);
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .trim(csv::Trim::All)
        .delimiter(delimiter(text))
        .from_reader(text);
    let (mut features, mut labels, mut targets) = (Vec::new(), Vec::new(), Vec::new());
    let mut columns: Option<(usize, usize)> = None;
    let mut record = csv::ByteRecord::new();
    let mut is_first = true;
    loop {
        let line = reader.position().line() as usize;
        let fault = |line: usize, reason: String| Error::Line { name: name.clone(), line, reason };
        if !reader.read_byte_record(&mut record).map_err(|e| fault(line, e.to_string()))? {
            break;
        }
        // A record's position is before the empty lines that were skipped to get to it.
        let line = record.position().map_or(line, |position| {
            let skipped = text.get(position.byte() as usize..).unwrap_or_default();
            let skipped = skipped.iter().take_while(|&&byte| byte == b'\n' || byte == b'\r');
            position.line() as usize + skipped.filter(|&&byte| byte == b'\n').count()
        });
        let fields: Vec<std::borrow::Cow<'_, str>> = record.iter().map(String::from_utf8_lossy).collect();
        if fields.iter().all(|field| field.is_empty()) {
            continue;
        }
        let heading = std::mem::take(&mut is_first) && is_heading(&fields, options.header);
        let (n, label) = match columns {
            Some(columns) => columns,
            None => {
                let names: &[_] = if heading { &fields } else { &[] };
                let label = label_column(&options.label, fields.len(), names)
                    .map_err(|reason| fault(line, reason))?;
                *columns.insert((fields.len(), label))
            }
        };
        if heading {
            continue;
        }
        if fields.len() != n {
            return Err(fault(line, format!("{} columns, expected {n}", fields.len())));
        }
        for (column, field) in fields.iter().enumerate() {
            let number = field.parse::<f64>();
            if column == label && kind == LabelKind::Numbers {
                targets.push(number.map_err(|_| fault(line, format!("\"{field}\" is not a number")))?);
            } else if column == label {
                let class = number.ok().and_then(class);
                labels.push(
                    class.ok_or_else(|| fault(line, format!("\"{field}\" is not a class counted from 0")))?,
                );
            } else {
                features.push(number.map_err(|_| fault(line, format!("\"{field}\" is not a number")))?);
            }
        }
    }
    let answers = match kind {
        LabelKind::Classes => Answers::Classes(labels),
        LabelKind::Numbers => Answers::new(kind, 1, targets, &name)?,
    };
    Dataset::with_answers(name, columns.map_or(0, |(n, _)| n - 1), features.into(), answers)
}

/// The separator that the first line has most of.
fn delimiter(text: &[u8]) -> u8 {
    let first = text.split(|&byte| byte == b'\n').find(|line| !line.trim_ascii().is_empty()).unwrap_or(text);
    let count = |separator: u8| first.iter().filter(|&&byte| byte == separator).count();
    // The first of equals: a comma.
    [b',', b';', b'\t'].into_iter().rev().max_by_key(|&separator| count(separator)).unwrap_or(b',')
}

fn is_heading(fields: &[impl AsRef<str>], header: Header) -> bool {
    let is_number = |field: &str| field.parse::<f64>().is_ok();
    match header {
        Header::Yes => true,
        Header::No => false,
        Header::Auto => {
            let mut counted = fields.iter().zip(0usize..).map(|(field, k)| field.as_ref() == k.to_string());
            fields.iter().any(|field| !is_number(field.as_ref()))
                || (fields.len() >= COUNTED && counted.all(|counts| counts))
        }
    }
}

/// The index of the column of the classes among `n`.
fn label_column(label: &LabelColumn, n: usize, names: &[impl AsRef<str>]) -> Result<usize, String> {
    match label {
        LabelColumn::Last => Ok(n - 1),
        LabelColumn::Index(index) => {
            let from_start = if *index < 0 { index + n as i64 } else { *index };
            let column = usize::try_from(from_start).ok().filter(|&column| column < n);
            column.ok_or_else(|| format!("there is no column {index} among {n}"))
        }
        LabelColumn::Name(name) => {
            let column = names.iter().position(|known| known.as_ref() == name);
            column.ok_or_else(|| match names {
                [] => format!("there is no header to find the column \"{name}\" in"),
                names => {
                    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
                    format!("there is no column \"{name}\" among {}", names.join(", "))
                }
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Dataset> {
        Dataset::from_csv(text.as_bytes(), "t", &CsvOptions::default())
    }

    #[test]
    fn lines_become_samples() {
        let data = parse("a,b,class\n1, 2.5,0\n\n-3,4,2\n").unwrap();
        assert_eq!((data.features(), data.labels()), (&[1.0, 2.5, -3.0, 4.0][..], &[0, 2][..]));
        for text in
            ["1,2.0\n", "1,2.000000e+00", "\u{feff}1,2\r\n", "\"1\",\"2\"\n", "1;2\n", "1\t2\n", "f;g\n1;2"]
        {
            let data = parse(text).unwrap();
            assert_eq!((data.features(), data.labels()), (&[1.0][..], &[2][..]), "{text:?}");
        }
    }

    #[test]
    fn headers_are_told_from_samples() {
        // Columns that are counted, as pandas writes them; a mixed header; and two numbers, which are a sample.
        assert_eq!(parse("0,1,2\n5,6,1\n").unwrap().labels(), [1]);
        assert_eq!(parse("x,1,2\n5,6,1\n").unwrap().labels(), [1]);
        assert_eq!(parse("0,1\n5,0\n").unwrap().labels(), [1, 0]);
        let with = |header| {
            Dataset::from_csv(b"0,1,2\n5,6,1\n", "t", &CsvOptions { header, ..CsvOptions::default() })
        };
        assert_eq!(with(Header::No).unwrap().labels(), [2, 1]);
        assert_eq!(with(Header::Yes).unwrap().labels(), [1]);
        assert_eq!("no".parse::<Header>().unwrap(), Header::No);
        assert!("maybe".parse::<Header>().is_err());
    }

    #[test]
    fn the_label_may_be_any_column() {
        let with = |text: &str, label: &str| {
            let options = CsvOptions { label: label.parse().unwrap(), ..CsvOptions::default() };
            Dataset::from_csv(text.as_bytes(), "t", &options)
        };
        for label in ["0", "-3", "class"] {
            let data = with("class,a,b\n1,2.5,3\n0,4,5\n", label).unwrap();
            assert_eq!((data.features(), data.labels()), (&[2.5, 3.0, 4.0, 5.0][..], &[1, 0][..]), "{label}");
        }
        let message = |text: &str, label: &str| with(text, label).unwrap_err().to_string();
        assert_eq!(message("a,b\n1,0\n", "c"), "t, line 1: there is no column \"c\" among a, b");
        assert_eq!(message("1,0\n", "c"), "t, line 1: there is no header to find the column \"c\" in");
        assert_eq!(message("1,0\n", "2"), "t, line 1: there is no column 2 among 2");
        assert_eq!(message("1,0\n", "-3"), "t, line 1: there is no column -3 among 2");
    }

    #[test]
    fn labels_may_be_numbers() {
        let read =
            |text: &str| super::read(text.as_bytes(), "t".into(), &CsvOptions::default(), LabelKind::Numbers);
        let data = read("a,b,t\n1,2,-0.5\n3,4,1e3\n").unwrap();
        assert_eq!((data.targets(), data.n_targets(), data.len()), (&[-0.5, 1000.0][..], 1, 2));
        assert_eq!((data.features(), data.labels()), (&[1.0, 2.0, 3.0, 4.0][..], &[][..]));
        let message = |text: &str| read(text).unwrap_err().to_string();
        assert_eq!(message("1,x\n2,3\n1,y\n"), "t, line 3: \"y\" is not a number");
        assert_eq!(message("1,2\n1,inf\n"), "t: sample 1 is to be inf, not a number from -1e100 to 1e100");
    }

    #[test]
    fn faults_name_the_line() {
        let message = |text: &str| parse(text).unwrap_err().to_string();
        assert_eq!(message("1,2,0\n1,0\n"), "t, line 2: 2 columns, expected 3");
        assert_eq!(message("h,i,j\n1,x,0\n"), "t, line 2: \"x\" is not a number");
        assert_eq!(message("1,2,0\n\n1,x,0\n"), "t, line 3: \"x\" is not a number");
        assert_eq!(message("1,2,-1\n"), "t, line 1: \"-1\" is not a class counted from 0");
        assert_eq!(message("1,2,0.5\n"), "t, line 1: \"0.5\" is not a class counted from 0");
        assert_eq!(message("1,NaN,0\n"), "t: sample 0, feature 1 is NaN");
        assert_eq!(message("a,b\n"), "t: there are no samples");
        assert_eq!(message("3\n"), "t: there are no samples");
        assert_eq!(message(""), "t: there are no samples");
    }
}
