//! What is regular in an order of additions, in words.

use std::fmt;

use super::tree::Tree;

/// The form of a tree, in which terms have no names but their distance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Form {
    /// A term.
    Term,
    /// Parts that are added at once.
    AtOnce {
        /// How many.
        parts: usize,
        /// Of what form each is.
        each: Box<Form>,
        /// How far apart their first terms are; 0 where that differs.
        apart: usize,
    },
    /// So many parts at a step are added to the sum of those before.
    Steps {
        /// What the first step adds to.
        first: Box<Form>,
        /// How many steps.
        steps: usize,
        /// How many parts each adds.
        width: usize,
        /// Of what form each part is.
        each: Box<Form>,
        /// How far apart the first terms of all parts are; 0 where that differs.
        apart: usize,
    },
    /// Parts of several forms that are added at once.
    Mixed(Vec<Form>),
}

impl Form {
    /// The form of a tree.
    pub fn of(tree: &Tree) -> Self {
        let Tree::Sum(parts) = tree else { return Form::Term };
        let Some((steps, width, each, first)) = steps(tree) else {
            let forms: Vec<Form> = parts.iter().map(Form::of).collect();
            return match &forms[..] {
                [one, others @ ..] if others.iter().all(|other| other == one) => {
                    let apart = distance(parts.iter());
                    Form::AtOnce { parts: parts.len(), each: Box::new(one.clone()), apart }
                }
                _ => Form::Mixed(forms),
            };
        };
        let added = tree.added(steps);
        let apart = match first {
            Tree::Sum(own) if added.iter().all(|part| part.term().is_some()) => {
                distance(own.iter().chain(added.iter().copied()))
            }
            Tree::Term(_) | Tree::Sum(_) => distance(std::iter::once(first).chain(added.iter().copied())),
        };
        Form::Steps { first: Box::new(Form::of(first)), steps, width, each: Box::new(each), apart }
    }

    /// How many terms it has.
    pub fn terms(&self) -> usize {
        match self {
            Form::Term => 1,
            Form::AtOnce { parts, each, .. } => parts * each.terms(),
            Form::Steps { first, steps, width, each, .. } => first.terms() + steps * width * each.terms(),
            Form::Mixed(forms) => forms.iter().map(Form::terms).sum(),
        }
    }
}

/// Steps from the outermost inwards that add as many parts of one form each, two steps at least, or one to as many such parts:
/// how many, how many parts each adds, their form, and what the first of them adds to.
fn steps(tree: &Tree) -> Option<(usize, usize, Form, &Tree)> {
    let (mut inner, mut steps, mut known) = (tree, 0, None);
    while let Some((largest, others)) = inner.split() {
        let terms = known.as_ref().map_or(others[0].count(), |(_, form): &(usize, Form)| form.terms());
        if others.iter().any(|other| other.count() != terms) {
            break;
        }
        let forms: Vec<Form> = others.iter().map(|other| Form::of(other)).collect();
        let own = (others.len(), forms[0].clone());
        if forms.iter().any(|form| *form != forms[0]) || *known.get_or_insert_with(|| own.clone()) != own {
            break;
        }
        (inner, steps) = (largest, steps + 1);
    }
    let (width, each) = known?;
    let begins = || matches!(Form::of(inner), Form::AtOnce { parts, each: own, .. } if parts == width && *own == each);
    (steps > 1 || width > 1 && begins()).then_some((steps, width, each, inner))
}

impl Tree {
    /// The part of a sum that has most terms, and the others.
    fn split(&self) -> Option<(&Tree, Vec<&Tree>)> {
        let Tree::Sum(parts) = self else { return None };
        let (at, largest) = parts.iter().enumerate().rev().max_by_key(|(_, part)| part.count())?;
        Some((largest, parts.iter().enumerate().filter(|(i, _)| *i != at).map(|(_, part)| part).collect()))
    }

    /// What the innermost to the outermost of so many steps add.
    fn added(&self, steps: usize) -> Vec<&Tree> {
        let Some((largest, others)) = self.split().filter(|_| steps > 0) else { return Vec::new() };
        let mut added = largest.added(steps - 1);
        added.extend(others);
        added
    }
}

/// How far apart the first terms of trees are, in order; 0 where that differs.
fn distance<'t>(trees: impl Iterator<Item = &'t Tree>) -> usize {
    let mut firsts: Vec<usize> = trees.filter_map(|tree| tree.terms().into_iter().min()).collect();
    firsts.sort_unstable();
    let apart = firsts.get(1).map_or(0, |second| second - firsts[0]);
    let all = firsts.windows(2).all(|pair| pair[1] - pair[0] == apart);
    if all { apart } else { 0 }
}

/// `, 8 apart`, where that is told and they are no neighbours.
fn spread(apart: usize, each: &Form) -> String {
    if *each == Form::Term && apart > 1 { format!(", {apart} apart") } else { String::new() }
}

/// In words, from the outside inwards.
impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Form::Term => f.write_str("a term"),
            Form::AtOnce { parts: 2, each, apart } => {
                let (mut halvings, mut inner, mut apart) = (1, each, apart);
                while let Form::AtOnce { parts: 2, each, apart: own } = &**inner {
                    (halvings, inner, apart) = (halvings + 1, each, own);
                }
                write!(f, "{} in pairs{}", 1_u64 << halvings, spread(*apart, inner))?;
                if **inner == Form::Term { Ok(()) } else { write!(f, ", each {inner}") }
            }
            Form::AtOnce { parts, each, apart } => {
                write!(f, "{parts} at once{}", spread(*apart, each))?;
                if **each == Form::Term { Ok(()) } else { write!(f, ", each {each}") }
            }
            Form::Steps { first, steps, width, each, apart } => {
                let all = first.terms() / each.terms() + steps * width;
                let begins_alike = first == each
                    || matches!(&**first, Form::AtOnce { parts, each: own, .. } if own == each && parts == width);
                let how = if *width == 1 {
                    "one after another".to_owned()
                } else {
                    format!("in steps that add {width} at once")
                };
                if begins_alike {
                    write!(f, "{all} {how}{}", spread(*apart, each))?;
                } else {
                    write!(f, "{} {how}{} to {first}", steps * width, spread(*apart, each))?;
                }
                if **each == Form::Term { Ok(()) } else { write!(f, ", each {each}") }
            }
            Form::Mixed(forms) => {
                let sums = forms.iter().filter(|form| **form != Form::Term).map(|form| format!("({form})"));
                let mut parts: Vec<String> = sums.collect();
                match forms.len() - parts.len() {
                    0 => {}
                    1 => parts.push("a term".into()),
                    terms => parts.push(format!("{terms} terms")),
                }
                f.write_str(&parts.join(" + "))
            }
        }
    }
}
