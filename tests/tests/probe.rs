//! `tools/src/probe`: orders, arithmetic and roundings that are known are told, of functions of the tests' own, of the reference's
//! orders, and of the kernels on the emulated device.

mod arithmetic;
mod kernels;
mod operators;
mod orders;

use ndarray::{Array2, ArrayD, Ix2};
use reference::Storage;
use tools::failure::Failure;
use tools::probe::found::Found;
use tools::probe::function::{Kind, Made};
use tools::probe::probe;
use tools::probe::question::Question;

/// What is found of a function that gives values in such a storage.
fn found(
    (kind, storage, size): (Kind, Storage, usize),
    output: Storage,
    mut function: impl FnMut(&[ArrayD<f64>]) -> ArrayD<f64>,
) -> Found {
    let question = Question { kind, storage, size: Some(size), precision: None };
    let mut made = |inputs: &[ArrayD<f64>]| {
        let values = function(inputs).mapv(|x| output.nearest(x));
        Ok(Made { values, storage: output })
    };
    probe(&mut made, &question).unwrap_or_else(|error| panic!("{kind}: {error}"))
}

/// What is found of a function that makes a number of each row and each column, a dot product.
fn found_of_dots(storage: Storage, size: usize, output: Storage, dot: impl Fn(&[f64], &[f64]) -> f64) -> Found {
    found((Kind::Product, storage, size), output, |inputs| {
        let (a, b) = (matrix(&inputs[0]), matrix(&inputs[1]));
        let columns: Vec<Vec<f64>> = b.columns().into_iter().map(|column| column.to_vec()).collect();
        // The columns of all that is asked are alike.
        let of = |row: &[f64]| {
            let first = dot(row, &columns[0]);
            columns
                .iter()
                .map(|column| if *column == columns[0] { first } else { dot(row, column) })
                .collect::<Vec<_>>()
        };
        let values = a.rows().into_iter().flat_map(|row| of(&row.to_vec())).collect();
        Array2::from_shape_vec((a.nrows(), b.ncols()), values).expect("rows and columns").into_dyn()
    })
}

fn matrix(input: &ArrayD<f64>) -> Array2<f64> {
    input.clone().into_dimensionality::<Ix2>().expect("a matrix")
}

/// What was said of something.
fn said<'f>(found: &'f Found, what: &str) -> &'f str {
    let line = found.lines.iter().find(|(said, _)| *said == what);
    line.map_or_else(|| panic!("nothing is said of {what}:\n{found}"), |(_, words)| words)
}

/// The value of a field, where it was set.
fn field<'f>(found: &'f Found, name: &str) -> Option<&'f str> {
    found.fields.iter().find(|(field, _)| *field == name).map(|(_, value)| &**value)
}

#[test]
fn values_of_another_shape_are_refused() {
    let question = Question { kind: Kind::Sum, storage: Storage::F32, size: None, precision: None };
    let mut whole = |inputs: &[ArrayD<f64>]| Ok(Made { values: inputs[0].clone(), storage: Storage::F32 });
    let error = probe(&mut whole, &question).expect_err("a sum has a value for each row");
    assert_eq!(error.to_string(), "probe: a sum gave values of shape [64, 256], expected [64] of inputs [64, 256]");
    assert_eq!(error.advice(), Some("wrap the function as f(x [64, size]) = Σⱼ xᵢⱼ [64]"));
}

#[test]
fn what_the_function_fails_with_is_what_is_given() {
    let question = Question { kind: Kind::Norm, storage: Storage::F32, size: Some(64), precision: None };
    let error = probe(&mut |_| Err(Failure::new("out of memory")), &question).expect_err("it fails");
    assert_eq!(error.to_string(), "out of memory");
}

#[test]
fn sizes_and_storages_that_cannot_be_are_refused() {
    let ask = |kind, storage, size| {
        let question = Question { kind, storage, size: Some(size), precision: None };
        probe(&mut |_| unreachable!("it is refused before"), &question).expect_err("refused").to_string()
    };
    assert_eq!(ask(Kind::Sum, Storage::F32, 7), "probe: size 7, expected 8 to 65536");
    let of_two = "probe: size 96, expected 8 to 65536, a power of two";
    assert_eq!(ask(Kind::Attention, Storage::F32, 96), of_two);
    assert!(ask(Kind::Sum, Storage::E4m3, 64).contains("values of 8 bits"));
}
