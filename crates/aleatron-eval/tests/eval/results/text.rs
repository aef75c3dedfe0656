//! Results as text: the printed table and CSV.

use super::{cell, evaluation, example};

#[test]
fn text_table_shows_the_rows() {
    let text = example().text(usize::MAX);
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    assert_eq!(
        lines,
        [
            "Network net (3-2) on data, 100 samples; floating point: 90.00 % right",
            "",
            "generator  bits           accuracy %  agrees %  early cycles  points lost  samples/s  bit-MAC/s  certain cycles  layer errors mean (worst)",
            "sobol         8                70.00     69.00             -            -     1.50 k     2.50 G             4.0                0.12 (0.50)",
            "sobol        16                88.00     87.00           4.0         0.20     1.50 k     2.50 G             8.0              0.0625 (0.25)",
            "sobol        64                90.00     89.00          16.0         0.20     1.50 k     2.50 G            32.0            0.0156 (0.0625)",
            "",
            "bernoulli     8   52.00 [26.6, 77.4]     51.00             -            -     1.50 k     2.50 G             4.0                0.12 (0.50)",
            "bernoulli    16  70.00 [19.2, 100.0]     69.00             -            -     1.50 k     2.50 G             8.0              0.0625 (0.25)",
            "bernoulli    64   87.00 [74.3, 99.7]     86.00          16.0         0.20     1.50 k     2.50 G            32.0            0.0156 (0.0625)",
            "",
            "sobol: within one point of floating point from 64 bits on",
            "bernoulli: not within one point of floating point at any of these lengths",
        ]
    );
    assert_eq!(example().to_string(), text);
}

#[test]
fn columns_that_do_not_fit_are_omitted() {
    let evaluation = evaluation(vec![cell("sobol", 8, 0, 90)]);
    let heading = |width| evaluation.text(width).lines().nth(2).unwrap().to_owned();
    // Nine, four and ten characters with two between them are 27, and always there.
    assert_eq!(heading(0), "generator  bits  accuracy %");
    assert_eq!(heading(27 + 2 + 8), "generator  bits  accuracy %  agrees %");
    assert_eq!(heading(27 + 2 + 7), "generator  bits  accuracy %");
    assert_eq!(heading(27 + 10 + 2 + 12), "generator  bits  accuracy %  agrees %  early cycles");
    assert_eq!(heading(27 + 10 + 2 + 11), "generator  bits  accuracy %  agrees %");
}

#[test]
fn notes_follow_the_table() {
    let mut evaluation = evaluation(vec![cell("sobol", 8, 0, 90), cell("sobol", 16, 0, 90)]);
    let end = |evaluation: &aleatron_eval::Evaluation| {
        evaluation.text(80).rsplit_once("bits on\n").unwrap().1.to_owned()
    };
    assert_eq!(end(&evaluation), "");
    (evaluation.cells[0].clipped, evaluation.cells[1].clipped) = (3, 2);
    evaluation.warnings = vec!["careful".to_owned()];
    evaluation.unfinished = 2;
    assert_eq!(
        end(&evaluation),
        "clipped: 3 features outside what the first layer can encode\nwarning: careful\nunfinished: 2 cells to go\n"
    );
    // Generators without cells are not mentioned.
    evaluation.plan.generators.push(crate::support::generator("lfsr"));
    assert!(!evaluation.text(80).contains("lfsr"));
}

#[test]
fn csv_lines_have_every_figure() {
    let mut evaluation = evaluation(vec![cell("sobol", 8, 0, 90), cell("bernoulli", 16, 3, 88)]);
    evaluation.network.layers = vec!["a,b".to_owned()];
    evaluation.cells[1].clipped = 4;
    evaluation.cells[1].layers[0].saturated = 6;
    assert_eq!(
        evaluation.to_csv(),
        "generator,length,seed,accuracy,agreement,clipped,seconds,samples_per_second,bit_macs_per_second,\
         a;b mean error,a;b worst error,a;b saturated\n\
         sobol,8,0,0.9,0.89,0,1,1500,2500000000,0.125,0.5,0\n\
         bernoulli,16,3,0.88,0.87,4,1,1500,2500000000,0.0625,0.25,6\n"
    );
}
