//! `--tokens` on the command line.

use std::path::Path;

use fixtures::activations::manifest::Manifest;
use fixtures::tokens::Tokens;
use reference::config::Config;

use crate::failure::Failure;
use crate::session::model::Model;

/// Tokens of a prompt, and of the decode after it where that is known.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Prompt {
    /// The prompt.
    pub tokens: Vec<u32>,
    /// Tokens decoded after it.
    pub decoded: Vec<u32>,
}

pub(super) const HELP: &str = "give --tokens 1,2,3 or --tokens @file.json, a list or an object with `tokens`";

/// Where tokens come from that are in no file.
pub(super) const TYPED: &str = "--tokens";

/// Whether text is what a file of tokens holds: an object, or lists in a list.
pub(super) fn is_json(text: &str) -> bool {
    let nested = text.trim_start().strip_prefix('[').is_some_and(|rest| rest.trim_start().starts_with('['));
    nested || text.trim_start().starts_with('{')
}

impl Prompt {
    /// From `--tokens`: numbers with commas or blanks between them, in brackets or not, or `@` and the name of a file, or what
    /// such a file holds.
    pub fn parse(text: &str) -> Result<Self, Failure> {
        if is_json(text) {
            let Tokens { prompt, decoded } = Tokens::parse(Path::new(TYPED), text)?;
            return Ok(Prompt { tokens: prompt, decoded });
        }
        let Some(file) = text.strip_prefix('@') else {
            if text.trim().is_empty() {
                return Prompt::default().nonempty("--tokens");
            }
            let list = text.trim().strip_prefix('[').and_then(|list| list.strip_suffix(']')).unwrap_or(text);
            let separated = list.split([',', ' ', '\n']).filter(|token| !token.is_empty());
            if list.split(',').any(|token| token.trim().is_empty()) {
                let problem =
                    format!("--tokens {text}: nothing stands between two commas, or beside one, expected token ids");
                return Err(Failure::new(problem).help(HELP));
            }
            let tokens = separated.map(str::parse).collect::<Result<_, _>>().map_err(|error| {
                let failure = Failure::new(format!("--tokens {text}: {error}, expected token ids"));
                if Path::new(text).is_file() {
                    failure.help(format!("a file has @ before its name: --tokens @{text}"))
                } else {
                    failure.help(HELP)
                }
            })?;
            return Prompt { tokens, decoded: Vec::new() }.nonempty("--tokens");
        };
        let Tokens { prompt, decoded } = Tokens::load(Path::new(file))?;
        Ok(Prompt { tokens: prompt, decoded })
    }

    /// From `--tokens`, or else from the built-in case, or else from the dump's manifest.
    pub fn find(given: Option<&str>, model: &Model, manifest: Option<&Manifest>) -> Result<Self, Failure> {
        if let Some(text) = given {
            return Prompt::parse(text);
        }
        if let Some(case) = &model.case {
            let decoded = case.decode.as_ref().map(|decode| decode.tokens.clone()).unwrap_or_default();
            return Ok(Prompt { tokens: case.tokens.clone(), decoded });
        }
        let tokens = manifest.and_then(|manifest| manifest.tokens.clone()).unwrap_or_default();
        let decoded = manifest.and_then(|manifest| manifest.decode.as_ref());
        let decoded = decoded.map(|decode| decode.tokens.clone()).unwrap_or_default();
        if tokens.is_empty() {
            return Err(Failure::new(format!("{}: no tokens are known", model.name)).help(HELP));
        }
        Ok(Prompt { tokens, decoded })
    }

    /// Demands that a model can read the prompt and what is decoded after it: `more` tokens.
    pub fn check(&self, config: &Config, more: usize) -> Result<(), Failure> {
        let Config { vocab_size, max_position_embeddings, .. } = *config;
        let all = || self.tokens.iter().chain(&self.decoded);
        if let Some((position, token)) = all().enumerate().find(|(_, token)| **token as usize >= vocab_size) {
            let problem = format!("token {token} at position {position}: expected below vocab_size = {vocab_size}");
            return Err(Failure::new(problem).help("were the tokens made by this model's tokenizer?"));
        }
        // The last decoded token is not read.
        let read = self.tokens.len() + more.saturating_sub(1);
        if read > max_position_embeddings {
            let (prompt, limit) = (self.tokens.len(), max_position_embeddings);
            let problem =
                format!("a prompt of {prompt} tokens, and {more} decoded: expected at most {limit} positions");
            return Err(Failure::new(problem).help("shorten the prompt; the model has no more max_position_embeddings"));
        }
        Ok(())
    }

    fn nonempty(self, from: &str) -> Result<Self, Failure> {
        if self.tokens.is_empty() {
            return Err(Failure::new(format!("{from}: the prompt is empty, expected at least one token")).help(HELP));
        }
        Ok(self)
    }
}
