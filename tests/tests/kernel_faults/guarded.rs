//! A kernel that is compiled once, and of which any statement that orders something can then be left out.
//!
//! Each such statement has a number and a condition before it: it is run unless its number is the one that stands in the
//! image, behind a mark. The number is read anew each time, so that the compiler knows as little of what is left out
//! as of what is not, and moves no load or store across either.

use optimized::emulated::{self, Form};
use optimized::kernel::{Kernel, Sources};

use super::statements::{Statement, statements_of};

/// The header of the emulated device that every kernel includes.
const HEADER: &str = "simt_host.h";

/// What stands in an image before the number of the statement that is left out, a 32-bit integer.
const MARK: &[u8; 24] = b"statement left out next\0";

/// The mark and the number, and how kernels read it; no access of the kernel's own, so the checker does not see it.
const LEFT_OUT: &str = r#"
static const volatile struct {
    char mark[24];
    int number;
} left_out_of_image = {"statement left out next", -1};

__attribute__((noinline, unused, no_sanitize("thread"))) static int left_out() {
    return left_out_of_image.number;
}
"#;

/// A kernel in the checked form whose statements that order something have conditions.
pub(super) struct Guarded {
    pub(super) kernel: Kernel,
    /// A statement's number is its place here.
    pub(super) statements: Vec<Statement>,
    image: Vec<u8>,
    /// Where in the image the number is.
    number_at: usize,
}

impl Guarded {
    pub(super) fn compile(kernel: &Kernel, sources: &Sources) -> Self {
        let statements = statements_of(kernel, sources);
        let guarded = statements.iter().enumerate().fold(sources.clone(), |sources, (number, statement)| {
            with_condition(&sources, statement, &format!("if (left_out() != {number}) "))
        });
        let header = sources.text(HEADER).expect("every kernel includes it").to_owned() + LEFT_OUT;
        let image = emulated::compile(kernel, &guarded.with(HEADER, header), Form::Checked);
        let image = image.unwrap_or_else(|error| panic!("{error}"));
        let marks: Vec<usize> = (0..image.len()).filter(|&at| image[at..].starts_with(MARK)).collect();
        let [mark] = marks[..] else { panic!("{}: the mark is in the image at {marks:?}", kernel.label()) };
        Self { kernel: *kernel, statements, image, number_at: mark + MARK.len() }
    }

    /// The image, of which this statement is left out; without one, none.
    pub(super) fn without(&self, left_out: Option<&Statement>) -> Vec<u8> {
        let number_of = |statement| self.statements.iter().position(|other| other == statement).expect("it is its own");
        let number = left_out.map_or(-1, |statement| i32::try_from(number_of(statement)).expect("a few"));
        let mut image = self.image.clone();
        image[self.number_at..][..size_of::<i32>()].copy_from_slice(&number.to_ne_bytes());
        image
    }
}

/// The sources with a condition before a statement, on its line, so that all lines keep their numbers.
fn with_condition(sources: &Sources, statement: &Statement, condition: &str) -> Sources {
    let text = sources.text(&statement.file).expect("the statement was found there");
    let conditional = |line: &str| {
        let (indent, rest) = line.split_at(line.len() - line.trim_start().len());
        format!("{indent}{condition}{rest}\n")
    };
    let lines = text.lines().enumerate();
    let lines = lines.map(|(i, line)| if i + 1 == statement.line { conditional(line) } else { format!("{line}\n") });
    sources.clone().with(&statement.file, lines.collect::<String>())
}
