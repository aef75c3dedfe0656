//! Data sets as lines of text.

use super::labels::{LabelData, LabelKind, RawLabels, class};
use super::{Dataset, ReadOptions};
use crate::{Error, Features, Result};
use std::fmt;
use std::io::Read;
use std::str::FromStr;

/// Whether the first line names the columns. As text: `auto`, `yes` or `no`, in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Header {
    /// It does if a feature in it is not a number, if its label alone is not a number while those
    /// of all other lines are, or if its fields count the columns: `0,1,2`, as pandas writes
    /// columns without names.
    #[default]
    Auto,
    /// The first line names the columns.
    Yes,
    /// The first line is a sample.
    No,
}

impl FromStr for Header {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text.to_ascii_lowercase().as_str() {
            "auto" => Ok(Self::Auto),
            "yes" => Ok(Self::Yes),
            "no" => Ok(Self::No),
            _ => Err(Error::Header(text.to_owned())),
        }
    }
}

/// The column of the labels. As text: a name, or an index from 0 on, or from -1 down for columns
/// counted from the end.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub enum LabelColumn {
    /// The last column.
    #[default]
    Last,
    /// The column at an index, counted from the end if it is negative.
    Index(i64),
    /// The column with this name.
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

/// Options of reading a text file. Fields are separated by commas, semicolons or tabs, whichever
/// the first line has most of.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct CsvOptions {
    /// Whether the first line names the columns.
    pub header: Header,
    /// The column of the labels.
    pub label: LabelColumn,
}

/// Columns from which on a first line that counts them is taken for a header: a sample of two
/// numbers may well be 0 and 1.
const COUNTED: usize = 3;

/// A label, and the line it is from.
struct Label {
    line: usize,
    text: String,
}

/// The samples of a text file as they are read.
#[derive(Default)]
struct Table {
    /// The number of columns, and the index of that of the labels.
    columns: Option<(usize, usize)>,
    features: Vec<f64>,
    labels: Vec<Label>,
}

/// Reads lines of features and a label.
pub(super) fn read(mut source: impl Read, name: String, options: &ReadOptions) -> Result<Dataset> {
    let mut text = Vec::new();
    source.read_to_end(&mut text).map_err(|e| Error::file(&name, e))?;
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&text);
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .trim(csv::Trim::All)
        .delimiter(delimiter(text))
        .from_reader(text);
    let mut table = Table::default();
    let mut record = csv::ByteRecord::new();
    let mut is_first = true;
    // A first line of which the label alone is not a number names the columns, or it is a sample
    // whose label is a name.
    let mut is_open = false;
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
        let fields: Vec<std::borrow::Cow<'_, str>> =
            record.iter().map(String::from_utf8_lossy).collect();
        if fields.iter().all(|field| field.is_empty()) {
            continue;
        }
        if std::mem::take(&mut is_first) {
            let heading = heading(&fields, &options.csv);
            let names: &[_] = if heading == Heading::Sample { &[] } else { &fields };
            let label = label_column(&options.csv.label, fields.len(), names)
                .map_err(|reason| fault(line, reason))?;
            table.columns = Some((fields.len(), label));
            is_open = heading == Heading::Open && options.kind == LabelKind::Classes;
            if heading == Heading::Names || (heading == Heading::Open && !is_open) {
                continue;
            }
        }
        table.add(line, &fields).map_err(|reason| fault(line, reason))?;
    }
    let Table { columns, mut features, mut labels } = table;
    let n_features = columns.map_or(0, |(n, _)| n - 1);
    let is_number = |label: &Label| label.text.parse::<f64>().is_ok();
    if is_open && labels.iter().skip(1).all(is_number) {
        labels.remove(0);
        features.drain(..n_features);
    }
    let labels = label_values(labels, options, &name)?;
    let answers = LabelData::new(options.kind, 1, labels, options.classes.as_deref(), &name)?;
    Dataset::with_answers(name, vec![n_features], Features::Held(features), answers)
}

impl Table {
    /// Adds a line, or returns the reason why it cannot be read.
    fn add(&mut self, line: usize, fields: &[impl AsRef<str>]) -> Result<(), String> {
        let Some((n, label)) = self.columns else { return Ok(()) };
        if fields.len() != n {
            return Err(format!("{} columns, expected {n}", fields.len()));
        }
        for (column, field) in fields.iter().map(AsRef::as_ref).enumerate() {
            if column == label {
                self.labels.push(Label { line, text: field.to_owned() });
            } else {
                self.features
                    .push(field.parse().map_err(|_| format!("\"{field}\" is not a number"))?);
            }
        }
        Ok(())
    }
}

/// Returns labels as numbers, or as names if none of them is a number or if all classes are listed.
fn label_values(labels: Vec<Label>, options: &ReadOptions, name: &str) -> Result<RawLabels> {
    let number = |label: &Label| label.text.parse::<f64>().ok();
    let are_names = options.kind == LabelKind::Classes
        && !labels.is_empty()
        && (options.classes.is_some() || labels.iter().all(|label| number(label).is_none()));
    if are_names {
        if let Some(empty) = labels.iter().find(|label| label.text.is_empty()) {
            let (name, reason) = (name.to_owned(), "its label is empty".to_owned());
            return Err(Error::Line { name, line: empty.line, reason });
        }
        return Ok(RawLabels::Names(labels.into_iter().map(|label| label.text).collect()));
    }
    let values = labels.iter().map(|label| {
        let value = number(label);
        let value = match options.kind {
            LabelKind::Classes => value.filter(|&value| class(value).is_some()),
            LabelKind::Numbers => value,
        };
        value.ok_or_else(|| {
            let reason = match options.kind {
                LabelKind::Classes => format!("\"{}\" is not a class counted from 0", label.text),
                LabelKind::Numbers => format!("\"{}\" is not a number", label.text),
            };
            Error::Line { name: name.to_owned(), line: label.line, reason }
        })
    });
    Ok(RawLabels::Numbers(values.collect::<Result<_>>()?))
}

/// Returns the separator that the first line has most of.
fn delimiter(text: &[u8]) -> u8 {
    let first = text
        .split(|&byte| byte == b'\n')
        .find(|line| !line.trim_ascii().is_empty())
        .unwrap_or(text);
    let count = |separator: u8| first.iter().filter(|&&byte| byte == separator).count();
    // The first of equals: a comma.
    [b',', b';', b'\t'].into_iter().rev().max_by_key(|&separator| count(separator)).unwrap_or(b',')
}

/// The kind of the first line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Heading {
    /// The line names the columns.
    Names,
    /// The line is a sample.
    Sample,
    /// The line may be either: all its fields except the label are numbers.
    Open,
}

fn heading(fields: &[impl AsRef<str>], options: &CsvOptions) -> Heading {
    match options.header {
        Header::Yes => return Heading::Names,
        Header::No => return Heading::Sample,
        Header::Auto => {}
    }
    let mut counted = fields.iter().zip(0usize..).map(|(field, k)| field.as_ref() == k.to_string());
    if fields.len() >= COUNTED && counted.all(|counts| counts) {
        return Heading::Names;
    }
    // A column with a name is one of a header.
    let label = label_column(&options.label, fields.len(), &[] as &[&str]).ok();
    let mut words =
        fields.iter().enumerate().filter(|(_, field)| field.as_ref().parse::<f64>().is_err());
    match (words.next(), words.next()) {
        (None, _) => Heading::Sample,
        (Some((column, _)), None) if Some(column) == label => Heading::Open,
        _ => Heading::Names,
    }
}

/// Returns the index of the column of the labels among `n`.
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
    use crate::ClassNames;

    fn parse(text: &str) -> Result<Dataset> {
        Dataset::from_csv(text.as_bytes(), "t", &CsvOptions::default())
    }

    #[test]
    fn lines_become_samples() {
        let data = parse("a,b,class\n1, 2.5,0\n\n-3,4,2\n").unwrap();
        assert_eq!((data.features(), data.labels()), (&[1.0, 2.5, -3.0, 4.0][..], &[0, 2][..]));
        for text in [
            "1,2.0\n",
            "1,2.000000e+00",
            "\u{feff}1,2\r\n",
            "\"1\",\"2\"\n",
            "1;2\n",
            "1\t2\n",
            "f;g\n1;2",
        ] {
            let data = parse(text).unwrap();
            assert_eq!((data.features(), data.labels()), (&[1.0][..], &[2][..]), "{text:?}");
        }
    }

    #[test]
    fn headers_are_distinguished_from_samples() {
        // Columns that are counted, as pandas writes them; a mixed header; and two numbers, which
        // are a sample.
        assert_eq!(parse("0,1,2\n5,6,1\n").unwrap().labels(), [1]);
        assert_eq!(parse("x,1,2\n5,6,1\n").unwrap().labels(), [1]);
        assert_eq!(parse("0,1\n5,0\n").unwrap().labels(), [1, 0]);
        let with = |header| {
            Dataset::from_csv(
                b"0,1,2\n5,6,1\n",
                "t",
                &CsvOptions { header, ..CsvOptions::default() },
            )
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
            assert_eq!(
                (data.features(), data.labels()),
                (&[2.5, 3.0, 4.0, 5.0][..], &[1, 0][..]),
                "{label}"
            );
        }
        let message = |text: &str, label: &str| with(text, label).unwrap_err().to_string();
        assert_eq!(message("a,b\n1,0\n", "c"), "t, line 1: there is no column \"c\" among a, b");
        assert_eq!(
            message("1,0\n", "c"),
            "t, line 1: there is no header to find the column \"c\" in"
        );
        assert_eq!(message("1,0\n", "2"), "t, line 1: there is no column 2 among 2");
        assert_eq!(message("1,0\n", "-3"), "t, line 1: there is no column -3 among 2");
    }

    #[test]
    fn labels_may_be_numbers() {
        let options = ReadOptions { kind: LabelKind::Numbers, ..ReadOptions::default() };
        let read = |text: &str| super::read(text.as_bytes(), "t".into(), &options);
        let data = read("a,b,t\n1,2,-0.5\n3,4,1e3\n").unwrap();
        assert_eq!((data.targets(), data.n_targets(), data.len()), (&[-0.5, 1000.0][..], 1, 2));
        assert_eq!((data.features(), data.labels()), (&[1.0, 2.0, 3.0, 4.0][..], &[][..]));
        let message = |text: &str| read(text).unwrap_err().to_string();
        assert_eq!(message("1,x\n2,3\n1,y\n"), "t, line 3: \"y\" is not a number");
        assert_eq!(
            message("1,2\n1,inf\n"),
            "t: the target of sample 1 is inf, not a number from -1e100 to 1e100"
        );
    }

    #[test]
    fn names_become_classes_in_sorted_order() {
        let sorted = |names: &[&str]| {
            ClassNames::Sorted(names.iter().map(|name| (*name).to_owned()).collect())
        };
        // With and without a header, and with a label that parses as nothing but a name in the
        // first line alone.
        for text in ["a,b,kind\n1,2,dog\n3,4,cat\n5,6,dog\n", "1,2,dog\n3,4,cat\n5,6,dog\n"] {
            let data = parse(text).unwrap();
            assert_eq!(
                (data.labels(), data.class_names()),
                (&[1, 0, 1][..], &sorted(&["cat", "dog"]))
            );
            assert_eq!(data.features(), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        }
        let named = parse("1,2,kind\n3,4,1\n5,6,0\n").unwrap();
        assert_eq!((named.labels(), named.class_names()), (&[1, 0][..], &ClassNames::Numbers));
        // A number among names is neither.
        let error = parse("1,2,dog\n3,4,1\n5,6,cat\n").unwrap_err().to_string();
        assert_eq!(error, "t, line 1: \"dog\" is not a class counted from 0");
        assert_eq!(parse("1,dog\n2,\n").unwrap_err().to_string(), "t, line 2: its label is empty");
        let listed = ["dog", "emu", "cat"].map(str::to_owned).to_vec();
        let options = ReadOptions { classes: Some(listed.clone()), ..ReadOptions::default() };
        let read = |text: &str| super::read(text.as_bytes(), "t".into(), &options);
        let data = read("1,2,dog\n3,4,cat\n").unwrap();
        assert_eq!((data.labels(), data.class_names()), (&[0, 2][..], &ClassNames::Listed(listed)));
        assert_eq!(
            read("1,2,dog\n3,4,hen\n").unwrap_err().to_string(),
            "t: \"hen\" is not one of the classes dog, emu, cat"
        );
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
