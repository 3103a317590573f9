//! Values that a command line or a file names by a word, and what is said of words that mean nothing.

use std::str::FromStr;

use strum::VariantNames;

use crate::error::ParseError;

/// One of the words of an enum.
pub(crate) fn word<E: FromStr + VariantNames>(field: &str, value: &str) -> Result<E, ParseError> {
    value.parse().map_err(|_| ParseError::new(field, value, E::VARIANTS.join(" or ")))
}

/// A value whose error says the field, and not what kind of value it has.
pub(crate) fn of_field<V: FromStr<Err = ParseError>>(field: &str, value: &str) -> Result<V, ParseError> {
    value.parse().map_err(|error| ParseError { what: field.to_owned(), ..error })
}

pub(crate) fn word_or_config<E: FromStr + VariantNames>(field: &str, value: &str) -> Result<Option<E>, ParseError> {
    if value == "config" {
        return Ok(None);
    }
    let expected = || format!("{} or config", E::VARIANTS.join(" or "));
    value.parse().map(Some).map_err(|_| ParseError::new(field, value, expected()))
}

pub(crate) fn number<N: FromStr>(field: &str, value: &str) -> Result<Option<N>, ParseError> {
    match value {
        "config" => Ok(None),
        _ => value.parse().map(Some).map_err(|_| ParseError::new(field, value, "a number or config")),
    }
}

pub(crate) fn form<F: FromStr<Err: ToString>>(field: &str, value: &str) -> Result<Option<F>, ParseError> {
    match value {
        "config" => Ok(None),
        _ => value.parse().map(Some).map_err(|error: F::Err| ParseError::new(field, value, error.to_string())),
    }
}

pub(crate) fn or_config<N: ToString>(value: Option<N>) -> String {
    value.map_or_else(|| "config".to_owned(), |n| n.to_string())
}
