//! Data as lines of text.

use super::{DataError, Dataset};
use crate::Result;

/// Reads lines of features and a class, separated by commas.
pub(super) fn parse(text: &str, name: String) -> Result<Dataset> {
    let fault = |line: usize, reason: String| DataError::Line { name: name.clone(), line: line + 1, reason };
    let (mut features, mut labels) = (Vec::new(), Vec::new());
    let mut n_features = None;
    for (line, text) in text.lines().enumerate() {
        let fields: Vec<&str> = text.split(',').map(str::trim).collect();
        if fields == [""] {
            continue;
        }
        let heading = line == 0 && fields.iter().all(|field| field.parse::<f64>().is_err());
        let Some((label, row)) = fields.split_last().filter(|_| !heading) else { continue };
        let expected = *n_features.get_or_insert(row.len());
        if row.len() != expected {
            return Err(fault(line, format!("{} features, expected {expected}", row.len())).into());
        }
        for field in row {
            let value = field.parse::<f64>();
            features.push(value.map_err(|_| fault(line, format!("\"{field}\" is not a number")))?);
        }
        // "3.0" is how some programs write the integer 3.
        let class = label.strip_suffix(".0").unwrap_or(label).parse();
        labels.push(class.map_err(|_| fault(line, format!("\"{label}\" is not a class counted from 0")))?);
    }
    Dataset::new(name, n_features.unwrap_or(0), features, labels)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_samples() {
        let data = parse("a,b,class\n1, 2.5,0\n\n-3,4,2\n", "t".into()).unwrap();
        assert_eq!((data.features(), data.labels()), (&[1.0, 2.5, -3.0, 4.0][..], &[0, 2][..]));
        assert_eq!(parse("1,2.0\n", "t".into()).unwrap().labels(), [2]);
    }

    #[test]
    fn faults_name_the_line() {
        let message = |text: &str| parse(text, "t".into()).unwrap_err().to_string();
        assert_eq!(message("1,2,0\n1,0\n"), "t, line 2: 1 features, expected 2");
        assert_eq!(message("1,x,0\n"), "t, line 1: \"x\" is not a number");
        assert_eq!(message("1,2,-1\n"), "t, line 1: \"-1\" is not a class counted from 0");
        assert_eq!(message("1,NaN,0\n"), "t: sample 0, feature 1 is NaN");
        assert_eq!(message("a,b\n"), "t: there are no samples");
        assert_eq!(message("3\n"), "t: there are no samples");
    }
}
