//! Values and counts for reading.

/// Significant digits of a value, at least, and as many as tell any two apart.
const DIGITS: std::ops::RangeInclusive<usize> = 7..=17;

/// Two values in as many digits as tell one from the other.
pub(crate) fn apart(a: f64, b: f64) -> [String; 2] {
    let written = |digits: usize| [a, b].map(|x| value(x, digits));
    let found = DIGITS.map(written).find(|[x, y]| x != y || a == b);
    found.unwrap_or_else(|| written(*DIGITS.end()))
}

/// A value, with an exponent only where it would be long without.
fn value(x: f64, digits: usize) -> String {
    let scientific = format!("{x:.*e}", digits - 1);
    let exponent = scientific.split_once('e').and_then(|(_, exponent)| exponent.parse::<i32>().ok());
    match exponent {
        _ if x == 0.0 => "0".to_owned(),
        Some(exponent @ -4..=6) => {
            let decimals = (i32::try_from(digits).expect("few") - 1 - exponent).max(0);
            format!("{x:.*}", usize::try_from(decimals).expect("0 or more"))
        }
        _ => scientific,
    }
}

/// A number of things: 1 fault, 2 faults.
pub(crate) fn counted(n: usize, thing: &str) -> String {
    if n == 1 { format!("1 {thing}") } else { format!("{n} {}", plural(thing)) }
}

/// Several of a thing: faults, patches, queries, channels of head 1.
pub(crate) fn plural(thing: &str) -> String {
    match thing.split_once(" of ") {
        Some((noun, rest)) => format!("{} of {rest}", plural(noun)),
        None if thing.ends_with("ch") => format!("{thing}es"),
        None => thing.strip_suffix('y').map_or_else(|| format!("{thing}s"), |stem| format!("{stem}ies")),
    }
}

/// "layer 3", "layers 3 and 5", "layers 1, 3 and 5".
pub(crate) fn numbered(what: &str, numbers: &[usize]) -> String {
    let all: Vec<String> = numbers.iter().map(ToString::to_string).collect();
    match &all[..] {
        [] => format!("no {what}"),
        [one] => format!("{what} {one}"),
        [most @ .., last] => format!("{} {} and {last}", plural(what), most.join(", ")),
    }
}
